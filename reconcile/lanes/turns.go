// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

// turns deals out turns among the lanes: the most urgent first, but one that was
// passed over often enough has its turn. So a lane that waits gets a share, however
// much more urgent work there is.
type turns struct {
	passed [laneCount]int
}

// patience is how many turns of more urgent lanes a lane waits for its own: additions
// get at least a fifth, bulk at least a ninth.
var patience = [laneCount]int{Removal: 0, Addition: 4, Bulk: 8}

// next returns whose turn it is among the lanes that wait; ok is false when none does.
func (t *turns) next(waits [laneCount]bool) (lane Lane, ok bool) {
	for _, l := range lanes {
		if !waits[l] {
			continue
		}
		if !ok {
			lane, ok = l, true
		} else if t.passed[l] >= patience[l] {
			return l, true
		}
	}
	return lane, ok
}

// took notes that a lane had a turn while others waited.
func (t *turns) took(lane Lane, waits [laneCount]bool) {
	for _, l := range lanes {
		if l > lane && waits[l] {
			t.passed[l]++
		}
	}
	t.passed[lane] = 0
}
