// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import "tributary.dev/tributary/clusters/evidence"

// The words of package evidence, as the tests of members use them.
type (
	State      = evidence.Condition
	Reason     = evidence.Reason
	HoldReason = evidence.HoldReason
)

const (
	Live       = evidence.Live
	Silent     = evidence.Silent
	Forbidden  = evidence.Forbidden
	Suspect    = evidence.Suspect
	ReasonNone = evidence.ReasonNone
)
