// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// world is a random history: what Services truly are, and a receiver that takes, refuses and
// loses what it is told.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	opts    Options
	ledger  *Ledger
	at      time.Time
	history map[syncer.Key][]moment
	// receiver is what it has, and by which generation.
	receiver map[syncer.Key]version
	// clean is what was acknowledged last in this term, tried what was told since.
	clean, tried map[syncer.Key]*Service
	// poison is what the receiver never takes.
	poison *Service
}

type moment struct {
	at  time.Time
	now *Service
}

type version struct {
	generation int64
	service    *Service
}

// TestHistories: random changes and a receiver that fails at random end with the receiver
// knowing what is, in an order that only goes forward, and with nothing told that a window
// hides.
func TestHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 300) {
		rng := dice.From(seed, 1)
		o := options(time.Duration(rng.IntN(3))*time.Second, time.Duration(rng.IntN(4))*time.Second)
		o.MaxServices = 1 + rng.IntN(4)
		w := &world{t: t, rng: rng, opts: o, ledger: New(o), at: start, history: map[syncer.Key][]moment{}, receiver: map[syncer.Key]version{}, clean: map[syncer.Key]*Service{}, tried: map[syncer.Key]*Service{}}
		if rng.IntN(2) == 0 {
			w.poison = service("7")
		}
		w.ledger.Begin(nil, 0, w.at)
		for range 150 {
			w.step()
		}
		w.end()
		if t.Failed() {
			t.Fatalf("seed %d, windows %+v", seed, o.Windows)
		}
	}
}

// step moves time, changes something, and talks to the receiver.
func (w *world) step() {
	w.at = w.at.Add(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
	switch w.rng.IntN(12) {
	case 0:
		w.restart()
	case 1:
		w.ledger.Resync(w.at)
		clear(w.clean)
	default:
		w.change()
	}
	w.exchange(w.rng.IntN(6))
}

func (w *world) change() {
	k := key(fmt.Sprint("s", w.rng.IntN(4)))
	now := (*Service)(nil)
	if w.rng.IntN(6) > 0 {
		words := ""
		for n := 1; n <= 4; n++ {
			if w.rng.IntN(2) == 0 {
				words += fmt.Sprint(" ", n, []string{"", "", "", "!", "t", "p"}[w.rng.IntN(6)])
			}
		}
		now = service(words)
		if w.poison != nil && w.rng.IntN(20) == 0 {
			now = w.poison
		}
	}
	w.history[k] = append(w.history[k], moment{w.at, now})
	w.ledger.Tell(k, now, w.at)
}

// restart keeps only what is kept outside of the process: what was acknowledged, and what was
// in doubt when it was last looked at, which is before each request.
func (w *world) restart() {
	records := w.ledger.Records()
	generation := w.ledger.State().Generation
	w.ledger = New(w.opts)
	w.ledger.Begin(records, generation, w.at)
	for k, moments := range w.history {
		w.ledger.Tell(k, moments[len(moments)-1].now, w.at)
	}
	for _, k := range w.ledger.Unknown() {
		w.ledger.Tell(k, nil, w.at)
	}
	clear(w.clean) // windows begin anew
}

// exchange tells the receiver what is due; fate is what becomes of it.
func (w *world) exchange(fate int) {
	changes := w.ledger.Take(w.at)
	if len(changes) == 0 {
		return
	}
	if len(changes) > w.opts.MaxServices {
		w.t.Errorf("%d Services in one request", len(changes))
	}
	refused := false
	for _, c := range changes {
		w.check(c)
		refused = refused || w.poison != nil && c.Service.Equal(w.poison)
	}
	if w.rng.IntN(3) == 0 { // it takes its time
		w.at = w.at.Add(time.Second)
		w.change()
	}
	switch {
	case refused:
		w.ledger.Refused(w.at)
	case fate == 0:
		w.ledger.Failed(w.at) // and nothing was taken
	case fate == 1:
		w.take(changes)
		w.ledger.Failed(w.at)
	default:
		w.take(changes)
		w.ledger.Acknowledged(w.at)
		for _, c := range changes {
			w.clean[c.Key] = c.Service
			delete(w.tried, c.Key)
		}
		return
	}
	for _, c := range changes {
		w.tried[c.Key] = c.Service
	}
}

func (w *world) take(changes []Change) {
	for _, c := range changes {
		had := w.receiver[c.Key]
		if c.Generation < had.generation {
			w.t.Errorf("%s: generation %d after %d", c.Key, c.Generation, had.generation)
		}
		if c.Generation == had.generation && !c.Service.Equal(had.service) {
			w.t.Errorf("%s: generation %d is %q, and was %q", c.Key, c.Generation, text(c.Service), text(had.service))
		}
		w.receiver[c.Key] = version{c.Generation, c.Service}
	}
}

// check holds a change against the windows, where it is known what the receiver was told since it
// acknowledged last: an endpoint is told to be less only if it was for the whole of its window.
func (w *world) check(c Change) {
	has, known := w.clean[c.Key]
	tried, doubt := w.tried[c.Key]
	if !known {
		return
	}
	acked := has
	if doubt {
		has = better(acked, tried)
	}
	pairs(has, c.Service, func(had, is *Endpoint) {
		if had == nil || !is.takesAway(had) || doubt && tried.takes(acked, had) {
			return
		}
		for _, s := range w.within(c.Key, w.at.Add(-w.opts.Windows.Removals)) {
			var then *Endpoint
			pairs(had.alone(), s, func(a, b *Endpoint) {
				if a != nil {
					then = b
				}
			})
			if !then.takesAway(had) {
				w.t.Errorf("%s at %s: %s is told to go, and was there within its window", c.Key, w.at.Sub(start), had.Addr)
			}
		}
	})
	w.checkArrivals(c, has)
	if !doubt && c.Service.Equal(has) {
		w.t.Errorf("%s: told %q, which it has", c.Key, text(c.Service))
	}
}

// checkArrivals: what takes nothing away is told only if there was such a change for the whole
// of the window, or the receiver would starve without; and it never does.
func (w *world) checkArrivals(c Change, has *Service) {
	arrivals := func(s *Service) (any bool, rest *Service) {
		any, rest = has == nil && s != nil, &Service{}
		pairs(has, s, func(had, is *Endpoint) {
			switch {
			case had != nil && is.takesAway(had):
			case had == nil || !is.equal(had):
				any, is = true, had
			}
			if is != nil {
				rest.Endpoints = append(rest.Endpoints, *is)
			}
		})
		return any, rest
	}
	any, rest := arrivals(c.Service)
	moments := w.history[c.Key]
	now := moments[len(moments)-1].now
	if has != nil && now != nil && c.Service.starves(has, now) {
		w.t.Errorf("%s at %s: %q is told, where %q was known, of %q", c.Key, w.at.Sub(start), text(c.Service), text(has), text(now))
	}
	if !any || has != nil && now != nil && rest.starves(has, now) {
		return
	}
	for _, s := range w.within(c.Key, w.at.Add(-w.opts.Windows.Changes)) {
		if any, _ := arrivals(s); !any {
			w.t.Errorf("%s at %s: %q is told, where %q was known, and it was %q within the window", c.Key, w.at.Sub(start), text(c.Service), text(has), text(s))
		}
	}
}

// takes reports whether less of an endpoint was told already.
func (s *Service) takes(from *Service, e *Endpoint) (less bool) {
	pairs(from, s, func(a, b *Endpoint) {
		less = less || a != nil && compare(*a, *e) == 0 && b.takesAway(a)
	})
	return less
}

func (e *Endpoint) alone() *Service { return &Service{Endpoints: []Endpoint{*e}} }

// within are the states that a Service was in since a time.
func (w *world) within(k syncer.Key, since time.Time) (states []*Service) {
	moments := w.history[k]
	for i := len(moments) - 1; i >= 0; i-- {
		states = append(states, moments[i].now)
		if !moments[i].at.After(since) {
			return states
		}
	}
	return append(states, nil)
}

// end lets the receiver be well, and time pass.
func (w *world) end() {
	if w.poison != nil {
		w.poison = nil
	}
	for range 400 {
		if len(w.ledger.Pending()) == 0 {
			break
		}
		w.at = w.at.Add(time.Second)
		if changes := w.ledger.Take(w.at); len(changes) > 0 {
			w.take(changes)
			w.ledger.Acknowledged(w.at)
		}
	}
	truth, has := map[syncer.Key]string{}, map[syncer.Key]string{}
	for k, moments := range w.history {
		if now := moments[len(moments)-1].now; now != nil {
			truth[k] = text(now)
		}
	}
	for k, s := range w.receiver {
		if s.service != nil {
			has[k] = text(s.service)
		}
	}
	if !maps.Equal(truth, has) {
		w.t.Errorf("the receiver has\n%v, and it is\n%v", has, truth)
	}
	if n := len(w.ledger.Keys()); n != len(truth) {
		w.t.Errorf("%d Services are remembered, and there are %d", n, len(truth))
	}
}
