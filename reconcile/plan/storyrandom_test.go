// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// teller makes up stories. What each step has to hold is in replicaStory.check and in tell; one
// that does not is told as it could stand in testdata/stories.
type teller struct {
	rng *rand.Rand
	*replicaStory
	lines []string
	// members are the lines of those that have the Service.
	members map[string]string
	refuses bool
}

func (r *teller) one(of ...string) string { return of[r.rng.IntN(len(of))] }

// say adds a line to the step in hand.
func (r *teller) say(format string, args ...any) {
	r.t.Helper()
	line := strings.TrimSpace(fmt.Sprintf(format, args...))
	r.lines = append(r.lines, line)
	if err := r.Apply(line); err != nil {
		r.t.Fatalf("%q: %v", line, err)
	}
}

// member has a member give something else.
func (r *teller) member(name string) {
	if r.rng.IntN(8) == 0 {
		delete(r.replicaStory.members, name)
		delete(r.members, name)
		r.say("gone %s", name)
		return
	}
	ports := r.one("http:80>8080", "http:80>8080", "http:80>8080", "http:80>9090", "http:80>8080 admin:81>9000", "web:80>8080")
	var pods []string
	for _, n := range r.rng.Perm(6)[:r.rng.IntN(6)] {
		pods = append(pods, fmt.Sprintf("10.%d.0.%d%s", name[0]-'a', n+1, r.one("", "", "", "", "!", "~", "~!")))
	}
	flags := r.one("", "", "", "", "stale", "panic", "publishes", "label=blue")
	r.members[name] = fmt.Sprintf("member %s created=%d00 %s | %s | %s", name, name[0]-'a'+1, ports, strings.Join(pods, " "), flags)
	r.say("%s", r.members[name])
}

// refusal has the server refuse something.
func (r *teller) refusal() {
	what := func() string {
		code := r.one("403", "422", "409", "413", "429", "500", "timeout", "lost")
		cluster := r.one("", "", "a", "b", "c")
		switch r.rng.IntN(4) {
		case 0:
			kind := r.one("service", "endpoints", "endpointslice")
			if kind != "endpointslice" {
				cluster = ""
			}
			return fmt.Sprintf("%s %s %s %s", code, r.one("create", "update", "delete", "write"), kind, cluster)
		case 1:
			return fmt.Sprintf("%s any %s", code, r.one("a", "b", "c"))
		default:
			return fmt.Sprintf("%s %s 10.%d.0.%d", r.one("403", "422"), r.one("address", "endpoints", "slices"), r.rng.IntN(3), 1+r.rng.IntN(6))
		}
	}
	all := []string{what()}
	for r.rng.IntN(3) == 0 {
		all = append(all, what())
	}
	r.refuses = true
	r.say("refuse %s", strings.Join(all, " and "))
}

// tell tells a step, and holds that no kind loses its last ready endpoint as long as a member
// has one ready that stood and is not refused.
func (r *teller) tell() {
	r.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(r.configured)) {
		if r.rng.IntN(3) == 0 {
			r.member(name)
		}
	}
	switch r.rng.IntN(10) {
	case 0, 1, 2:
		r.refusal()
	case 3, 4:
		r.say("refuse nothing")
		r.refuses = false
	case 5:
		r.say("restart")
		if seen := r.one("a", "b", "a b", "a b c"); r.rng.IntN(2) == 0 {
			r.say("seen %s", seen)
		}
	case 6:
		r.say("settings drain=%s", r.one("", "", "a", "b"))
	case 7:
		r.say("settings order=%s", r.one("", "", "a,b,c", "c,a", "b"))
	case 8:
		if len(r.current.Slices) > 0 {
			r.say("hand %s", r.one("delete slices", "empty slices", "delete slices a"))
		}
	}
	current := r.read()
	stood, named := r.places(), states{}
	for _, c := range r.contributions(&current) {
		if c.Service != nil {
			named.add(slices.Values(c.Endpoints))
		}
	}
	r.lines = append(r.lines, r.Step()...)
	r.lines = append(r.lines, "")
	stands := r.places()
	for _, kind := range []Kind{KindEndpoints, KindEndpointSlice} {
		served, serves := false, false
		for at, isReady := range stood {
			refused := slices.ContainsFunc(r.former, Refusal{Address: at.addr}.Is)
			served = served || at.kind == kind && isReady && named[at.addr] == ready && !refused
		}
		for at, isReady := range stands {
			serves = serves || at.kind == kind && isReady
		}
		if served && !serves {
			r.t.Errorf("nothing is ready in %s any more, though a member has what stood", kind)
		}
	}
}

// settled holds that after all troubles the replica is as if there had been none.
func (r *teller) settled() {
	r.t.Helper()
	r.say("refuse nothing")
	r.say("seen a b c")
	r.say("settings drain= order=")
	fresh := newReplicaStory(r.t)
	fresh.settings = r.settings
	for name, line := range r.members {
		line = strings.NewReplacer("stale", "", "panic", "").Replace(line)
		r.say("%s", line)
		if err := fresh.Apply(line); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
	r.lines = append(r.lines, r.Step()...)
	fresh.Step()
	if got, want := r.places(), fresh.places(); !maps.Equal(got, want) {
		r.t.Errorf("stands %v\nwant   %v", got, want)
	}
}

// Of random members, refusals, restarts and deeds: what must go is gone unless the server does
// not take it, nothing goes that is the last of its kind, nothing of others is touched, and in
// the end all is as it should be.
func TestRandomStories(t *testing.T) {
	for seed := range dice.Seeds(t, 150) {
		randomStory(t, seed, 14)
		if t.Failed() {
			return
		}
	}
}

func FuzzStories(f *testing.F) {
	f.Add(uint64(1), uint8(10))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) { randomStory(t, seed, int(steps)) })
}

func randomStory(t *testing.T, seed uint64, steps int) {
	t.Helper()
	r := &teller{rng: dice.From(seed, 23), replicaStory: newReplicaStory(t), members: map[string]string{}}
	defer func() {
		if t.Failed() {
			t.Logf("== seed %d\n%s", seed, strings.Join(r.lines, "\n"))
		}
	}()
	r.say("settings slice=%d", 1+r.rng.IntN(4))
	if r.rng.IntN(3) == 0 {
		r.say("forge slice mark instance=%s cluster=%s | 203.0.113.6", r.one("default", "green"), r.one("a", "ghost"))
	}
	for _, name := range []string{"a", "b", "c"} {
		r.member(name)
		r.configured[name] = true
	}
	for range steps {
		if r.tell(); t.Failed() {
			return
		}
	}
	r.settled()
}
