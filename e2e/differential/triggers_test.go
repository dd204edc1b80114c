// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"slices"
	"time"
)

// The trigger time is the earliest of the changes since the object was last
// written, so it depends on which changes one computation saw together, and on
// whether a controller knew the Service before: it is certain to be equal only when
// both sides have just made their first object. Upstream removes the time again when
// it rewrites Endpoints without such a change, as it sometimes does at its start.
// Later times are counted, and must be possible.
type triggers struct{ equal, other, onlyOurs, onlyTheirs int }

func (t *triggers) count(ours, theirs string) {
	switch {
	case ours == theirs:
		t.equal++
	case theirs == "":
		t.onlyOurs++
	case ours == "":
		t.onlyTheirs++
	default:
		t.other++
	}
}

// compareTriggers compares trigger times of computed endpoints; if first, they must be
// equal but for the few that upstream has removed.
func (w *world) compareTriggers(s *state, first bool) (endpoints, sliced triggers) {
	w.Helper()
	for k, ours := range s.ours {
		theirs, service := s.theirs[k], s.member.services[k]
		if theirs == nil || service.Spec.Selector == nil {
			continue
		}
		endpoints.count(ours.endpointsTrigger, theirs.endpointsTrigger)
		if slices.Equal(ours.sliceTriggers, theirs.sliceTriggers) {
			sliced.equal++
		} else {
			sliced.other++
		}
		same := ours.endpointsTrigger == theirs.endpointsTrigger || ours.endpointsTrigger != "" && theirs.endpointsTrigger == ""
		if first && (!same || !slices.Equal(ours.sliceTriggers, theirs.sliceTriggers)) {
			w.Errorf("trigger times of %s: ours %q and %q, the member's %q and %q", k,
				ours.endpointsTrigger, ours.sliceTriggers, theirs.endpointsTrigger, theirs.sliceTriggers)
		}
		for _, text := range append([]string{ours.endpointsTrigger}, ours.sliceTriggers...) {
			if at, err := time.Parse(time.RFC3339Nano, text); text != "" && (err != nil || at.Before(w.began) || at.After(time.Now())) {
				w.Errorf("trigger time of %s: %q is no time of this test", k, text)
			}
		}
	}
	if few := (len(s.ours) + 19) / 20; first && endpoints.onlyOurs > few {
		w.Errorf("%d Services have a trigger time only on our side, want %d at most", endpoints.onlyOurs, few)
	}
	return endpoints, sliced
}
