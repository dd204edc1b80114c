// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrOtherCluster is another cluster at the address. Nothing it shows is used.
var ErrOtherCluster = errors.New("another cluster answers")

// ErrTooLarge is an answer of more bytes than are read.
var ErrTooLarge = errors.New("the answer is larger than allowed")

// ErrUndecodable is an object that makes no sense.
var ErrUndecodable = errors.New("what the cluster sent cannot be decoded")

// errNoSession is a session or an access that has been closed.
var errNoSession = errors.New("the cluster is not connected")

// errFrozen is a watch that said nothing past its end.
var errFrozen = errors.New("the watch is frozen: it did not end in time")

// isExpired reports whether the revision or continue token is no longer known.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// NotAllowed reports a refusal for lack of authentication or authorisation, or by
// admission. It says nothing about what exists.
func NotAllowed(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// TimedOut reports that an answer did not come in time, or that it was one of that kind.
func TimedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// ByAuthorizer reports that a request was turned away for who made it, before anybody
// looked at what is in it: by authentication or by an authorizer. Only the text tells
// the latter from admission. Source: k8s.io/apiserver, responsewriters.Forbidden.
func ByAuthorizer(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	message := status.ErrStatus.Message
	switch status.ErrStatus.Code {
	case http.StatusUnauthorized:
		return !strings.Contains(message, "denied")
	case http.StatusForbidden:
		return strings.Contains(message, "User \"") && strings.Contains(message, " cannot ")
	}
	return false
}

// NamespaceTerminating reports a create that was refused because of its namespace.
func NamespaceTerminating(err error) bool {
	return apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// maxRetryAfter bounds what is believed of a Retry-After: a page that stands before
// the API server may ask for hours.
const maxRetryAfter = time.Minute

// RetryAfter is the longest time for which servers asked us to wait in an error and
// all that it joins; 0 if none did.
func RetryAfter(err error) (wait time.Duration) {
	switch e := err.(type) {
	case *apierrors.StatusError:
		if seconds, asked := apierrors.SuggestsClientDelay(e); asked && seconds > 0 {
			return min(time.Duration(seconds)*time.Second, maxRetryAfter)
		}
		if e.ErrStatus.Code == http.StatusTooManyRequests {
			return time.Second
		}
	case interface{ Unwrap() error }:
		return RetryAfter(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			wait = max(wait, RetryAfter(one))
		}
	}
	return wait
}
