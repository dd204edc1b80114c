// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import "tributary.dev/tributary/clusters/evidence"

// How a member stands, and what is kept of it, is said in the words of package evidence.
type (
	// State is how a member stands.
	State = evidence.Condition
	// Reason says more than a state.
	Reason = evidence.Reason
	// Hold is something that is kept.
	Hold = evidence.Hold
	// HoldReason is why.
	HoldReason = evidence.HoldReason
	// Released counts what a release let go.
	Released = evidence.Released
	// Standing is what stands of a member in one replica.
	Standing = evidence.Standing
)

// The states of a member.
const (
	Connecting = evidence.Connecting
	Syncing    = evidence.Syncing
	Live       = evidence.Live
	Silent     = evidence.Silent
	Forbidden  = evidence.Forbidden
	Suspect    = evidence.Suspect
	Stopped    = evidence.Ended
)

// ReasonNone is that of a member with which nothing is wrong.
const ReasonNone = evidence.ReasonNone
