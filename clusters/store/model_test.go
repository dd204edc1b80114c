// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestModel drives a store and its dumb twin with the same random events and
// checks the store's promises after each:
//
//   - its contributions are the twin's and its indexes hold;
//   - whatever changed was returned as dirty, and as a removal if something that
//     took traffic does so no longer;
//   - a repeated or outdated event changes nothing and returns nothing.
func TestModel(t *testing.T) {
	for seed := range dice.Seeds(t, 25) {
		runModel(t, seed, 200)
	}
}

// FuzzModel is TestModel for as long as it is told.
func FuzzModel(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { runModel(t, seed, 500) })
}

func runModel(t *testing.T, seed uint64, steps int) {
	t.Helper()
	m := newModel(t, seed)
	for step := range steps {
		m.step(step)
	}
}

type model struct {
	t                           *testing.T
	rng                         *rand.Rand
	name                        string
	store                       *Store
	twin                        *twin
	podRV, serviceRV, writtenRV uint64
	before                      map[syncer.Key][]SourceContribution
	history                     []func() []Dirty // events that may come again
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rng: dice.From(seed, 7), twin: newTwin(placements[0]), podRV: 50_000, serviceRV: 50_000, writtenRV: 50_000}
	m.store = New(Options{Placement: placements[0]})
	m.before = m.twin.contributions()
	m.name = fmt.Sprint("seed ", seed)
	return m
}

var placements = []Placement{
	func(svc *syncer.Service) (syncer.Key, bool) {
		return svc.Key, svc.Annotations["tributary.dev/replicate"] != "false"
	},
	func(svc *syncer.Service) (syncer.Key, bool) {
		return syncer.Key{Namespace: "all", Name: "x" + svc.Name}, true
	},
	func(svc *syncer.Service) (syncer.Key, bool) {
		return syncer.Key{Namespace: "one", Name: "one"}, svc.Namespace == "a"
	},
}

// step does one random thing and checks everything.
func (m *model) step(step int) {
	edits := m.store.ManualEdits()
	what, dirty, flags := m.act()
	if m.twin.forget(); m.store.ManualEdits() != edits {
		m.history = nil // what is forgotten cannot be told from what is old
	}
	name := fmt.Sprintf("%s, step %d, %s", m.name, step, what)
	if err := m.store.check(); err != nil {
		m.t.Fatalf("%s: index: %v", name, err)
	}
	after := m.twin.contributions()
	m.compare(name, after)
	m.checkDirty(name, dirty, after, flags)
	m.before = after
}

// flags of an action.
type flags struct {
	quiet bool // nothing may be dirty
	slow  bool // effects are not told apart
}

func (m *model) act() (what string, dirty []Dirty, f flags) {
	switch n := m.rng.IntN(100); {
	case n < 34:
		return m.upsertPod()
	case n < 44:
		return m.deletePod()
	case n < 58:
		return m.upsertService()
	case n < 62:
		return m.deleteService()
	case n < 72:
		return m.again()
	case n < 78:
		return m.replacePods()
	case n < 82:
		return m.replaceServices()
	case n < 84:
		return m.releaseHeld()
	case n < 87:
		return m.keepFor()
	case n < 93:
		return m.write()
	case n < 96:
		return m.zone()
	case n < 98:
		m.twin.placement = placements[m.rng.IntN(len(placements))]
		return "placement", m.store.SetPlacement(m.twin.placement), flags{}
	default:
		m.twin.rules = syncer.Options{TolerateUnreadyAnnotation: m.coin()}
		if m.coin() {
			m.twin.rules.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")}
		}
		return "rules", m.store.SetRules(m.twin.rules), flags{slow: true}
	}
}

func (m *model) compare(name string, want map[syncer.Key][]SourceContribution) {
	if got := m.store.Replicas(); !slices.Equal(got, slices.SortedFunc(maps.Keys(want), syncer.Key.Compare)) {
		m.t.Fatalf("%s: replicas %v, want %v", name, got, slices.Collect(maps.Keys(want)))
	}
	for replica, contributions := range want {
		got := m.store.Peek(replica)
		for i := range got {
			got[i].Trigger = time.Time{}
		}
		if !reflect.DeepEqual(got, contributions) {
			m.t.Fatalf("%s: %s\ngot  %s\nwant %s", name, replica, describe(got), describe(contributions))
		}
	}
}

func (m *model) checkDirty(name string, dirty []Dirty, after map[syncer.Key][]SourceContribution, f flags) {
	if f.quiet && len(dirty) > 0 {
		m.t.Fatalf("%s: dirty %v, want none", name, dirty)
	}
	if !slices.IsSortedFunc(dirty, sortDirty) {
		m.t.Fatalf("%s: dirty is not sorted: %v", name, dirty)
	}
	effects := map[[2]syncer.Key]syncer.Effect{}
	for _, d := range dirty {
		pair := [2]syncer.Key{d.Replica, d.Source}
		if _, twice := effects[pair]; twice || d.Effect == syncer.None {
			m.t.Fatalf("%s: dirty twice or without effect: %v", name, dirty)
		}
		effects[pair] = d.Effect
	}
	was, is := bySource(m.before), bySource(after)
	for pair := range maps.Keys(merged(was, is)) {
		old, now := was[pair], is[pair]
		if reflect.DeepEqual(old, now) {
			continue
		}
		want := syncer.Addition
		if lost(old, now) && !f.slow {
			want = syncer.Removal
		}
		if effects[pair] < want {
			m.t.Fatalf("%s: %v changed with effect %s, dirty is %v", name, pair, want, dirty)
		}
	}
}

// lost reports whether something that took traffic does so no longer.
func lost(old, now *SourceContribution) bool {
	if old == nil {
		return false
	}
	if now == nil {
		return true
	}
	points := serving(now)
	for point := range serving(old) {
		if !points[point] && !now.Pending {
			return true
		}
	}
	return false
}

func bySource(all map[syncer.Key][]SourceContribution) map[[2]syncer.Key]*SourceContribution {
	m := map[[2]syncer.Key]*SourceContribution{}
	for replica, list := range all {
		for i := range list {
			m[[2]syncer.Key{replica, list[i].Source}] = &list[i]
		}
	}
	return m
}

func merged[K comparable, V any](a, b map[K]V) map[K]V {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// describe shows what %+v hides, since a Service prints as its key.
func describe(list []SourceContribution) string {
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
