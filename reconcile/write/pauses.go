// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"sync"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// ErrPaused is why an object is not written: the server has asked to wait with it.
var ErrPaused = errors.New("the ingress cluster asked for a pause")

// Pauses remembers for which objects a server has asked for a pause: others of the same
// replica do not wait, nor does what only takes addresses away where it was asked for
// something else. The zero value is ready. All methods are safe for concurrent use; memory
// is bounded by the replicas that wait.
type Pauses struct {
	mu sync.Mutex
	of map[syncer.Key]map[paused]time.Time
}

type paused struct {
	plan.Object
	takesAway bool
}

// Note takes from receipts what the server asked for.
func (p *Pauses) Note(key syncer.Key, receipts []Receipt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range receipts {
		one := &receipts[i]
		pause := kube.RetryAfter(one.Err)
		if pause == 0 {
			continue
		}
		if p.of == nil {
			p.of = map[syncer.Key]map[paused]time.Time{}
		}
		if p.of[key] == nil {
			p.of[key] = map[paused]time.Time{}
		}
		p.of[key][paused{one.Action.Object(), one.TakesAway}] = one.Acked.Add(pause)
	}
}

// Held returns ErrPaused where a write is to wait.
func (p *Pauses) Held(key syncer.Key, o plan.Object, takesAway bool, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.of[key]
	if now.Before(all[paused{o, true}]) || !takesAway && now.Before(all[paused{o, false}]) {
		return ErrPaused
	}
	return nil
}

// Left is for how long the first of a replica's objects is to wait; 0: none is.
func (p *Pauses) Left(key syncer.Key, now time.Time) (first time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one, until := range p.of[key] {
		left := until.Sub(now)
		if left <= 0 {
			delete(p.of[key], one)
		} else if first == 0 || left < first {
			first = left
		}
	}
	if first == 0 {
		delete(p.of, key)
	}
	return first
}
