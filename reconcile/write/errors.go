// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
)

// Meaning is what the error of Send means.
//
//   - WriteOK: there is none, the write was done.
//   - WriteConflict, WriteExists, WriteNotFound: it was compared with what is not current any
//     more. Send has read what is.
//   - WriteThrottled: the server has too much to do; see kube.RetryAfter.
//   - WriteForbidden, WriteInvalid: the server refuses what is in the object, or who sends
//     it, and will again.
//   - WriteTimeout: there was no answer in time. WriteFailed: the connection broke, or the answer
//     tells nothing, as when a webhook cannot be reached. After both it is not known whether the
//     write was done; the stream shows it if so.
func Meaning(err error) metrics.WriteResult {
	switch {
	case err == nil:
		return metrics.WriteOK
	case apierrors.IsAlreadyExists(err):
		return metrics.WriteExists
	case apierrors.IsConflict(err):
		return metrics.WriteConflict
	case apierrors.IsNotFound(err):
		return metrics.WriteNotFound
	case apierrors.IsTooManyRequests(err):
		return metrics.WriteThrottled
	case kube.NotAllowed(err):
		return metrics.WriteForbidden
	case kube.TimedOut(err):
		return metrics.WriteTimeout
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Code >= 400 && status.ErrStatus.Code < 500 {
		return metrics.WriteInvalid
	}
	return metrics.WriteFailed
}

// Lost reports whether the connection to the server broke: the error says nothing of the object.
func Lost(err error) bool {
	_, answered := errors.AsType[*apierrors.StatusError](err)
	return !answered && Meaning(err) == metrics.WriteFailed
}

// Outdated reports whether the action was compared with what is not current any more: the
// object is to be read.
func Outdated(result metrics.WriteResult) bool {
	return result == metrics.WriteConflict || result == metrics.WriteExists || result == metrics.WriteNotFound
}

// TakesLess reports whether the removals of the object are to be sent by themselves next: the answer
// was none of success, not found, a conflict and too many requests.
func TakesLess(result metrics.WriteResult) bool {
	return result != metrics.WriteOK && result != metrics.WriteThrottled && !Outdated(result)
}
