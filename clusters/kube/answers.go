// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// ErrOtherCluster is another cluster at the address. Nothing it shows is used.
	ErrOtherCluster = errors.New("another cluster answers")
	// ErrUndecodable is an object that cannot be decoded.
	ErrUndecodable = errors.New("what the cluster sent cannot be decoded")

	// errNoSession is a session or an access that has been closed.
	errNoSession = errors.New("the cluster is not connected")
)

// NotAllowed reports a refusal for lack of authentication or authorisation, or by
// admission. It says nothing about what exists.
func NotAllowed(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// TimedOut reports that an answer did not come in time, or that the server says so.
func TimedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// RetryAfter is for how long a server asked us to wait, at most a minute: the error page of a
// proxy may ask for hours. It is 0 if none did.
func RetryAfter(err error) time.Duration {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return 0
	}
	if seconds, asked := apierrors.SuggestsClientDelay(status); asked && seconds > 0 {
		return min(time.Duration(seconds)*time.Second, time.Minute)
	}
	if status.ErrStatus.Code == http.StatusTooManyRequests {
		return time.Second
	}
	return 0
}
