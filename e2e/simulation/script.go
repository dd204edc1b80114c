// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Case is a script: the size of a world, and what happens to it from outside.
type Case struct {
	Seed               uint64
	Members, Processes int
	Steps              []Step
}

// Step is an act, some time after the one before. The world decides what its numbers choose, so
// that a step means something whatever came before.
type Step struct {
	After   time.Duration
	Do      string
	A, B, C int
}

// String formats the step as a line of a transcript.
func (s Step) String() string { return fmt.Sprintf("%s %s %d %d %d", s.After, s.Do, s.A, s.B, s.C) }

// String formats the case as a transcript.
func (c *Case) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d members %d processes %d\n", c.Seed, c.Members, c.Processes)
	for _, s := range c.Steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// Parse parses a transcript. Lines that begin with # are comments.
func Parse(text string) (*Case, error) {
	c := &Case{}
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var s Step
		var after string
		var err error
		if c.Members == 0 {
			_, err = fmt.Sscanf(line, "seed %d members %d processes %d", &c.Seed, &c.Members, &c.Processes)
		} else if _, err = fmt.Sscan(line, &after, &s.Do, &s.A, &s.B, &s.C); err == nil {
			s.After, err = time.ParseDuration(after)
			c.Steps = append(c.Steps, s)
		}
		if err != nil || s.Do != "" && actOf(s.Do) == nil {
			return nil, fmt.Errorf("line %d is %q, want first seed N members N processes N, then a time, what happens, and three numbers: %w", n+1, line, err)
		}
	}
	return c, nil
}

// Draw draws a case from its seed. It is short and violent: a few kinds of acts and faults, so that
// rare combinations occur, in one or two bursts, most of them on one member and one replica.
func Draw(seed uint64) *Case {
	d := newRNG(seed, "script")
	c := &Case{Seed: seed, Members: 1 + d.IntN(2)*(1+d.IntN(2)), Processes: 1 + d.IntN(2)}
	member, replica := d.IntN(1000), d.IntN(1000)
	add := func(after time.Duration, do string) {
		s := Step{after.Truncate(time.Microsecond), do, d.IntN(1000), d.IntN(1000), d.IntN(1000)}
		if d.chance(70) {
			s.A = member
		}
		if d.chance(50) {
			s.B = replica
		}
		c.Steps = append(c.Steps, s)
	}
	inTurn := func(names string, seconds ...time.Duration) {
		for i, name := range strings.Fields(names) {
			add(seconds[i]*time.Second+d.within(0, 3*time.Second), name)
			c.Steps[len(c.Steps)-1].B = replica
		}
	}
	for i := range c.Members + d.IntN(2) {
		add(0, []string{"deployment", "deployment", "deployment", "set", "by-hand", "across"}[d.IntN(6)])
		c.Steps[len(c.Steps)-1].A = i
	}
	for _, often := range []string{"failover", "failover", "drain", "hold", "stable-for", "stale-after", "only-slices", "pages", "webhook"} {
		if d.chance(12) {
			add(0, often)
		}
	}
	chosen := []string{drawn(d, false), drawn(d, false), drawn(d, true), drawn(d, true), drawn(d, true)}
	switch n := d.IntN(100); {
	case n == 0: // a large member is bulk work
		add(0, "many")
		c.Steps = append(c.Steps, Step{Do: "latency", A: c.Members, B: 1, C: 7}) // of the ingress cluster, so that the work lasts
		chosen = []string{"relabel-many", "relabel-many", "delete", "delete-all"}
	case n < 4: // questions asked before a restore, answered after it
		member, c.Members, c.Processes = 0, 1, 1
		inTurn("save roll-out jumbled lie restore relist", 4, 22, 5, 0, 0, 0)
		chosen = []string{"roll-out", "delete", "relist"}
	case n < 6: // a Service that selects after a restore what it did before
		member, c.Members, c.Processes = 0, 1, 1
		inTurn("switch save release jumbled restore", 4, 2, 22, 12, 0)
		chosen = []string{"release", "jumbled", "relist"}
	case n < 10: // a standby that sees less than the leader
		c.Processes = 2
		chosen = []string{"cut", "silent", "delete", "roll-out", "restart"}
	case n < 14: // Services that select pods that are not shown
		chosen = []string{"withdraw", "withdraw", "release", "release", "switch"}
	case n < 17: // removals beside additions that are refused, long after the start
		add(35*time.Second, "wait")
		chosen = []string{"refuse-additions", "refuse-additions", "roll-out", "roll-out", "delete"}
	}
	if slices.Contains(chosen, "restore") {
		add(d.within(2*time.Second, 8*time.Second), "save")
		add(d.within(0, 10*time.Second), drawn(d, false))
		add(d.within(15*time.Second, 25*time.Second), drawn(d, false))
	}
	for range 1 + d.IntN(2) {
		after := d.within(time.Second, 12*time.Second)
		for range 2 + d.IntN(8) {
			add(after, chosen[d.IntN(len(chosen))])
			switch n := d.IntN(10); {
			case n < 5:
				after = d.within(0, 100*time.Millisecond)
			case n < 9:
				after = d.within(0, 3*time.Second)
			default:
				after = d.within(3*time.Second, 30*time.Second)
			}
		}
	}
	add(d.within(0, 25*time.Second), "wait") // then all faults end
	return c
}

// drawn draws the name of an act, or of a fault, by its rate.
func drawn(d rng, fault bool) string {
	var all []string
	for _, a := range acts {
		if a.fault == fault {
			all = append(all, slices.Repeat([]string{a.name}, a.rate)...)
		}
	}
	return all[d.IntN(len(all))]
}

// Shrink returns the shortest script it finds that breaks the same law, within a number of tries.
func Shrink(c *Case, law Law, tries int) *Case {
	smaller := true
	try := func(edit func(*Case)) {
		s := *c
		s.Steps = slices.Clone(c.Steps)
		if edit(&s); tries <= 0 || s.String() == c.String() {
			return
		}
		tries--
		if r := Run(&s, nil); r.Broken != nil && r.Broken.Law == law {
			c, smaller = &s, true
		}
	}
	for smaller && tries > 0 {
		smaller = false
		for size := len(c.Steps) / 2; size > 0; size /= 2 { // without half of the steps, a quarter, down to one
			for from := len(c.Steps) - size; from >= 0; from -= size {
				try(func(s *Case) {
					to := from + size
					for i := from; i < to && to < len(s.Steps); i++ {
						s.Steps[to].After += s.Steps[i].After // what follows stays at its time
					}
					s.Steps = slices.Delete(s.Steps, from, to)
				})
			}
		}
		try(func(s *Case) { s.Processes = max(1, s.Processes-1) })
		try(func(s *Case) { s.Members = max(1, s.Members-1) })
		for i := range c.Steps {
			for n := range 8 { // small numbers, and times that are short or at least round
				try(func(s *Case) { s.Steps[i].A = min(s.Steps[i].A, n) })
				try(func(s *Case) { s.Steps[i].B = min(s.Steps[i].B, n) })
				try(func(s *Case) { s.Steps[i].C = min(s.Steps[i].C, n) })
			}
			for _, to := range []time.Duration{0, 100 * time.Millisecond, time.Second, c.Steps[i].After.Truncate(time.Second)} {
				try(func(s *Case) { s.Steps[i].After = min(s.Steps[i].After, to) })
			}
		}
	}
	return c
}
