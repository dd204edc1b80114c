// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

// Lane is the urgency of a key: the lower the value, the sooner it is served.
type Lane uint8

// The lanes, most urgent first.
const (
	// Removal: a ready address leaves, or turns unready. Every millisecond sends
	// requests to a pod that cannot answer.
	Removal Lane = iota
	// Addition: an address that a member has just shown arrives or turns ready.
	Addition
	// Bulk: first fill, relist, changed configuration, and whatever changes no address.
	Bulk

	laneCount = 3
)

// lanes lists all lanes, most urgent first.
var lanes = [laneCount]Lane{Removal, Addition, Bulk}

// String is the lane's name as a metric label.
func (l Lane) String() string {
	switch l {
	case Removal:
		return "removal"
	case Addition:
		return "addition"
	case Bulk:
		return "bulk"
	default:
		return "unknown"
	}
}

// All returns the lanes, most urgent first.
func All() []Lane { return append([]Lane(nil), lanes[:]...) }
