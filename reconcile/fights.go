// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"sync"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// fights notices when somebody keeps undoing what we write. A repair is put
// back at once, five times in a minute; after that the wait before the next one
// doubles, up to a minute, so that two controllers do not wear out an API
// server. What members change is not held up by it.
//
// All methods are safe for concurrent use. Memory is bounded by the keys
// repaired within the last minutes.
type fights struct {
	mu sync.Mutex
	of map[syncer.Key]*fight
}

// fight is the history of one replica.
type fight struct {
	// repairs are the times of the last ones, oldest first.
	repairs [fightRepairs]time.Time
	// pause is the wait after the last repair; 0 while there is no fight.
	pause time.Duration
}

const (
	fightRepairs = 5
	fightWindow  = time.Minute
	fightFirst   = 2 * time.Second
	fightMax     = time.Minute
	// fightForget is how long after its last repair a key is remembered.
	fightForget = 5 * time.Minute
)

func newFights() *fights { return &fights{of: map[syncer.Key]*fight{}} }

// repaired notes a repair that was written, and reports whether it is one too
// many: the start of a fight or the next round of it.
func (f *fights) repaired(key syncer.Key, now time.Time) (fighting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lockedSweep(now)
	one := f.of[key]
	if one == nil {
		one = &fight{}
		f.of[key] = one
	}
	window := fightWindow + one.pause // rounds of a slowed fight are further apart
	many := !one.repairs[0].IsZero() && now.Sub(one.repairs[0]) < window
	if one.pause > 0 {
		many = now.Sub(one.repairs[fightRepairs-1]) < window
	}
	copy(one.repairs[:], one.repairs[1:])
	one.repairs[fightRepairs-1] = now
	switch {
	case !many:
		one.pause = 0
	case one.pause == 0:
		one.pause = fightFirst
	default:
		one.pause = min(2*one.pause, fightMax)
	}
	return many
}

// held returns how long the next repair of a key has to wait; 0: it need not.
func (f *fights) held(key syncer.Key, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.of[key]
	if one == nil || one.pause == 0 {
		return 0
	}
	return max(0, one.repairs[fightRepairs-1].Add(one.pause).Sub(now))
}

// lockedSweep forgets old histories once there are many.
func (f *fights) lockedSweep(now time.Time) {
	if len(f.of) < 256 {
		return
	}
	for key, one := range f.of {
		if now.Sub(one.repairs[fightRepairs-1]) > fightForget {
			delete(f.of, key)
		}
	}
}

// repairOnly reports whether nothing but the ingress cluster itself asked for
// the work.
func repairOnly(causes []metrics.Cause) bool {
	for i := range causes {
		if causes[i].Event != eventRepair {
			return false
		}
	}
	return len(causes) > 0
}
