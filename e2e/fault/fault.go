// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is what happens to requests. Of the fields below Times, the first that
// is set counts; the last three may be set together.
type Fault struct {
	// Match chooses the requests; nil: all.
	Match Match
	// Share is which share of them it meets, by the proxy's dice; 0: all.
	Share float64
	// Times is how many it meets at most; 0: no limit.
	Times int

	// Hang never answers.
	Hang bool
	// CutBefore cuts the connection without asking the server, CutAfter once the
	// server has done what was asked.
	CutBefore, CutAfter bool
	// Status is answered without asking the server, with RetryAfter in seconds if
	// that is not 0.
	Status, RetryAfter int
	// Hide lets objects be missing, in lists and in watches.
	Hide func(metav1.Object) bool
	// Echo sends each event of a watch twice, then the one before it again, then a
	// bookmark.
	Echo bool
	// Life is after what time a watch ends.
	Life time.Duration

	met atomic.Int64
}

// Met is how many requests the fault has met.
func (f *Fault) Met() int { return int(f.met.Load()) }

// refuse answers as an apiserver does.
func (f *Fault) refuse(w http.ResponseWriter) {
	reason := map[int]metav1.StatusReason{
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusGone: metav1.StatusReasonExpired, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	}[f.Status]
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(f.Status), Reason: reason, Message: "refused on purpose",
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(f.RetryAfter)}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(status) // a client that went away is no news
}
