// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// world is a few replicas whose objects differ from what is wanted, the loops that would
// work on them, and a server that answers as it likes.
type world struct {
	*bench
	rng *rand.Rand
	// stale says of each object that differs in which lane.
	stale  map[syncer.Key]map[string]plan.Lane
	grants []*Grant
	step   int
}

func (w *world) key() syncer.Key {
	n := w.rng.IntN(12)
	return key(fmt.Sprint("ns", n%3), fmt.Sprint("r", n))
}

// news makes an object of a replica differ.
func (w *world) news() {
	k, lane := w.key(), plan.Lane(w.rng.IntN(laneCount))
	if w.stale[k] == nil {
		w.stale[k] = map[string]plan.Lane{}
	}
	w.stale[k][fmt.Sprint("o", w.rng.IntN(3))] = lane
	w.q.Add(time.Now(), k, lane, record.Cause{Cluster: fmt.Sprint("m", w.rng.IntN(3)), Live: true})
}

// compareOne compares what comes next, as the loop of comparisons does.
func (w *world) compareOne() {
	if w.q.Len() == 0 {
		return
	}
	work := w.q.Next()
	var actions []plan.Action
	more := false
	for name, lane := range w.stale[work.Key] {
		if a := action(work.Key, name, lane); w.d.Busy(a.Replica, a.Object()) {
			more = true
		} else {
			actions = append(actions, a)
		}
	}
	w.d.Replace(time.Now(), work, actions, more)
	w.q.Done(work)
}

// answer ends a grant, as the loop of requests does.
func (w *world) answer(out Outcome) {
	if len(w.grants) == 0 {
		return
	}
	at := w.rng.IntN(len(w.grants))
	g := w.grants[at]
	w.grants = append(w.grants[:at], w.grants[at+1:]...)
	if out == failed && w.rng.IntN(4) == 0 {
		out.RetryAfter = time.Duration(w.rng.IntN(5)) * time.Second
	}
	if k := g.Action.Replica; out.Err == nil {
		if delete(w.stale[k], strings.TrimPrefix(g.Action.Name, k.Name+"-")); len(w.stale[k]) == 0 {
			delete(w.stale, k)
		}
	}
	w.d.Done(time.Now(), g, out)
}

func (w *world) check() {
	w.Helper()
	d := w.d
	lag := w.d.oldest()
	var held [laneCount]int
	objects := map[plan.Object]bool{}
	for _, g := range w.grants {
		held[g.Action.Lane()]++
		if objects[g.Action.Object()] {
			w.Fatalf("step %d: %v has two requests under way", w.step, g.Action.Object())
		}
		objects[g.Action.Object()] = true
	}
	others := held[plan.Addition] + held[plan.Bulk]
	if held != d.held || others+held[plan.Removal] > Places || others > otherPlaces || held[plan.Bulk] > bulkPlaces {
		w.Fatalf("step %d: places are %v, held are %v", w.step, d.held, held)
	}
	for k, r := range d.replicas {
		for name, o := range r {
			g := d.underWay[name]
			if waits, busy := o.seat.in != nil, g != nil && g.Work.Key == k; waits != (o.work != nil) || waits && busy {
				w.Fatalf("step %d: %v of %v waits %t, planned %t, under way %t", w.step, name, k, waits, o.work != nil, busy)
			}
		}
	}
	for of, waiting := range d.parked {
		if waiting.Len() > 0 && !slices.ContainsFunc(w.grants, func(g *Grant) bool { return g.of == of }) {
			w.Fatalf("step %d: %d wait in %v for nobody's place", w.step, waiting.Len(), of)
		}
	}
	if len(w.stale) > 0 && len(lag) == 0 {
		w.Fatalf("step %d: %v are not written, and the lag is none", w.step, w.stale)
	}
}

// finish answers all well until nothing is left, which it must be in bounded time.
func (w *world) finish() {
	for round := 0; len(w.stale) > 0 || w.q.Len() > 0 || len(w.grants) > 0; round++ {
		if round > 200 {
			w.Fatalf("after %d rounds %v are not written; planned is %+v", round, w.stale, w.d.lanes(time.Now()))
		}
		for w.q.Len() > 0 {
			w.compareOne()
		}
		w.grants = append(w.grants, w.all()...)
		for len(w.grants) > 0 {
			w.answer(Outcome{})
		}
		w.check()
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
	if len(w.d.replicas)+len(w.d.underWay)+len(w.q.pending)+w.q.Len() > 0 {
		w.Fatalf("left are %d replicas, %d works", len(w.d.replicas), len(w.q.pending))
	}
}

func TestHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 60) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{bench: newBench(t), rng: dice.From(seed, 3), stale: map[syncer.Key]map[string]plan.Lane{}}
			for w.step = range 400 {
				switch w.rng.IntN(9) {
				case 0, 1:
					w.news()
				case 2, 3:
					w.compareOne()
				case 4, 5:
					if g := w.next(); g != nil {
						w.grants = append(w.grants, g)
					}
				case 6:
					w.answer(Outcome{})
				case 7:
					w.answer([]Outcome{{}, failed, {Err: failed.Err, Refused: true}, {Err: failed.Err, Lost: true}, {Err: failed.Err, Unused: true}}[w.rng.IntN(5)])
				case 8:
					time.Sleep(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
				}
				synctest.Wait()
				w.check()
			}
			w.finish()
		})
	}
}

// A flood of every lane from one member, served by a server of 3 ms: what another member asks
// for meanwhile is written soon, whatever its lane, and removals at once.
func TestNothingStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wanted, now := map[syncer.Key]plan.Action{}, time.Now()
		want := func(k syncer.Key, member string, lane plan.Lane) {
			wanted[k] = action(k, "s", lane)
			b.q.Add(now, k, plan.Bulk, of(member))
		}
		type answer struct {
			at time.Time
			of *Grant
		}
		var answers []answer // those to come, the soonest first
		pass := func(d time.Duration) {
			for end := now.Add(d); now.Before(end); now = now.Add(100 * time.Microsecond) {
				for ; len(answers) > 0 && !now.Before(answers[0].at); answers = answers[1:] {
					delete(wanted, answers[0].of.Work.Key)
					b.d.Done(now, answers[0].of, Outcome{})
				}
				for w := b.q.Next(); w != nil; w = b.q.Next() {
					var actions []plan.Action
					if a, differs := wanted[w.Key]; differs && !b.d.Busy(a.Replica, a.Object()) {
						actions = append(actions, a)
					}
					b.d.Replace(now, w, actions, false)
					b.q.Done(w)
				}
				for g, _ := b.d.Next(now); g != nil; g, _ = b.d.Next(now) {
					answers = append(answers, answer{now.Add(3 * time.Millisecond), g})
				}
			}
		}
		for round := range 30 {
			for i := range 300 * laneCount {
				want(key(fmt.Sprint("flood", round), fmt.Sprint(i)), fmt.Sprint("flood", round), plan.Lane(i%laneCount))
			}
			pass(10 * time.Millisecond)
		}
		for lane, limit := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 2 * time.Second} {
			want(web, "small", plan.Lane(lane))
			start := now
			for b.d.oldest()["small"] != (time.Time{}) {
				pass(time.Millisecond)
			}
			if took := now.Sub(start); took > limit {
				t.Errorf("a write in the lane %s took %v", plan.Lane(lane), took)
			}
		}
		if left := b.d.lanes(now); left[plan.Removal].Waiting == 0 {
			t.Errorf("the flood is over: %+v", left)
		}
		pass(5 * time.Second)
		if len(b.d.oldest()) != 0 {
			t.Errorf("left are %+v", b.d.lanes(now))
		}
	})
}
