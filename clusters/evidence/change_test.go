// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// changed is what the lists say after Services have changed, or pods.
func (w *memberWords) changed() *memberWords {
	is := *w
	if w.oneIn(2) {
		is.changePods()
	} else {
		is.changeServices()
	}
	return &is
}

func (w *memberWords) changeServices() {
	is := &memberWords{rng: w.rng}
	for _, line := range w.services {
		name, more, _ := strings.Cut(line, " ")
		byHand := strings.HasPrefix(more, "by-hand")
		switch w.rng.IntN(9) {
		case 0:
			continue
		case 1:
			is.services = append(is.services, name+" selects "+w.one("a", "b", "everything"))
			continue
		case 2: // which ends nothing else
			if !strings.HasSuffix(line, " publishes") {
				line, byHand = name+" by-hand", true
			}
		}
		is.services = append(is.services, line)
		if byHand {
			is.writeByHand(name)
		}
	}
	is.pods = w.pods
	*w = *is
}

func (w *memberWords) changePods() {
	var is []string
	for i, line := range w.pods {
		fields := strings.Fields(line)
		switch w.rng.IntN(9) {
		case 0:
			continue
		case 1:
			line = fmt.Sprintf("%s 10.0.1.%d %s uid=again-%d", fields[0], i+1, fields[2], i)
		case 2:
			line = strings.Replace(line, " not-ready", "", 1)
		case 3:
			if !strings.Contains(line, "not-ready") {
				line += " not-ready"
			}
		}
		is = append(is, line)
	}
	w.pods = is
}

// TestChangeWhileNobodyRan: what the member gave before a change and gives after it is never
// taken out of traffic by a start between, in whatever order lists come.
func TestChangeWhileNobodyRan(t *testing.T) {
	for seed := range dice.Seeds(t, 300) {
		before := newMemberWords(dice.From(seed, 23), false)
		after := before.changed()
		do := func(r *replay, lines ...string) {
			for _, line := range lines {
				if err := r.line("0s " + line); err != nil {
					t.Fatalf("%d: %s: %v", seed, line, err)
				}
			}
		}
		was, will, started := newReplay(), newReplay(), newReplay()
		do(was, append([]string{"start"}, before.lists()...)...)
		do(will, append([]string{"start"}, after.lists()...)...)
		started.latest = 10
		for _, replica := range was.state.store.Replicas() {
			started.standing[replica] = before.standing(was.state, replica)
		}
		stood := maps.Clone(started.standing)
		do(started, "start")
		for _, line := range after.lists() {
			do(started, line)
			for replica, standing := range stood {
				had, serve := servedOf(was.state, replica, nil), servedOf(started.state, replica, standing.Endpoints)
				for addr, served := range servedOf(will.state, replica, nil) {
					if served && had[addr] && !serve[addr] {
						t.Fatalf("%d: %v loses %v after %q\n%q\n%q\n%q\n%q", seed, replica, addr, line, before.services, after.services, before.pods, after.pods)
					}
				}
			}
		}
	}
}
