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
	of map[syncer.Key]*pauses
}

// pauses are those of one replica; since is when it had to wait first, err the server's last
// word.
type pauses struct {
	since time.Time
	err   error
	until map[paused]time.Time
}

type paused struct {
	plan.Object
	takesAway bool
}

// lasting is when pauses are more than a server that has much to do.
const lasting = 30 * time.Second

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
			p.of = map[syncer.Key]*pauses{}
		}
		if p.of[key] == nil {
			p.of[key] = &pauses{since: one.Acked, until: map[paused]time.Time{}}
		}
		p.of[key].err = one.Err
		p.of[key].until[paused{one.Action.Object(), one.TakesAway}] = one.Acked.Add(pause)
	}
}

// Held returns ErrPaused where a write is to wait.
func (p *Pauses) Held(key syncer.Key, o plan.Object, takesAway bool, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.of[key]
	if all != nil && (now.Before(all.until[paused{o, true}]) || !takesAway && now.Before(all.until[paused{o, false}])) {
		return ErrPaused
	}
	return nil
}

// Left is for how long the first of a replica's objects is to wait; 0: none is.
func (p *Pauses) Left(key syncer.Key, now time.Time) (first time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all := p.of[key]; all != nil {
		for _, until := range all.until {
			if left := until.Sub(now); left > 0 && (first == 0 || left < first) {
				first = left
			}
		}
	}
	return first
}

// Lasting returns why a replica has to wait, where it has had to for so long that it is no
// matter of a busy server any more; else nil.
func (p *Pauses) Lasting(key syncer.Key, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all := p.of[key]; all != nil && now.Sub(all.since) >= lasting {
		return all.err
	}
	return nil
}

// Settled forgets the pauses of a replica with which nothing is left to do.
func (p *Pauses) Settled(key syncer.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, key)
}
