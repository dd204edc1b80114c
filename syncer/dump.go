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
	for i := range subsets {
		if ports := subsets[i].Ports; len(ports) > 1 {
			sortByHash(ports, portSum)
		}
	}
	if len(subsets) > 1 {
		sortByHash(subsets, func(s *Subset) sum { return subsetSum(s, emptyNode) })
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

func portSum(p *Port) sum { return sumOf(dumpPort([]byte("(v1.EndpointPort)"), p)) }

func subsetSum(s *Subset, emptyNode bool) sum {
	address := func(b []byte, a *Address) []byte { return dumpAddress(b, a, emptyNode) }
	b := dumpList([]byte("(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)"), s.Ready, address)
	b = dumpList(appendAll(b, " NotReadyAddresses:([]v1.EndpointAddress)"), s.NotReady, address)
	b = dumpList(appendAll(b, " Ports:([]v1.EndpointPort)"), s.Ports, dumpPort)
	return sumOf(append(b, '}'))
}

func sumOf(dump []byte) (s sum) {
	f := fnv.New128a()
	f.Write(dump)
	f.Sum(s[:0])
	return s
}

func dumpList[T any](b []byte, list []T, dump func([]byte, *T) []byte) []byte {
	if len(list) == 0 {
		return appendAll(b, "<nil>")
	}
	before := byte('[')
	for i := range list {
		b = dump(append(b, before), &list[i])
		before = ' '
	}
	return append(b, ']')
}

func dumpPort(b []byte, p *Port) []byte {
	app := "<nil>"
	if p.AppProtocol.Set {
		app = p.AppProtocol.Value
	}
	b = strconv.AppendInt(appendAll(b, "{Name:(string)", p.Name, " Port:(int32)"), int64(p.Number), 10)
	return appendAll(b, " Protocol:(v1.Protocol)", p.Protocol, " AppProtocol:(*string)", app, "}")
}

func dumpAddress(b []byte, a *Address, emptyNode bool) []byte {
	node := a.NodeName
	if node == "" && !emptyNode {
		node = "<nil>"
	}
	b = a.Addr.AppendTo(append(b, "{IP:(string)"...))
	b = appendAll(b, " Hostname:(string)", a.Hostname, " NodeName:(*string)", node, " TargetRef:(*v1.ObjectReference)")
	t := &a.Target
	if *t == (TargetRef{}) {
		return append(b, "<nil>}"...)
	}
	return appendAll(b, "{Kind:(string)", t.Kind, " Namespace:(string)", t.Namespace, " Name:(string)", t.Name, " UID:(types.UID)", t.UID,
		" APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}")
}

func appendAll(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(b, text...)
	}
	return b
}
