// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strconv"
)

// Upstream orders the ports of a subset, and the subsets, by FNV-128a hashes of
// a dump of the Go values (SortSubsets in pkg/api/v1/endpoints, through
// k8s.io/utils/dump.ForHash). The order is arbitrary but stable and the API
// server keeps it, so the text of those dumps is part of the contract. It is
// written by hand here; the oracle in e2e proves it equal to the original.

// sum is an FNV-128a hash; it orders as its bytes do.
type sum [16]byte

// sortSubsets orders ports within subsets, then subsets. A list of one needs no
// hash, which spares nearly every Service the cost.
func sortSubsets(subsets []Subset, emptyNode bool) {
	var h hasher
	h.emptyNode = emptyNode
	for i := range subsets {
		if ports := subsets[i].Ports; len(ports) > 1 {
			sortByHash(ports, h.port)
		}
	}
	if len(subsets) > 1 {
		sortByHash(subsets, h.subset)
	}
}

func sortByHash[T any](items []T, hash func(*T) sum) {
	type keyed struct {
		sum  sum
		item T
	}
	list := make([]keyed, len(items))
	for i := range items {
		list[i] = keyed{hash(&items[i]), items[i]}
	}
	slices.SortStableFunc(list, func(a, b keyed) int { return bytes.Compare(a.sum[:], b.sum[:]) })
	for i := range list {
		items[i] = list[i].item
	}
}

// hasher renders dumps piecewise into one buffer.
type hasher struct {
	emptyNode bool
	buf       []byte
}

func (h *hasher) port(p *Port) (s sum) {
	f := fnv.New128a()
	h.buf = append(h.buf[:0], "(v1.EndpointPort)"...)
	h.buf = appendPort(h.buf, p)
	f.Write(h.buf)
	f.Sum(s[:0])
	return s
}

func (h *hasher) subset(subset *Subset) (s sum) {
	f := fnv.New128a()
	write := func(text []byte) { f.Write(text); h.buf = text[:0] }
	h.buf = append(h.buf[:0], "(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)"...)
	h.addresses(subset.Ready, write)
	h.buf = append(h.buf, " NotReadyAddresses:([]v1.EndpointAddress)"...)
	h.addresses(subset.NotReady, write)
	h.buf = append(h.buf, " Ports:([]v1.EndpointPort)"...)
	if len(subset.Ports) == 0 {
		h.buf = append(h.buf, "<nil>"...)
	} else {
		h.buf = append(h.buf, '[')
		for i := range subset.Ports {
			if i > 0 {
				h.buf = append(h.buf, ' ')
			}
			h.buf = appendPort(h.buf, &subset.Ports[i])
		}
		h.buf = append(h.buf, ']')
	}
	write(append(h.buf, '}'))
	f.Sum(s[:0])
	return s
}

// addresses renders a list, handing the text over after each address so that
// the buffer stays small.
func (h *hasher) addresses(list []Address, write func([]byte)) {
	if len(list) == 0 {
		h.buf = append(h.buf, "<nil>"...)
		return
	}
	h.buf = append(h.buf, '[')
	for i := range list {
		if i > 0 {
			h.buf = append(h.buf, ' ')
		}
		write(appendAddress(h.buf, &list[i], h.emptyNode))
	}
	h.buf = append(h.buf, ']')
}

func appendPort(b []byte, p *Port) []byte {
	b = append(append(b, "{Name:(string)"...), p.Name...)
	b = strconv.AppendInt(append(b, " Port:(int32)"...), int64(p.Number), 10)
	b = append(append(b, " Protocol:(v1.Protocol)"...), p.Protocol...)
	b = append(b, " AppProtocol:(*string)"...)
	if p.AppProtocol.Set {
		b = append(b, p.AppProtocol.Value...)
	} else {
		b = append(b, "<nil>"...)
	}
	return append(b, '}')
}

func appendAddress(b []byte, a *Address, emptyNode bool) []byte {
	b = a.Addr.AppendTo(append(b, "{IP:(string)"...))
	b = append(append(b, " Hostname:(string)"...), a.Hostname...)
	b = append(b, " NodeName:(*string)"...)
	if a.NodeName != "" || emptyNode {
		b = append(b, a.NodeName...)
	} else {
		b = append(b, "<nil>"...)
	}
	b = append(b, " TargetRef:(*v1.ObjectReference)"...)
	if a.Target == (TargetRef{}) {
		return append(b, "<nil>}"...)
	}
	b = append(append(b, "{Kind:(string)"...), a.Target.Kind...)
	b = append(append(b, " Namespace:(string)"...), a.Target.Namespace...)
	b = append(append(b, " Name:(string)"...), a.Target.Name...)
	b = append(append(b, " UID:(types.UID)"...), a.Target.UID...)
	return append(b, " APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}"...)
}
