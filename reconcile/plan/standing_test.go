// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestStandingOf(t *testing.T) {
	ours, theirs := Meta{Owned: true}, Meta{}
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, last}) }
	podOf := func(uid string) syncer.TargetRef { return syncer.TargetRef{Kind: "Pod", UID: uid} }
	slice := func(meta Meta, cluster string, ready ...bool) CurrentSlice {
		s := CurrentSlice{Meta: meta, Cluster: cluster}
		for i, r := range ready {
			s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: at(byte(i + 1)), Ready: r})
		}
		return s
	}
	second := slice(ours, "a", true) // the other family of a pod
	second.Endpoints[0] = syncer.Endpoint{Addr: netip.MustParseAddr("fd00::1"), Ready: true, Target: podOf("p")}
	first := slice(ours, "a", true)
	first.Endpoints[0].Target = podOf("p")
	endpoints := func(meta Meta, record string) *CurrentEndpoints {
		meta.Annotations = map[string]string{AnnotationAddresses: record}
		return &CurrentEndpoints{Meta: meta, Owners: ReadOwners(meta.Annotations), Subsets: []syncer.Subset{{
			Ready: []syncer.Address{{Addr: at(1), Target: podOf("p")}, {Addr: at(2)}, {Addr: at(3)}}, NotReady: []syncer.Address{{Addr: at(4)}},
		}}}
	}
	recorded := &CurrentService{Meta: Meta{Owned: true}, Record: ReadRecord(map[string]string{
		AnnotationSources: `[{"cluster":"a","service":"shop/api"},{"cluster":"b","service":"shop/web"},{"cluster":"a","service":"store/api"}]`,
	})}
	for name, c := range map[string]struct {
		current Current
		want    []string // addresses
		sources []string
	}{
		"nothing": {},
		"slices": {
			Current{Slices: []CurrentSlice{slice(ours, "a", true, false, true), slice(ours, "b", true), slice(theirs, "a", true)}},
			[]string{"10.0.0.1", "10.0.0.3"}, []string{"x-shop/web"},
		},
		"two families":     {Current{Slices: []CurrentSlice{first, second}}, []string{"10.0.0.1", "fd00::1"}, []string{"x-shop/web"}},
		"only of another":  {Current{Slices: []CurrentSlice{slice(ours, "b", true)}}, nil, nil},
		"sources":          {Current{Service: recorded, Slices: []CurrentSlice{slice(ours, "a", true)}}, []string{"10.0.0.1"}, []string{"shop/api", "store/api"}},
		"Endpoints alone":  {Current{Endpoints: endpoints(ours, "a=*;b=10.0.0.3,10.0.0.4")}, []string{"10.0.0.1", "10.0.0.2"}, []string{"x-shop/web"}},
		"without a record": {Current{Endpoints: endpoints(ours, "")}, nil, nil},
		"not ours":         {Current{Endpoints: endpoints(theirs, "a=*")}, nil, nil},
	} {
		c.current.Key = syncer.Key{Namespace: "x-shop", Name: "web"}
		got := c.current.Standing("a")
		var sources []string
		for _, key := range got.Sources {
			sources = append(sources, key.String())
		}
		var ready []string
		for _, e := range got.Endpoints {
			if e.Ready {
				ready = append(ready, e.Addr.String())
			}
		}
		if !slices.Equal(ready, c.want) || !slices.Equal(sources, c.sources) {
			t.Errorf("%s: %v of %v, want %v of %v", name, ready, sources, c.want, c.sources)
		}
	}
}

func TestWithoutGone(t *testing.T) {
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, last}) }
	share := Contribution{}
	share.Endpoints = []syncer.Endpoint{{Addr: at(1)}, {Addr: at(2)}}
	share.Subsets = []syncer.Subset{{Ready: []syncer.Address{{Addr: at(1)}, {Addr: at(2)}}}, {NotReady: []syncer.Address{{Addr: at(2)}}}}
	before := share
	got := WithoutGone([]Contribution{share}, []netip.Addr{at(2)})[0]
	if len(got.Endpoints) != 1 || got.Endpoints[0].Addr != at(1) || len(got.Subsets) != 1 || len(got.Subsets[0].Ready) != 1 {
		t.Errorf("%+v", got)
	}
	if len(before.Endpoints) != 2 || len(before.Subsets[0].Ready) != 2 {
		t.Error("what stands was changed")
	}
}
