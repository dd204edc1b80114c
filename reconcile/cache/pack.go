// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"maps"
	"slices"

	"tributary.dev/tributary/internal/uid"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// packer writes annotations and endpoints, which are nearly all of what the cache holds, as one text that is much
// smaller than their values.
type packer []byte

// unpacker reads what a packer wrote, in the same order. Texts are parts of what it reads.
type unpacker string

func (p *packer) number(n int) { *p = binary.AppendUvarint(*p, uint64(n)) }

func (u *unpacker) number() int {
	n, size := binary.Uvarint([]byte((*u)[:min(len(*u), binary.MaxVarintLen64)]))
	*u = (*u)[size:]
	return int(n)
}

func (p *packer) text(s string) {
	p.number(len(s))
	*p = append(*p, s...)
}

func (u *unpacker) text() (s string) {
	n := u.number()
	s, *u = string((*u)[:n]), (*u)[n:]
	return s
}

func (p *packer) annotations(all map[string]string) {
	p.number(len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		p.text(key)
		p.text(all[key])
	}
}

func (u *unpacker) annotations() map[string]string {
	n := u.number()
	if n == 0 {
		return nil
	}
	all := make(map[string]string, n)
	for range n {
		key := u.text()
		all[key] = u.text()
	}
	return all
}

// Of the flags of an endpoint the two lowest bits are its grade; the others are these, in this order.
const (
	isReady = 1 << (iota + 2)
	isServing
	isTerminating
	isNeighbour // a pod of the namespace of the object
	hasUUID
)

// endpoints are without ports and restriction. namespace is that of the object.
func (p *packer) endpoints(all []syncer.Endpoint, namespace string) {
	p.number(len(all))
	for i := range all {
		e := &all[i]
		id, plain := uid.Pack(e.Target.UID)
		flags, neighbour := byte(e.Grade), e.Target.Kind == "Pod" && e.Target.Key.Namespace == namespace
		for i, so := range [...]bool{e.Ready, e.Serving, e.Terminating, neighbour, plain && e.Target.UID != ""} {
			if so {
				flags |= isReady << i
			}
		}
		*p = append(*p, flags)
		addr, _ := e.Addr.MarshalBinary() // it never fails
		for _, text := range []string{string(addr), e.NodeName, e.Zone, e.Hostname, e.Target.Key.Name} {
			p.text(text)
		}
		if flags&isNeighbour == 0 {
			p.text(e.Target.Kind)
			p.text(e.Target.Key.Namespace)
		}
		if flags&hasUUID != 0 {
			*p = append(*p, id[:]...)
		} else {
			p.text(e.Target.UID)
		}
	}
}

func (u *unpacker) endpoints(namespace string) []syncer.Endpoint {
	n := u.number()
	if n == 0 {
		return nil
	}
	all := make([]syncer.Endpoint, n)
	for i := range all {
		e, flags := &all[i], (*u)[0]
		*u = (*u)[1:]
		e.Grade, e.Ready, e.Serving, e.Terminating = syncer.Grade(flags&3), flags&isReady != 0, flags&isServing != 0, flags&isTerminating != 0
		_ = e.Addr.UnmarshalBinary([]byte(u.text()))
		e.NodeName, e.Zone, e.Hostname, e.Target.Key.Name = u.text(), u.text(), u.text(), u.text()
		if e.Target.Kind, e.Target.Key.Namespace = "Pod", namespace; flags&isNeighbour == 0 {
			e.Target.Kind, e.Target.Key.Namespace = u.text(), u.text()
		}
		if flags&hasUUID == 0 {
			e.Target.UID = u.text()
			continue
		}
		var id uid.Packed
		*u = (*u)[copy(id[:], *u):]
		e.Target.UID = string(id.Append(nil))
	}
	return all
}

// pack is the object in its cached form. The object itself is not changed.
func (o *Object) pack() *Object {
	held, p := *o, packer(nil)
	switch {
	case o.Slice != nil:
		p.annotations(o.Slice.Annotations)
		p.endpoints(o.Slice.Endpoints, o.Namespace)
		held.Slice = new(*o.Slice)
		held.Slice.Annotations, held.Slice.Endpoints = nil, nil
	case o.Endpoints != nil:
		p.annotations(o.Endpoints.Annotations)
		held.Endpoints = &plan.Endpoints{Meta: o.Endpoints.Meta, Subsets: make([]syncer.Subset, len(o.Endpoints.Subsets))}
		held.Endpoints.Annotations = nil
		for i, s := range o.Endpoints.Subsets {
			held.Endpoints.Subsets[i].Ports = s.Ports
			for _, addresses := range [][]syncer.Address{s.Ready, s.NotReady} {
				all := make([]syncer.Endpoint, len(addresses))
				for i, a := range addresses {
					all[i] = syncer.Endpoint{Addr: a.Addr, Hostname: a.Hostname, NodeName: a.NodeName, Target: a.Target}
				}
				p.endpoints(all, o.Namespace)
			}
		}
	}
	held.packed = string(p)
	return &held
}

// slice is that of a cached object, and endpoints likewise.
func (o *Object) slice() plan.Slice {
	s, u := *o.Slice, unpacker(o.packed)
	s.Annotations = u.annotations()
	s.Endpoints = u.endpoints(o.Namespace)
	return s
}

func (o *Object) endpoints() *plan.Endpoints {
	if o.Endpoints == nil { // it is gone
		return nil
	}
	e, u := &plan.Endpoints{Meta: o.Endpoints.Meta, Subsets: make([]syncer.Subset, len(o.Endpoints.Subsets))}, unpacker(o.packed)
	e.Annotations = u.annotations()
	addresses := func() (all []syncer.Address) {
		for _, e := range u.endpoints(o.Namespace) {
			all = append(all, syncer.Address{Addr: e.Addr, Hostname: e.Hostname, NodeName: e.NodeName, Target: e.Target})
		}
		return all
	}
	for i, s := range o.Endpoints.Subsets {
		e.Subsets[i] = syncer.Subset{Ready: addresses(), NotReady: addresses(), Ports: s.Ports}
	}
	return e
}
