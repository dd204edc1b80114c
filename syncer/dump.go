// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"bytes"
	"hash/fnv"
	"io"
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

func portSum(p *Port) sum {
	return sumOf(func(w io.Writer) { io.WriteString(w, "(v1.EndpointPort)"+dumpPort(p)) })
}

func subsetSum(s *Subset, emptyNode bool) sum {
	return sumOf(func(w io.Writer) {
		address := func(a *Address) string { return dumpAddress(a, emptyNode) }
		io.WriteString(w, "(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)")
		dumpList(w, s.Ready, address)
		io.WriteString(w, " NotReadyAddresses:([]v1.EndpointAddress)")
		dumpList(w, s.NotReady, address)
		io.WriteString(w, " Ports:([]v1.EndpointPort)")
		dumpList(w, s.Ports, dumpPort)
		io.WriteString(w, "}")
	})
}

func sumOf(dump func(io.Writer)) (s sum) {
	f := fnv.New128a()
	dump(f)
	f.Sum(s[:0])
	return s
}

func dumpList[T any](w io.Writer, list []T, dump func(*T) string) {
	if len(list) == 0 {
		io.WriteString(w, "<nil>")
		return
	}
	before := "["
	for i := range list {
		io.WriteString(w, before)
		io.WriteString(w, dump(&list[i]))
		before = " "
	}
	io.WriteString(w, "]")
}

func dumpPort(p *Port) string {
	app := "<nil>"
	if p.AppProtocol.Set {
		app = p.AppProtocol.Value
	}
	return "{Name:(string)" + p.Name + " Port:(int32)" + strconv.Itoa(int(p.Number)) +
		" Protocol:(v1.Protocol)" + p.Protocol + " AppProtocol:(*string)" + app + "}"
}

func dumpAddress(a *Address, emptyNode bool) string {
	node, target := a.NodeName, "<nil>"
	if node == "" && !emptyNode {
		node = "<nil>"
	}
	if t := &a.Target; *t != (TargetRef{}) {
		target = "{Kind:(string)" + t.Kind + " Namespace:(string)" + t.Namespace + " Name:(string)" + t.Name +
			" UID:(types.UID)" + t.UID + " APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}"
	}
	return "{IP:(string)" + a.Addr.String() + " Hostname:(string)" + a.Hostname +
		" NodeName:(*string)" + node + " TargetRef:(*v1.ObjectReference)" + target + "}"
}
