// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// packed are endpoints as one text, without ports and restriction. They are nearly all of what
// the cache holds, and a third as large as their values, whose texts are parts of it.
type packed string

func pack(endpoints []syncer.Endpoint) packed {
	if len(endpoints) == 0 {
		return ""
	}
	b := binary.AppendUvarint(nil, uint64(len(endpoints)))
	for i := range endpoints {
		e := &endpoints[i]
		b = append(b, byte(e.Grade))
		for _, so := range []bool{e.Ready, e.Serving, e.Terminating} {
			b = append(b, 0)
			if so {
				b[len(b)-1] = 1
			}
		}
		addr, _ := e.Addr.MarshalBinary() // it never fails
		for _, text := range []string{string(addr), e.NodeName, e.Zone, e.Hostname, e.Target.Kind, e.Target.Namespace, e.Target.Name, e.Target.UID} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	return packed(b)
}

// unpack reads what pack made.
func (p packed) unpack() []syncer.Endpoint {
	if p == "" {
		return nil
	}
	number := func() int {
		n, size := binary.Uvarint([]byte(p[:min(len(p), binary.MaxVarintLen64)]))
		p = p[size:]
		return int(n)
	}
	text := func() (s string) {
		n := number()
		s, p = string(p[:n]), p[n:]
		return s
	}
	all := make([]syncer.Endpoint, number())
	for i := range all {
		e := &all[i]
		e.Grade, e.Ready, e.Serving, e.Terminating = syncer.Grade(p[0]), p[1] == 1, p[2] == 1, p[3] == 1
		p = p[4:]
		_ = e.Addr.UnmarshalBinary([]byte(text()))
		e.NodeName, e.Zone, e.Hostname = text(), text(), text()
		e.Target = syncer.TargetRef{Kind: text(), Key: syncer.Key{Namespace: text(), Name: text()}, UID: text()}
	}
	return all
}

// pack is the object as it is held. The object itself stays as it is.
func (o *Object) pack() *Object {
	held := *o
	switch {
	case o.Slice != nil:
		held.Slice = new(*o.Slice)
		held.packed, held.Slice.Endpoints = []packed{pack(o.Slice.Endpoints)}, nil
	case o.Endpoints != nil:
		held.Endpoints = &plan.Endpoints{Meta: o.Endpoints.Meta, Subsets: make([]syncer.Subset, len(o.Endpoints.Subsets))}
		for i, s := range o.Endpoints.Subsets {
			held.Endpoints.Subsets[i].Ports = s.Ports
			held.packed = append(held.packed, packAddresses(s.Ready), packAddresses(s.NotReady))
		}
	}
	return &held
}

// slice is that of an object that is held, and endpoints likewise.
func (o *Object) slice() plan.Slice {
	s := *o.Slice
	s.Endpoints = o.packed[0].unpack()
	return s
}

func (o *Object) endpoints() *plan.Endpoints {
	if o.Endpoints == nil { // it is gone
		return nil
	}
	e := &plan.Endpoints{Meta: o.Endpoints.Meta, Subsets: make([]syncer.Subset, len(o.Endpoints.Subsets))}
	for i, s := range o.Endpoints.Subsets {
		e.Subsets[i] = syncer.Subset{Ready: o.packed[2*i].addresses(), NotReady: o.packed[2*i+1].addresses(), Ports: s.Ports}
	}
	return e
}

func packAddresses(addresses []syncer.Address) packed {
	endpoints := make([]syncer.Endpoint, len(addresses))
	for i, a := range addresses {
		endpoints[i] = syncer.Endpoint{Addr: a.Addr, Hostname: a.Hostname, NodeName: a.NodeName, Target: a.Target}
	}
	return pack(endpoints)
}

func (p packed) addresses() (addresses []syncer.Address) {
	for _, e := range p.unpack() {
		addresses = append(addresses, syncer.Address{Addr: e.Addr, Hostname: e.Hostname, NodeName: e.NodeName, Target: e.Target})
	}
	return addresses
}
