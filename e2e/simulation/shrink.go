// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"
)

// Shrink returns the shortest script that it finds by which the same law is broken, within a
// number of tries.
func Shrink(c *Case, law Law, tries int) *Case {
	s := &shrinker{best: c, law: law, tries: tries}
	for before := -1; before != s.size() && s.tries > 0; {
		before = s.size()
		s.fewer()
		s.smaller()
		s.sooner()
	}
	return s.best
}

type shrinker struct {
	best  *Case
	law   Law
	tries int
}

// size is what is to become less.
func (s *shrinker) size() int {
	size := 100*len(s.best.Steps) + 10*(s.best.Members+s.best.Processes)
	for _, step := range s.best.Steps {
		size += step.A + step.B + step.C
		if step.After > 0 {
			size += 5
		}
	}
	return size
}

// fails takes a case if the law is still broken.
func (s *shrinker) fails(edit func(*Case)) bool {
	if s.tries <= 0 {
		return false
	}
	s.tries--
	c := *s.best
	c.Steps = slices.Clone(c.Steps)
	edit(&c)
	if r := Run(&c, nil); r.Broken == nil || r.Broken.Law != s.law {
		return false
	}
	s.best = &c
	return true
}

// fewer leaves steps out: half of them, a quarter, down to one.
func (s *shrinker) fewer() {
	for size := len(s.best.Steps) / 2; size > 0; size /= 2 {
		for from := len(s.best.Steps) - size; from >= 0; from -= size {
			if from+size > len(s.best.Steps) {
				continue
			}
			if s.fails(func(c *Case) { c.Steps = slices.Delete(c.Steps, from, from+size) }) {
				continue
			}
			s.fails(func(c *Case) { // with the time that they took
				var took time.Duration
				for _, step := range c.Steps[from : from+size] {
					took += step.After
				}
				if c.Steps = slices.Delete(c.Steps, from, from+size); from < len(c.Steps) {
					c.Steps[from].After += took
				}
			})
		}
	}
	for s.best.Processes > 1 && s.fails(func(c *Case) { c.Processes-- }) {
	}
	for s.best.Members > 1 && s.fails(func(c *Case) { c.Members-- }) {
	}
}

// smaller makes numbers small.
func (s *shrinker) smaller() {
	for i := range s.best.Steps {
		for _, of := range []func(*Step) *int{func(p *Step) *int { return &p.A }, func(p *Step) *int { return &p.B }, func(p *Step) *int { return &p.C }} {
			for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
				if now := *of(&s.best.Steps[i]); n >= now || s.fails(func(c *Case) { *of(&c.Steps[i]) = n }) {
					break
				}
			}
		}
	}
}

// sooner makes times short, or at least round.
func (s *shrinker) sooner() {
	for i := range s.best.Steps {
		for _, to := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, s.best.Steps[i].After.Round(time.Second)} {
			now := s.best.Steps[i].After
			if to >= now && to != now.Round(time.Second) || to == now || s.fails(func(c *Case) { c.Steps[i].After = to }) {
				break
			}
		}
	}
}
