// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"time"
)

// epoch is when every simulation begins.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// schedule is the queue of tasks in virtual time. Tasks of the same time run in the order in which
// they were added.
type schedule struct {
	now   time.Duration // since epoch
	tasks []task        // the next one is the last
	steps int
}

type task struct {
	at  time.Duration
	run func()
}

// time is the true time.
func (s *schedule) time() time.Time { return epoch.Add(s.now) }

func (s *schedule) after(d time.Duration, run func()) {
	at := s.now + max(0, d)
	before := sort.Search(len(s.tasks), func(i int) bool { return s.tasks[i].at <= at })
	s.tasks = slices.Insert(s.tasks, before, task{at, run})
}

// rng is the random source of one part of a world. Parts do not share one, so that a script still
// means the same when it is shrunk.
type rng struct{ *rand.Rand }

func newRNG(seed uint64, part string) rng {
	sum := fnv.New64a()
	sum.Write([]byte(part))
	return rng{rand.New(rand.NewPCG(seed, sum.Sum64()))}
}

// within draws a duration between two.
func (d rng) within(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64(most-least)+1))
}

// chance is true with a probability in percent.
func (d rng) chance(percent int) bool { return d.IntN(100) < percent }

// Result is the outcome of a case.
type Result struct {
	// Broken is the first law that was broken, nil if none was.
	Broken *Broken
	// Steps counts tasks of the schedule, Time is how long the case took in virtual time.
	Steps int
	Time  time.Duration
	// Met counts acts in which anything happened, and pairs of faults that coincided, as "a+b".
	Met map[string]int
}

// The phases after the script.
const (
	lively = 25 * time.Second // how long members must not have changed before the world is at rest
	paced  = 14 * time.Second // how long nothing must have been written
	atRest = 45 * time.Second
	meets  = 30 * time.Second // faults that begin within this time coincide
)

// Run plays a case. What happens is written to notes for people, unless notes is nil.
func Run(c *Case, notes *strings.Builder) (result Result) {
	w := newWorld(c.Seed, c.Members, c.Processes, notes)
	defer func() {
		if p := recover(); p != nil {
			w.broken = &Broken{"PANIC", w.now, fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
		result = Result{w.broken, w.steps, w.now, w.met}
	}()
	w.play(c.Steps)
	w.heal()
	if w.waits(Conv, w.convergence) && newRNG(w.seed, "end").IntN(3) == 0 && w.waits(Bounded, w.busy) {
		w.rest()
	}
	return result
}

// run lets time pass, and reports whether no law was broken.
func (w *world) run(d time.Duration) bool {
	end := w.now + d
	for next := len(w.tasks) - 1; w.broken == nil && next >= 0 && w.tasks[next].at <= end; next = len(w.tasks) - 1 {
		t := w.tasks[next]
		w.tasks = slices.Delete(w.tasks, next, next+1)
		w.now = t.at
		w.steps++
		t.run()
	}
	if w.broken == nil {
		w.now = end
	}
	return w.broken == nil
}

func (w *world) play(steps []Step) {
	begun := map[string]time.Duration{}
	for _, s := range steps {
		if !w.run(s.After) {
			return
		}
		if w.notes != nil {
			fmt.Fprintln(w.notes, s)
		}
		a := actOf(s.Do)
		if !a.do(w, s) {
			w.note("nothing of that kind is there")
			continue
		}
		w.met[a.name]++
		if !a.fault {
			continue
		}
		for other, at := range begun {
			if w.now-at <= meets {
				w.met[min(a.name, other)+"+"+max(a.name, other)]++
			}
		}
		begun[a.name] = w.now
	}
}

// waits lets time pass until nothing is left. The law is broken if that takes too long, counted from
// now and from when members last changed.
func (w *world) waits(law Law, left func() string) bool {
	for from := w.now; w.run(time.Second); {
		what := left()
		if what == "" {
			return true
		}
		if w.now-max(from, min(w.lived, from+convBound)) > convBound {
			w.breaks(law, "members have not changed since %s, the last write was at %s, and still: %s", w.lived, w.wrote, what)
		}
	}
	return false
}

// busy says why the world is not at rest, "" if it is.
func (w *world) busy() string {
	if p := w.leader(); p == nil || w.now-max(p.since, w.wrote) < paced || w.now-w.lived < lively {
		return "nobody leads, or only just, or something has changed"
	}
	for _, p := range w.processes {
		n := p.core.Waiting()
		planned, _ := p.core.Status(p.clock())
		for _, lane := range planned {
			if n += lane.Sent; p.leads() {
				n += lane.Waiting
			}
		}
		for _, m := range p.members {
			n += len(m.state.Questions())
		}
		if n > 0 || w.now < p.frozen+lively {
			return fmt.Sprintf("%s has %d replicas, requests and questions to handle, or was frozen", p.name, n)
		}
	}
	for _, l := range w.links {
		if w.now < late(l.troubled) {
			return l.name + " has a message in flight, or just had"
		}
	}
	for key := range w.ever {
		if slices.ContainsFunc(w.offers(key), func(e offer) bool { return e.unsure }) {
			return "the grade of a pod is about to change with time"
		}
	}
	return ""
}

// rest plays something that must not cause a write.
func (w *world) rest() {
	if differs := w.convergence(); differs != "" {
		w.breaks(Conv, "what is published differs again from what members have:\n%s", differs)
	}
	w.still = true
	d := newRNG(w.seed, "rest")
	what := pickFrom([]string{"wait", "restart", "relist", "end-watches", "compact", "rotate"}, d.IntN(6))
	w.note("all is at rest; now comes: %s", what)
	for i := range w.clusters { // to some of the clusters, or of the processes
		if d.chance(70) {
			actOf(what).do(w, Step{A: i, B: d.IntN(2)})
		}
	}
	w.run(atRest)
}
