// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/syncer"
)

// BenchmarkAddresses is what one address costs where something looks at others for
// each: that must not depend on how many there are.
func BenchmarkAddresses(b *testing.B) {
	for _, c := range []struct {
		name  string
		setUp func(n int) (work func())
	}{
		{"hand-written in both kinds", mergeOfBothKinds},
		{"a slice for each address", diffOfManySlices},
		{"left under a foreign Service", salvageOfMany},
		{"every second one refused", withoutHalf},
	} {
		for _, n := range []int{1000, 20000} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				work := c.setUp(n)
				for b.Loop() {
					work()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/address")
			})
		}
	}
}

// numbered are contributions of one member with n ready endpoints.
func numbered(n int, ports func(i int) []syncer.Port) []Contribution {
	c := from("idc-a", 1, "http:80")
	c.Families = []syncer.Family{syncer.IPv4}
	for i := range n {
		c.Endpoints = append(c.Endpoints, syncer.Endpoint{Addr: numberedAddr(i), Ports: ports(i), Ready: true, Serving: true, NodeName: "node"})
	}
	return []Contribution{c}
}

func numberedAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

func samePort(int) []syncer.Port {
	return []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 80}}
}

// standingAs is an ingress cluster in which a replica stands.
func standingAs(r *Desired) Current {
	o := Current{Key: shopWeb, Namespace: NamespaceActive}
	o.Service = &CurrentService{Meta: Meta{Name: shopWeb.Name, Owned: true}, Headless: true, Ports: r.Service.Ports}
	for i := range r.Slices {
		s := &r.Slices[i]
		o.Slices = append(o.Slices, CurrentSlice{Meta: Meta{Name: s.Name, Owned: true, Labels: s.Labels}, Cluster: s.Cluster, Slice: s.Slice})
	}
	return o
}

// writtenInBoth are hand-written endpoints that stand in Endpoints and in slices.
func writtenInBoth(n int) []Contribution {
	subset := syncer.Subset{Ports: samePort(0)}
	var sliced []syncer.Slice
	for i := range n {
		if i%100 == 0 {
			sliced = append(sliced, syncer.Slice{Family: syncer.IPv4, Ports: samePort(0)})
		}
		subset.Ready = append(subset.Ready, syncer.Address{Addr: numberedAddr(i)})
		last := &sliced[len(sliced)-1]
		last.Endpoints = append(last.Endpoints, syncer.Endpoint{Addr: numberedAddr(i), Ready: true, Serving: true})
	}
	svc := &syncer.Service{Key: shopWeb, Ports: []syncer.ServicePort{{Name: "http", Protocol: syncer.TCP, Port: 80}}}
	return []Contribution{{Cluster: "idc-a", Source: shopWeb,
		Contribution: syncer.HandWritten(svc, []syncer.Subset{subset}, sliced, false, syncer.Options{})}}
}

// The record of addresses is written only where the slices do not tell all.
func TestRecordOfAddressesBesideSlices(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]Contribution)
		want   string
	}{
		"both kinds have the same": {func([]Contribution) {}, ""},
		"Endpoints have one more": {func(c []Contribution) {
			more := c[0].Endpoints[0]
			more.Addr, more.Only = numberedAddr(7), syncer.KindEndpoints
			c[0].Endpoints = append(c[0].Endpoints, more)
		}, onlyEndpoints + "idc-a=*"},
		"Endpoints have them alone": {func(c []Contribution) {
			c[0].Endpoints = slices.DeleteFunc(c[0].Endpoints, func(e syncer.Endpoint) bool { return e.In(syncer.KindEndpointSlices) })
		}, onlyEndpoints + "idc-a=*"},
	} {
		t.Run(name, func(t *testing.T) {
			written := writtenInBoth(3)
			c.change(written)
			r := Merge(shopWeb, written, Current{Key: shopWeb}, bothKinds)
			if got := r.Endpoints.Annotations[AnnotationAddresses]; got != c.want {
				t.Errorf("record %q, want %q", got, c.want)
			}
		})
	}
}

func mergeOfBothKinds(n int) func() {
	c := writtenInBoth(n)
	return func() { Merge(shopWeb, c, Current{Key: shopWeb}, bothKinds) }
}

func diffOfManySlices(n int) func() {
	c := numbered(n, func(i int) []syncer.Port {
		return []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: int32(i + 1)}}
	})
	slicesOnly := Settings{WriteSlices: true}
	r := Merge(shopWeb, c, Current{Key: shopWeb}, slicesOnly)
	o := standingAs(&r)
	o.Service.UID = "new" // so that every slice is updated
	return func() { Diff(o, &r, slicesOnly) }
}

func salvageOfMany(n int) func() {
	r := Merge(shopWeb, numbered(n, samePort), Current{Key: shopWeb}, bothKinds)
	o := standingAs(&r)
	o.Service.Owned = false
	return func() { Diff(o, &r, bothKinds) }
}

func withoutHalf(n int) func() {
	c := numbered(n, samePort)
	var refused []Refusal
	for i := 0; i < n; i += 2 {
		refused = append(refused, Refusal{Evict: syncer.Kinds(i % 4), Address: numberedAddr(i)})
	}
	return func() { Without(shopWeb, c, refused, Current{Key: shopWeb}) }
}
