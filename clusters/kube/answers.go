// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What the error of a request says, for members and the ingress cluster alike: whether
// somebody answered, whether it was for who asked, for what was asked, or for neither.

// NotAllowed reports a refusal for lack of authentication or authorisation, or by
// admission. It says nothing about what exists.
func NotAllowed(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// Answered reports whether a server had a part in the outcome, rather than only
// the way to it.
func Answered(err error) bool {
	_, ok := errors.AsType[*apierrors.StatusError](err)
	return ok
}

// RefusedConnection reports that no server answered at the address.
func RefusedConnection(err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
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

// Inadmissible reports that the server would not take an object for what is in it, so
// that the same object will be refused again: validation, or an admission plug-in, be
// it a quota, a policy or a webhook.
func Inadmissible(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return !ByAuthorizer(err) && !NamespaceTerminating(err)
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict:
		return false
	case http.StatusTooManyRequests:
		return ByWebhook(err)
	default:
		return code >= 400 && code < 500 || tooLargeToStore(err) || ByWebhook(err)
	}
}

// ByWebhook reports that an admission webhook has decided against what it was asked about,
// by whatever code it chose; one that cannot be asked fails otherwise. Only the text tells.
// Source: k8s.io/apiserver, admission/plugin/webhook/errors.ToStatusErr.
func ByWebhook(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && strings.HasPrefix(status.ErrStatus.Message, "admission webhook ") && strings.Contains(status.ErrStatus.Message, " denied the request")
}

// NoDryRun reports that a webhook of admission is not asked about a request that is not
// made, which says nothing about what is in it. Source: k8s.io/apiserver,
// admission/plugin/webhook/errors.NewDryRunUnsupportedErr.
func NoDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// TooLarge reports that an object was refused for its size.
func TooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || tooLargeToStore(err)
}

// tooLargeToStore reports that etcd or the way to it took an object for too large.
// API servers pass that on as a failure of their own, and only the text tells.
// Source: etcd, rpctypes.ErrRequestTooLarge; gRPC, the limit on a message's size.
func tooLargeToStore(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code == http.StatusInternalServerError &&
		(strings.Contains(status.ErrStatus.Message, "etcdserver: request is too large") ||
			strings.Contains(status.ErrStatus.Message, "trying to send message larger than max"))
}

// Denied reports an answer that an API server gives to anything while it starts or
// is not well, whatever the object.
func Denied(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || NamespaceTerminating(err) {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
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
		if ByWebhook(e) { // it is no matter of time
			return 0
		}
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
