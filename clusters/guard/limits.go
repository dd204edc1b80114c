// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import "time"

// Limits say how much of a member may go on which evidence. The zero value holds
// back nothing.
type Limits struct {
	// Lists is whether lists are judged at all.
	Lists bool
	// A list may take the greater of MinEndpoints and Percent of the member's ready
	// endpoints at once. Up to ConfirmPercent, a second list that was read
	// ConfirmAfter later or more confirms it; beyond that nobody but an operator does.
	MinEndpoints   int
	Percent        int
	ConfirmPercent int
	ConfirmAfter   time.Duration
	// When more than PanicPercent of the member's ready pods, and at least
	// MinEndpoints, turn not ready within Window, they are kept ready. 0 or 100 is
	// never.
	PanicPercent int
	// HoldSilent is how long a pod stays ready that is not ready only because its
	// node fell silent. 0 is not at all.
	HoldSilent time.Duration
}

// Window is the time within which losses add up.
const Window = time.Minute

// over reports whether n of total is more than a share of it and more than the
// number that is always allowed.
func (l Limits) over(n, total, percent int) bool {
	return n > l.MinEndpoints && exceeds(n, total, percent)
}

// exceeds reports whether n is more than percent of total.
func exceeds(n, total, percent int) bool { return n*100 > total*percent }
