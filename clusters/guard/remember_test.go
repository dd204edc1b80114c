// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

// restart makes a process of its own take in the pods as they are in truth, and
// remember those that were taken as ready before.
func (m *member) restart() {
	m.t.Helper()
	var items, turned []PodVersion
	for key, p := range m.truth {
		m.rv++
		v := PodVersion{Object: p, RV: m.rv}
		items = append(items, v)
		if before := m.pods[key]; before.Object.Ready && !p.Ready {
			turned = append(turned, v)
		}
	}
	m.r, m.pods = Readiness{}, map[syncer.Key]PodVersion{}
	m.r.List(m.now, m.limits, m, m.held, items)
	m.take(items)
	var pods []*syncer.Pod
	for _, v := range items {
		pods = append(pods, &v.Object)
	}
	m.r.Recount(pods)
	for _, v := range m.r.Remember(m.now, m.limits, m, turned) {
		v.Object.ReadySince = 100 // which nobody knows any more
		m.pods[v.Object.Key] = v
	}
}

func TestReadinessIsRememberedThroughARestart(t *testing.T) {
	most := func(m *member, silent bool) {
		for i := range 10 {
			m.see("web", i, false, silent)
			m.see("api", i, false, silent)
			m.see("db", i, false, silent)
		}
	}
	services := map[string]int{"web": 12, "api": 12, "db": 12}
	all, some := map[string]int{"web": 12, "api": 12, "db": 12}, map[string]int{"web": 2, "api": 2, "db": 2}
	for name, c := range map[string]struct {
		tweak  func(l *Limits)
		before func(m *member) // the first process
		away   func(m *member) // nobody
		panics bool
		want   map[string]int
	}{
		"a panic":                         {before: func(m *member) { most(m, false) }, panics: true, want: all},
		"a panic that begins meanwhile":   {away: func(m *member) { most(m, true) }, panics: true, want: all},
		"a panic that goes on meanwhile":  {before: func(m *member) { most(m, false) }, away: func(m *member) { m.see("db", 10, false, false) }, panics: true, want: all},
		"pods of silent nodes":            {tweak: func(l *Limits) { l.HoldSilent = time.Minute }, away: func(m *member) { m.see("web", 0, false, true) }, want: all},
		"no limits":                       {tweak: func(l *Limits) { l.PanicPercent = 0 }, away: func(m *member) { most(m, false) }, want: some},
		"a few":                           {away: func(m *member) { m.see("web", 0, false, false) }, want: map[string]int{"web": 11}},
		"one Service goes to none ready":  {away: func(m *member) { allOf(m, "web", false) }, want: map[string]int{"web": 0, "api": 12}},
		"what was let go is not kept now": {before: func(m *member) { most(m, false); m.take(m.r.Release(nil)) }, want: some},
		"a panic that is over":            {before: func(m *member) { most(m, false) }, away: func(m *member) { allOf(m, "web", true); allOf(m, "api", true) }, want: map[string]int{"web": 12, "api": 12, "db": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, services)
			if c.tweak != nil {
				c.tweak(&m.limits)
			}
			if c.before != nil {
				c.before(m)
			}
			if c.away != nil {
				first := m.r
				kept := m.pods
				m.r, m.pods = Readiness{}, map[syncer.Key]PodVersion{}
				c.away(m)
				m.r, m.pods = first, kept
			}
			m.restart()
			m.expect(c.panics, c.want)
		})
	}
}

func allOf(m *member, service string, ready bool) {
	for i := range 12 {
		m.see(service, i, ready, false)
	}
}

// The panic goes on while one pod after the other recovers, until most have.
func TestRememberedPanicEndsLikeAnyOther(t *testing.T) {
	m := newMember(t, map[string]int{"web": 10, "api": 10})
	for i := range 10 {
		m.see("web", i, false, false)
		m.see("api", i, false, false)
	}
	m.restart()
	m.see("web", 0, true, false)
	m.pass(2 * Window)
	m.expect(true, map[string]int{"web": 10, "api": 10})
	for i := range 10 {
		m.see("web", i, true, false)
	}
	for i := range 6 {
		m.see("api", i, true, false)
	}
	m.pass(time.Second)
	m.expect(false, map[string]int{"web": 10, "api": 6})
}
