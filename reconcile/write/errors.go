// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
)

// ErrStale says that a plan was made from what no longer stands. What stands
// has been read since: plan again at once.
var ErrStale = errors.New("the ingress cluster has changed since the plan was made")

// ErrUnclear says that the answer to a write did not tell what came of it. What stands
// has been read since.
var ErrUnclear = errors.New("it is not clear from the answer whether the write was done")

// errUnchanged says that the server answered as if the object were not what the plan was
// compared with, though it is: an admission webhook chooses its codes freely.
var errUnchanged = errors.New("refused, though it stands unchanged")

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
	case kube.NotAllowed(err):
		return answer{result: metrics.WriteForbidden}
	case Refused(err):
		return answer{result: metrics.WriteInvalid}
	case apierrors.IsTooManyRequests(err):
		return answer{result: metrics.WriteThrottled}
	case kube.TimedOut(err):
		return answer{result: metrics.WriteTimeout, verify: true, unclear: true}
	case kube.RefusedConnection(err):
		return answer{result: metrics.WriteFailed} // nothing was sent
	}
	return answer{result: metrics.WriteFailed, verify: true, unclear: true}
}

// Refused reports that the server would not take an object for what is in it
// (kube.Inadmissible), by its own words about a write of which nothing else is known.
func Refused(err error) bool {
	return errors.Is(err, errUnchanged) || kube.Inadmissible(err) && !errors.Is(err, ErrStale) && !errors.Is(err, ErrUnclear)
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

// Answered reports whether a server had a part in the outcome, rather than only
// the way to it.
func Answered(err error) bool {
	return kube.Answered(err) || errors.Is(err, ErrStale) || errors.Is(err, ErrUnclear)
}
