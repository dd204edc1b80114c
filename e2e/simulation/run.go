// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Result is what came of a case.
type Result struct {
	// Broken is the first law that was broken; nil: none was.
	Broken *Broken
	// Steps are those of the scheduler, Time is how long the case took in its own time, Writes
	// are those that took effect.
	Steps, Writes int
	Time          time.Duration
	// Met counts acts in which anything happened, and pairs of faults that met, as "a+b".
	Met map[string]int
}

// The phases after the script.
const (
	lively = 25 * time.Second // members change no more for as long before all is at rest
	paced  = 14 * time.Second // nothing was written for as long
	atRest = 45 * time.Second
	meets  = 30 * time.Second // faults that begin within this time meet
)

// Run plays a case. notes gets what happened, for people; nil: nobody wants to know.
func Run(c *Case, notes *strings.Builder) (result Result) {
	w := newWorld(c.Seed, c.Members, c.Processes, notes)
	defer func() {
		if p := recover(); p != nil {
			w.laws.broken = &Broken{"PANIC", w.now, fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
		result = Result{w.laws.broken, w.steps, w.laws.writes, w.now, w.met}
	}()
	w.play(c.Steps)
	w.heal()
	if w.converge() && newRNG(w.seed, "end").IntN(3) == 0 && w.comesToRest() {
		w.rest()
	}
	return result
}

// run lets time pass until a law is broken.
func (w *world) run(d time.Duration) bool {
	for end := w.now + d; w.laws.broken == nil; {
		if !w.step(end) {
			w.now = end
			break
		}
	}
	return w.laws.broken == nil
}

// play plays a script.
func (w *world) play(steps []Step) {
	type begun struct {
		name string
		at   time.Duration
	}
	var faults []begun
	for _, s := range steps {
		if !w.run(s.After) {
			return
		}
		a := actOf(s.Do)
		if w.notes != nil {
			fmt.Fprintln(w.notes, s)
		}
		if !a.do(w, s) {
			w.note("nothing of that kind is there")
			continue
		}
		w.met[a.name]++
		if !a.fault {
			continue
		}
		faults = slices.DeleteFunc(faults, func(f begun) bool { return w.now-f.at > meets })
		for _, f := range faults {
			w.met[min(a.name, f.name)+"+"+max(a.name, f.name)]++
		}
		faults = append(faults, begun{a.name, w.now})
	}
}

// converge waits until what stands is what the members' state demands.
func (w *world) converge() bool {
	from := w.now
	for w.run(time.Second) {
		differs := w.laws.convergence()
		if differs == "" {
			return true
		}
		if w.now-max(from, min(w.lived, from+convBound)) > convBound {
			w.laws.breaks(Conv, "what stands differs from what members have:\n%s", differs)
		}
	}
	return false
}

// comesToRest waits until nothing changes any more.
func (w *world) comesToRest() bool {
	from, writes, at := w.now, w.laws.writes, w.now
	for w.run(time.Second) {
		if w.laws.writes != writes {
			writes, at = w.laws.writes, w.now
		}
		busy := w.busy()
		switch {
		case w.now-w.lived > lively && w.now-at > paced && w.settled() && busy == "":
			if differs := w.laws.convergence(); differs != "" {
				w.laws.breaks(Conv, "what stands differs again from what members have:\n%s", differs)
			}
			return w.laws.broken == nil
		case w.now-max(from, min(w.lived, from+convBound)) > convBound:
			w.laws.breaks(Bounded, "members have not changed since %s, the last write was at %s, and still there is no rest: %s", w.lived, at, busy)
		}
	}
	return false
}

// busy says what processes are about; "" is nothing.
func (w *world) busy() string {
	for _, p := range w.processes {
		for lane, s := range p.core.Lanes() {
			if s.UnderWay > 0 || p.leads() && s.Planned > 0 {
				return fmt.Sprintf("%s has %d requests planned and %d under way in lane %d", p.name, s.Planned, s.UnderWay, lane)
			}
		}
		if p.core.Waiting() > 0 {
			return fmt.Sprintf("%s has %d replicas to compare", p.name, p.core.Waiting())
		}
		for _, m := range p.members {
			if n := len(m.state.Questions()); n > 0 || m.asking > 0 {
				return fmt.Sprintf("%s has %d questions open to %s", p.name, n, m.name)
			}
		}
	}
	return ""
}

// settled reports whether time alone changes nothing any more.
func (w *world) settled() bool {
	for _, l := range w.links {
		if w.now < l.troubled {
			return false
		}
	}
	if slices.ContainsFunc(w.processes, func(p *Process) bool { return w.now < p.frozen+lively }) {
		return false
	}
	for _, c := range w.members {
		for _, svc := range c.all(Services, "") {
			offers := w.offersNow(c, keyOf(svc))
			if slices.ContainsFunc(offers, func(e offer) bool { return e.unsure }) {
				return false
			}
		}
	}
	return true
}

// rest has something happen that must not make a write.
func (w *world) rest() {
	w.laws.still = true
	d := newRNG(w.seed, "rest")
	what := []string{"nothing", "restart", "end of the leader", "relist", "end of all watches", "compaction", "rotation"}[d.IntN(7)]
	w.note("all is at rest; now comes: %s", what)
	switch what {
	case "restart":
		for i := range w.processes {
			w.restart(i, d.chance(50))
		}
	case "end of the leader":
		for i, p := range w.processes {
			if p.leads() {
				w.restart(i, d.chance(50))
				break
			}
		}
	}
	for _, p := range w.processes {
		for _, m := range p.members {
			switch what {
			case "relist":
				m.anew()
			case "rotation":
				m.way.proven = nil
			}
		}
	}
	for _, c := range w.clusters {
		if what == "compaction" {
			c.Compact()
		}
		if strings.HasSuffix(what, "watches") || what == "compaction" {
			c.endWatches(errBroken)
		}
	}
	w.run(atRest)
}
