// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

func replicaKey(name string) syncer.Key { return syncer.Key{Namespace: "shop", Name: name} }

// TestJudge: what lists may take at once, by what each replica had, what it would have with
// all replacements, and how many of its endpoints the lists lack.
func TestJudge(t *testing.T) {
	usual := Limits{Lists: true, MinEndpoints: 10, Percent: 15}
	strict := Limits{Lists: true, Percent: 15}
	of := func(name string, before, after, gone int) loss {
		return loss{replica: replicaKey(name), before: before, after: after, gone: gone}
	}
	lately := func(l loss, beyond bool) loss { l.beyond = beyond; return l }
	for name, c := range map[string]struct {
		limits         Limits
		losses, recent []loss
		doubtAll       bool
		held           string // replicas, sorted
		passed         int
	}{
		"nothing is lacked":                             {limits: usual, losses: []loss{of("a", 10, 10, 0)}},
		"within the share":                              {limits: strict, losses: []loss{of("a", 20, 17, 3)}, passed: 1},
		"exactly the share":                             {limits: strict, losses: []loss{of("a", 100, 85, 15)}, passed: 1},
		"one more than the share":                       {limits: strict, losses: []loss{of("a", 100, 84, 16)}, held: "a"},
		"one of two":                                    {limits: strict, losses: []loss{of("a", 2, 1, 1)}, held: "a"},
		"beyond the share, and few in the member":       {limits: usual, losses: []loss{of("a", 20, 10, 10)}, passed: 1},
		"beyond the share, and one too many":            {limits: usual, losses: []loss{of("a", 20, 9, 11)}, held: "a"},
		"two beyond that together are too many":         {limits: usual, losses: []loss{of("a", 20, 14, 6), of("b", 20, 15, 5)}, held: "a b"},
		"two beyond that together are few":              {limits: usual, losses: []loss{of("a", 20, 15, 5), of("b", 20, 15, 5)}, passed: 2},
		"the share of one is not another's":             {limits: usual, losses: []loss{of("a", 20, 9, 11), of("b", 20, 18, 2)}, held: "a", passed: 1},
		"the last one":                                  {limits: usual, losses: []loss{of("a", 1, 0, 1)}, held: "a"},
		"one that is emptied holds others beyond":       {limits: usual, losses: []loss{of("a", 1, 0, 1), of("b", 10, 5, 5)}, held: "a b"},
		"one that is emptied holds none within":         {limits: usual, losses: []loss{of("a", 1, 0, 1), of("b", 20, 18, 2)}, held: "a", passed: 1},
		"all replaced":                                  {limits: strict, losses: []loss{of("a", 10, 10, 10)}},
		"replaced by more":                              {limits: strict, losses: []loss{of("a", 10, 14, 10)}},
		"ten by nine":                                   {limits: strict, losses: []loss{of("a", 10, 9, 10)}, passed: 1},
		"ten by eight":                                  {limits: strict, losses: []loss{of("a", 10, 8, 10)}, held: "a"},
		"what turned not ready is not lacked":           {limits: strict, losses: []loss{of("a", 10, 1, 1)}, passed: 1},
		"a replica that had nothing":                    {limits: strict, losses: []loss{of("a", 0, 0, 0)}},
		"nothing ready is left, and nothing was":        {limits: strict, losses: []loss{of("a", 0, 0, 2)}},
		"lists are not judged":                          {limits: Limits{Percent: 15}, losses: []loss{of("a", 10, 0, 10)}},
		"lists that lie: what is little, too":           {limits: usual, losses: []loss{of("a", 100, 99, 1)}, doubtAll: true, held: "a"},
		"lists that lie: what is replaced, too":         {limits: usual, losses: []loss{of("a", 10, 10, 1)}, doubtAll: true, held: "a"},
		"lists that lie: what they do not lack":         {limits: usual, losses: []loss{of("a", 10, 10, 0)}, doubtAll: true},
		"bit by bit within the share":                   {limits: strict, losses: []loss{of("a", 90, 85, 5)}, recent: []loss{of("a", 100, 90, 10)}, passed: 1},
		"bit by bit beyond the share":                   {limits: strict, losses: []loss{of("a", 90, 84, 6)}, recent: []loss{of("a", 100, 90, 10)}, held: "a"},
		"what others lost lately within their shares":   {limits: usual, losses: []loss{of("a", 20, 12, 8)}, recent: []loss{of("b", 100, 90, 10)}, passed: 1},
		"what others lost lately beyond their shares":   {limits: usual, losses: []loss{of("a", 20, 12, 8)}, recent: []loss{lately(of("b", 10, 7, 3), true)}, held: "a"},
		"what others lost lately leaves room for these": {limits: usual, losses: []loss{of("a", 20, 13, 7)}, recent: []loss{lately(of("b", 10, 7, 3), true)}, passed: 1},
	} {
		unsettled, passed := judge(c.limits, c.losses, c.recent, c.doubtAll)
		var held []string
		for _, replica := range slices.SortedFunc(maps.Keys(unsettled), syncer.Key.Compare) {
			held = append(held, replica.Name)
		}
		if got := strings.Join(held, " "); got != c.held || len(passed) != c.passed {
			t.Errorf("%s: %q is held and %d pass, want %q and %d", name, got, len(passed), c.held, c.passed)
		}
	}
}

// TestJudgeIsAboutShares: whatever the numbers, a loss that passes by itself is within the
// share or within MinEndpoints, and leaves something.
func TestJudgeIsAboutShares(t *testing.T) {
	for before := range 40 {
		for after := range before + 1 {
			for _, l := range []Limits{{Lists: true, Percent: 15}, {Lists: true, MinEndpoints: 3, Percent: 15}, {Lists: true, MinEndpoints: 10, Percent: 50}} {
				lost := before - after
				unsettled, passed := judge(l, []loss{{replica: replicaKey("a"), before: before, after: after, gone: lost}}, nil, false)
				may := lost == 0 || after > 0 && (lost*100 <= before*l.Percent || lost <= l.MinEndpoints)
				if may == unsettled[replicaKey("a")] || len(passed) > 0 && (lost == 0 || !may) {
					t.Errorf("%+v: %d of %d are lost: held %v, passed %v", l, lost, before, unsettled, passed)
				}
			}
		}
	}
}

// TestSecondLook: what a second list may take where nobody may ask.
func TestSecondLook(t *testing.T) {
	l := Limits{Lists: true, MinEndpoints: 3, ConfirmPercent: 50}
	for _, c := range []struct {
		lost, before int
		empty, want  bool
	}{
		{0, 0, false, true}, {3, 3, true, true}, {4, 100, true, false}, {4, 8, false, true}, {5, 8, false, false},
		{50, 100, false, true}, {51, 100, false, false}, {100, 100, false, false},
	} {
		if got := l.confirms(c.lost, c.before, c.empty); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestMergedChanges: each pair of replica and source once, with its strongest effect.
func TestMergedChanges(t *testing.T) {
	s := New(start, Config{}, 1)
	all := keptDirty([]syncer.Key{replicaKey("a"), replicaKey("b"), replicaKey("a")})
	all[2].Effect = syncer.Removal
	got := merged(all)
	if len(got) != 2 || got[0].Replica != replicaKey("a") || got[0].Effect != syncer.Removal || got[1].Effect != syncer.Addition {
		t.Errorf("%+v", got)
	}
	s.synced = true
	var out Effects
	s.announceList(&out, Cause{Event: "relist"}, got)
	if len(out.Changes) != 2 || out.Changes[0].Bulk || !out.Changes[1].Bulk || len(out.Changes[0].Dirty) != 1 {
		t.Errorf("removals do not go first, by themselves: %s", fmt.Sprint(out.Changes))
	}
}

// TestAServiceGoesWhileItsPodsAreListed: a list lacks pods of two Services of a replica, and one
// of these goes between any two pieces of it. Nothing is held of its pods, and the rest ends.
func TestAServiceGoesWhileItsPodsAreListed(t *testing.T) {
	for at := 0; ; at++ {
		w := &cluster{}
		s := New(start, Config{Limits: Limits{Lists: true}, Placement: func(*syncer.Service) (syncer.Key, bool) { return replicaKey("a"), true }}, 1)
		s.Step(start, Baseline{})
		s.Step(start, Connected{})
		s.Step(start, Listed[store.Node]{})
		a, d := theService{"a", "a", 1, 1}, theService{"d", "d", 2, 2}
		s.Step(start, Listed[syncer.Service]{Revision: 2, Items: []serviceVersion{a.shown(), d.shown()}})
		var pods Listed[syncer.Pod]
		for _, app := range []string{"a", "a", "a", "d", "d"} {
			pods.Items = append(pods.Items, w.shown(w.addPod(0, 1, app)))
			pods.Revision = w.revision
		}
		s.Step(start, pods)
		s.piece = 1
		pods.Items, pods.Revision = pods.Items[:2:2], pods.Revision+2
		gone := d
		gone.revision = pods.Revision
		n, asked := 0, []Read(nil)
		note := func(out Effects) Effects {
			asked = append(asked, out.Read...)
			return out
		}
		for out := note(s.Step(start, pods)); out.Next != nil; out = note(s.Step(start, out.Next)) {
			if n++; n == at {
				note(s.Step(start, &Gone[syncer.Service]{gone.shown()}))
			}
		}
		if n < at {
			return
		}
		for _, read := range asked {
			s.Step(start, Answer{Read: read, Outcome: NotFound})
		}
		if len(s.holds)+len(s.absent) > 0 {
			t.Errorf("after piece %d: %v is held, %v absent", at, s.holds, s.absent)
		}
	}
}
