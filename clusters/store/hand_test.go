// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"testing"

	"tributary.dev/tributary/syncer"
)

func written(name string, revision uint64, last ...byte) Versioned[HandEndpoints] {
	subset := syncer.Subset{Ports: []syncer.Port{{Name: "db", Protocol: "TCP", Number: 5432}}}
	for _, l := range last {
		subset.Ready = append(subset.Ready, syncer.Address{Addr: netip.AddrFrom4([4]byte{10, 0, 0, l})})
	}
	return Versioned[HandEndpoints]{Object: HandEndpoints{Key: in(name), Subsets: []syncer.Subset{subset}}, Revision: revision}
}

func writtenSlice(service, name string, revision uint64, last ...byte) Versioned[HandSlice] {
	content := syncer.Slice{Name: name, Family: syncer.IPv4, Ports: []syncer.Port{{Name: "db", Protocol: "TCP", Number: 5432}}}
	for _, l := range last {
		content.Endpoints = append(content.Endpoints, syncer.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, l}), Ready: true, Serving: true})
	}
	return Versioned[HandSlice]{Object: HandSlice{Key: in(name), Service: service, Content: content}, Revision: revision}
}

func TestHandWrittenEndpoints(t *testing.T) {
	w := newWorld(t, Options{})
	w.dirty("Endpoints of no Service", w.SetEndpoints(written("db", 1, 1)))
	w.serve(handMade("db"))
	w.expect("db", "") // they were not read since
	w.dirty("Endpoints", w.SetEndpoints(written("db", 2, 1, 2)), change("db", syncer.Removal))
	w.dirty("the same", w.SetEndpoints(written("db", 3, 1, 2)))
	w.dirty("a slice", w.SetSlice(writtenSlice("db", "db-x", 4, 3)), change("db", syncer.Removal))
	w.expect("db", "1, 2, 3")
	w.dirty("they go", w.RemoveEndpoints(in("db")), change("db", syncer.Removal))
	w.dirty("they went", w.RemoveEndpoints(in("db")))
	w.dirty("a slice that is none", w.RemoveSlice(in("db-y")))
	w.expect("db", "3")
}

func TestASliceMovesBetweenServices(t *testing.T) {
	w := newWorld(t, Options{})
	w.serve(handMade("a"))
	w.serve(handMade("b"))
	w.SetSlice(writtenSlice("a", "s", 1, 1))
	w.dirty("another Service's", w.SetSlice(writtenSlice("b", "s", 2, 1)), change("a", syncer.Removal), change("b", syncer.Removal))
	w.expect("a", "")
	w.expect("b", "1")
	w.dirty("no Service's that is known", w.SetSlice(writtenSlice("c", "s", 3, 1)), change("b", syncer.Removal))
	w.SetSlice(writtenSlice("a", "s", 4, 1))
	derived := writtenSlice("a", "s", 5, 1)
	derived.Object.Derived = true
	w.dirty("a controller took it", w.SetSlice(derived), change("a", syncer.Removal))
	w.expect("a", "")
}

// TestASelectorAndBack: Endpoints that were written before a Service had a selector do not count
// after it, for its controller writes them meanwhile.
func TestASelectorAndBack(t *testing.T) {
	w := newWorld(t, Options{})
	w.pod(aPod("p", "db", 9))
	w.serve(handMade("db"))
	w.SetEndpoints(written("db", 1, 1))
	w.SetSlice(writtenSlice("db", "db-x", 2, 2))
	w.expect("db", "1, 2")
	w.dirty("a selector", w.serve(aService("db", "db")), change("db", syncer.Removal))
	w.expect("db", "9")
	w.dirty("a slice meanwhile", w.SetSlice(writtenSlice("db", "db-y", 2, 3)))
	w.serve(handMade("db"))
	w.expect("db", "2, 3")
	svc := handMade("db")
	svc.Annotations = map[string]string{"a": "b"}
	w.SetEndpoints(written("db", 3, 1))
	w.serve(svc)
	w.expect("db", "1, 2, 3") // a change that leaves it as it is
}
