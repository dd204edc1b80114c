// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"sync"
	"time"

	"tributary.dev/tributary/syncer"
)

// RepairThrottle notices when somebody keeps undoing what we write. A repair is put
// back at once, five times in a minute; after that the wait before the next one
// doubles, up to a minute, so that two controllers do not wear out an API
// server. What members change is not held up by it.
//
// All methods are safe for concurrent use. Memory is bounded by the keys
// repaired within the last minutes.
type RepairThrottle struct {
	mu sync.Mutex
	of map[syncer.Key]*repairs
}

// repairs is the history of one replica.
type repairs struct {
	// times are those of the last ones, oldest first.
	times [throttleRepairs]time.Time
	// pause is the wait after the last repair; 0 while there is no fight.
	pause time.Duration
}

const (
	throttleRepairs = 5
	throttleWindow  = time.Minute
	throttleFirst   = 2 * time.Second
	throttleMax     = time.Minute
	// throttleForget is how long after its last repair a key is remembered.
	throttleForget = 5 * time.Minute
)

func NewRepairThrottle() *RepairThrottle { return &RepairThrottle{of: map[syncer.Key]*repairs{}} }

// Repaired notes a repair that was written, and reports whether it is one too
// many: the start of a fight or the next round of it.
func (f *RepairThrottle) Repaired(key syncer.Key, now time.Time) (fighting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lockedSweep(now)
	one := f.of[key]
	if one == nil {
		one = &repairs{}
		f.of[key] = one
	}
	window := throttleWindow + one.pause // rounds of a slowed fight are further apart
	many := !one.times[0].IsZero() && now.Sub(one.times[0]) < window
	if one.pause > 0 {
		many = now.Sub(one.times[throttleRepairs-1]) < window
	}
	copy(one.times[:], one.times[1:])
	one.times[throttleRepairs-1] = now
	switch {
	case !many:
		one.pause = 0
	case one.pause == 0:
		one.pause = throttleFirst
	default:
		one.pause = min(2*one.pause, throttleMax)
	}
	return many
}

// Held returns how long the next repair of a key has to wait; 0: it need not.
func (f *RepairThrottle) Held(key syncer.Key, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.of[key]
	if one == nil || one.pause == 0 {
		return 0
	}
	return max(0, one.times[throttleRepairs-1].Add(one.pause).Sub(now))
}

// lockedSweep forgets old histories once there are many.
func (f *RepairThrottle) lockedSweep(now time.Time) {
	if len(f.of) < 256 {
		return
	}
	for key, one := range f.of {
		if now.Sub(one.times[throttleRepairs-1]) > throttleForget {
			delete(f.of, key)
		}
	}
}
