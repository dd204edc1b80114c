// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestReadyByCluster(t *testing.T) {
	ours, theirs := Meta{Owned: true}, Meta{}
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, last}) }
	slice := func(meta Meta, cluster string, ready ...bool) ObservedSlice {
		s := ObservedSlice{Meta: meta, Cluster: cluster}
		for i, r := range ready {
			s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: at(byte(i)), Ready: r})
		}
		return s
	}
	endpoints := func(meta Meta, record string) *ObservedEndpoints {
		meta.Annotations = map[string]string{AnnotationAddresses: record}
		return &ObservedEndpoints{Meta: meta, Subsets: []syncer.Subset{{
			Ready: []syncer.Address{{Addr: at(1)}, {Addr: at(2)}, {Addr: at(3)}}, NotReady: []syncer.Address{{Addr: at(4)}},
		}}}
	}
	for name, c := range map[string]struct {
		observed Observed
		want     map[string]int
	}{
		"nothing": {Observed{}, map[string]int{}},
		"slices":  {Observed{Slices: []ObservedSlice{slice(ours, "a", true, false, true), slice(ours, "b", true), slice(theirs, "a", true)}}, map[string]int{"a": 2, "b": 1}},
		"both kinds": {
			Observed{Endpoints: endpoints(ours, ""), Slices: []ObservedSlice{slice(ours, "a", true)}}, map[string]int{"a": 1},
		},
		"Endpoints alone":           {Observed{Endpoints: endpoints(ours, "a=*;b=10.0.0.3,10.0.0.4")}, map[string]int{"a": 2, "b": 1}},
		"Endpoints without record":  {Observed{Endpoints: endpoints(ours, "")}, map[string]int{}},
		"Endpoints of someone else": {Observed{Endpoints: endpoints(theirs, "a=*")}, map[string]int{}},
	} {
		if got := ReadyByCluster(c.observed); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
