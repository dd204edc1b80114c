// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import "tributary.dev/tributary/clusters/evidence"

// How a member stands, and what is kept of it, is said in the words of package evidence.
type (
	// Hold is something that is kept.
	Hold = evidence.Hold
	// Released counts what a release let go.
	Released = evidence.Released
	// Standing is what stands of a member in one replica.
	Standing = evidence.Standing
)

// The states of a member that has not been read whole.
const (
	Connecting = evidence.Connecting
	Syncing    = evidence.Syncing
)
