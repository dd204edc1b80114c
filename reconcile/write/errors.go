// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
)

// ErrStale says that a plan was made from what no longer stands. What stands
// has been read since: plan again at once.
var ErrStale = errors.New("the ingress cluster has changed since the plan was made")

// ErrUnclear says that the answer to a write did not tell what came of it. What stands
// has been read since.
var ErrUnclear = errors.New("it is not clear from the answer whether the write was done")

// ErrNamespaceTerminating says that nothing can be created in a namespace until
// it is gone.
var ErrNamespaceTerminating = errors.New("the namespace is being terminated")

// Error is a write to the ingress cluster that did not succeed.
type Error struct {
	Verb plan.Verb
	Kind plan.Kind
	// Object is "namespace/name".
	Object string
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s %s in the ingress cluster: %v", e.Verb, e.Kind, e.Object, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// answer is what an answer means for the object that was written.
type answer struct {
	result metrics.WriteResult
	// look: the answer tells that we know too little (a conflict), or it does not
	// tell what happened (a time-out, a cut connection, a server's failure): read
	// the object before anything else is done about it.
	verify bool
	// unclear: it is the latter.
	unclear bool
}

func classify(err error) answer {
	switch {
	case err == nil:
		return answer{result: metrics.WriteOK}
	case apierrors.IsConflict(err):
		return answer{result: metrics.WriteConflict, verify: true}
	case apierrors.IsAlreadyExists(err):
		return answer{result: metrics.WriteExists, verify: true}
	case apierrors.IsNotFound(err):
		return answer{result: metrics.WriteNotFound, verify: true}
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return answer{result: metrics.WriteForbidden}
	case Refused(err):
		return answer{result: metrics.WriteInvalid}
	case apierrors.IsTooManyRequests(err):
		return answer{result: metrics.WriteThrottled}
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), errors.Is(err, context.DeadlineExceeded), isNetTimeout(err):
		return answer{result: metrics.WriteTimeout, verify: true, unclear: true}
	case RefusedConnection(err):
		return answer{result: metrics.WriteFailed} // nothing was sent
	}
	return answer{result: metrics.WriteFailed, verify: true, unclear: true}
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

// Refused reports that the server would not take an object for what is in it, so
// that the same object will be refused again: validation, or an admission plug-in, be
// it a quota, a policy or a webhook.
func Refused(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || errors.Is(err, ErrStale) || errors.Is(err, ErrUnclear) {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return !Forbidden(err) && !namespaceTerminating(err)
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500 || tooLargeToStore(err)
	}
}

// Forbidden reports that a request was turned away for who made it, before anybody
// looked at what is in it: by authentication or by an authorizer. Only the text tells
// the latter from admission. Source: k8s.io/apiserver, responsewriters.Forbidden.
func Forbidden(err error) bool {
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

// TooLarge reports that an object was refused for its size.
func TooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || tooLargeToStore(err)
}

// Causes returns what a server said about a refused object: the fields, and
// the message as a whole.
func Causes(err error) (causes []plan.Cause, message string) {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return nil, Shortened(err.Error())
	}
	if d := status.ErrStatus.Details; d != nil {
		for _, c := range d.Causes {
			causes = append(causes, plan.Cause{Field: c.Field, Message: c.Message})
		}
	}
	return causes, Shortened(status.ErrStatus.Message)
}

// maxRefusal bounds what is repeated of a server's answer, which can name every
// address of an object.
const maxRefusal = 300

func Shortened(s string) string {
	if len(s) > maxRefusal {
		return strings.ToValidUTF8(s[:maxRefusal], "") + "…"
	}
	return s
}

func isNetTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// RefusedConnection reports that no server answered at the address.
func RefusedConnection(err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Answered reports whether a server had a part in the outcome, rather than only
// the way to it.
func Answered(err error) bool {
	_, ok := errors.AsType[*apierrors.StatusError](err)
	return ok || errors.Is(err, ErrStale) || errors.Is(err, ErrUnclear)
}

// Denied reports an answer that an API server gives to anything while it starts or
// is not well, whatever the object.
func Denied(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || namespaceTerminating(err) {
		return false
	}
	switch code := status.ErrStatus.Code; code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
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

// namespaceTerminating reports a create that was refused because of its namespace.
func namespaceTerminating(err error) bool {
	return apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
