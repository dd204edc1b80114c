// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// fleet is a member that has been listed, with 12 pods for each of some Services.
func fleet(b *testing.B, services int) (*State, Listed[syncer.Pod]) {
	s := New(epoch, Config{})
	pods := Listed[syncer.Pod]{Scope: Scope{Kind: Pods}, Revision: 1000}
	all := Listed[syncer.Service]{Scope: Scope{Kind: Services}, Revision: 1001}
	for i := range services {
		svc := serviceOf(fmt.Sprintf("ns%d/web%d", i%100, i))
		all.Items = append(all.Items, store.Versioned[syncer.Service]{Object: svc, Revision: 900})
		for j := range 12 {
			p := podOf(fmt.Sprintf("%s-%d=10.0.0.1", svc.Key, j))
			p.UID = fmt.Sprintf("%08x-0000-4000-8000-%012x", i, j)
			p.IPs[0].Addr = netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(j)})
			pods.Items = append(pods.Items, store.Versioned[syncer.Pod]{Object: p, Revision: 900})
		}
	}
	s.Step(epoch, pods)
	s.Step(epoch, all)
	s.Step(epoch, Published{})
	if !s.Listed() {
		b.Fatal("not listed")
	}
	return s, pods
}

// BenchmarkPodEvent is a pod of 60,000 that becomes (not) ready, and the share that follows.
func BenchmarkPodEvent(b *testing.B) {
	s, pods := fleet(b, 5000)
	revision := uint64(2000)
	b.ReportAllocs()
	for b.Loop() {
		revision++
		v := pods.Items[int(revision*7919)%len(pods.Items)]
		v.Revision, v.Object.Ready = revision, revision%2 == 0
		for _, c := range s.Step(epoch, seen(pods.Scope, v, time.Time{})).Dirty {
			s.Give(c.Replica)
		}
	}
}

// BenchmarkRelist is the daily list of 60,000 pods of which none has changed.
func BenchmarkRelist(b *testing.B) {
	s, pods := fleet(b, 5000)
	for b.Loop() {
		pods.Revision++
		if e := s.Step(epoch, pods); len(e.Dirty) > 0 {
			b.Fatal("something changed")
		}
	}
}

// BenchmarkStart is all lists of 5,000 Services and 60,000 pods.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		fleet(b, 5000)
	}
}
