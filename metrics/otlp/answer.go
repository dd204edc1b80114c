// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// verdict is what a collector's answer asks of the exporter.
type verdict uint8

const (
	// taken: all of it.
	taken verdict = iota
	// partly taken: some spans were rejected, or all taken and a warning given. The
	// specification forbids to send it again.
	partly
	// away: no answer, or one that asks to send it again later.
	away
	// refused: sent again it would be refused again.
	refused
)

// accepts is whether the collector has what was sent.
func (v verdict) accepts() bool { return v == taken || v == partly }

// judge reads the answer from what a library made of it. rejected is how many
// spans were not taken of those that were partly.
func judge(err error) (v verdict, rejected int64) {
	if err == nil {
		return taken, 0
	}
	if n, found := partialSuccess(err); found {
		return partly, n
	}
	if answer, isGRPC := status.FromError(err); isGRPC {
		if asksAgain(answer) {
			return away, 0
		}
		return refused, 0
	}
	if unheard(err) || asksAgainOverHTTP(err) {
		return away, 0
	}
	return refused, 0
}

// asksAgain tells the codes that the specification of OTLP has sent again.
func asksAgain(answer *status.Status) bool {
	switch answer.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return true
	case codes.ResourceExhausted:
		// Only from a server that says when it will have room again.
		for _, detail := range answer.Proto().GetDetails() {
			if detail.MessageName() == "google.rpc.RetryInfo" {
				return true
			}
		}
	}
	return false
}

// unheard tells a request whose answer did not come whole. Every fault of the
// network has the methods of net.Error, and so has a time-out.
func unheard(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.Canceled) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// The libraries tell the rest by types of their own that no other package can
// name. Each is known here by what it alone has; TestVerdicts holds that against
// real answers, so that another version of a library cannot change it unseen.

// asksAgainOverHTTP tells an answer that the library would have sent again: 429,
// 502, 503 or 504.
func asksAgainOverHTTP(err error) bool {
	_, found := errors.AsType[interface {
		error
		As(target any) bool
		Unwrap() error
	}](err)
	return found
}

// partialSuccess finds the partial success of an answer, and how many spans it
// says were rejected.
func partialSuccess(err error) (rejected int64, found bool) {
	partial, found := errors.AsType[interface {
		error
		As(target any) bool
		Is(target error) bool
	}](err)
	if !found {
		return 0, false
	}
	items := reflect.Indirect(reflect.ValueOf(partial))
	if items.Kind() != reflect.Struct {
		return 0, false
	}
	if items = items.FieldByName("RejectedItems"); !items.IsValid() || !items.CanInt() {
		return 0, false
	}
	return items.Int(), true
}
