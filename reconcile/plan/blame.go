// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Cause is one reason that an API server gave for refusing an object: the field,
// as in "subsets[0].addresses[3].ip", and why.
type Cause struct {
	Field   string
	Message string
}

// Blame tells from a server's causes which addresses of an action it refused.
func Blame(a *Action, causes []Cause) []Refusal {
	var found []Refusal
	for _, cause := range causes {
		r := Refusal{Address: a.addressAt(parseField(cause.Field)), Message: shortened(cause.Field + ": " + cause.Message)}
		if r.Address.IsValid() && !slices.ContainsFunc(found, r.Is) {
			found = append(found, r)
		}
	}
	return found
}

// addressAt is the address that a field is about; the zero Addr when it is about
// none.
func (a *Action) addressAt(path fieldPath) (addr netip.Addr) {
	switch {
	case a.Slice != nil && path.name(0) == "endpoints":
		if i := path[0].index; i >= 0 && i < len(a.Slice.Endpoints) {
			return a.Slice.Endpoints[i].Addr
		}
	case a.Endpoints != nil && path.name(0) == "subsets" && len(path) > 1:
		subsets, at := a.Endpoints.Subsets, path[0].index
		if at < 0 || at >= len(subsets) {
			return addr
		}
		var list []syncer.Address
		switch path.name(1) {
		case "addresses":
			list = subsets[at].Ready
		case "notReadyAddresses":
			list = subsets[at].NotReady
		}
		if i := path[1].index; i >= 0 && i < len(list) {
			return list[i].Addr
		}
	}
	return addr
}

// addresses are those that an action writes.
func (a *Action) addresses() map[netip.Addr]bool {
	switch {
	case a.Endpoints != nil:
		return addressesOf(a.Endpoints.Subsets)
	case a.Slice != nil:
		return sliceAddresses(&a.Slice.Slice)
	}
	return nil
}

func sliceAddresses(s *syncer.Slice) map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(s.Endpoints))
	for i := range s.Endpoints {
		all[s.Endpoints[i].Addr] = true
	}
	return all
}

// standingAddresses are those of the object that an action writes, as it stands.
func standingAddresses(a *Action, current Current) map[netip.Addr]bool {
	switch {
	case a.Endpoints != nil && current.Endpoints != nil:
		return addressesOf(current.Endpoints.Subsets)
	case a.Slice != nil:
		if at := slices.IndexFunc(current.Slices, func(s CurrentSlice) bool { return s.Meta.Name == a.Name }); at >= 0 {
			return sliceAddresses(&current.Slices[at].Slice)
		}
	}
	return nil
}

// fieldPath is a field as API servers write it, taken apart.
type fieldPath []fieldStep

// fieldStep is a name with the index behind it; -1 when there is none.
type fieldStep struct {
	name  string
	index int
}

// name returns the name of a step, "" beyond the end.
func (p fieldPath) name(i int) string {
	if i < len(p) {
		return p[i].name
	}
	return ""
}

func parseField(field string) fieldPath {
	var path fieldPath
	for part := range strings.SplitSeq(field, ".") {
		name, rest, indexed := strings.Cut(part, "[")
		step := fieldStep{name, -1}
		if indexed {
			if i, err := strconv.Atoi(strings.TrimSuffix(rest, "]")); err == nil {
				step.index = i
			}
		}
		path = append(path, step)
	}
	return path
}

// maxMessage bounds text that comes from a server and may repeat a member's.
const maxMessage = 300

func shortened(s string) string {
	if len(s) > maxMessage {
		return strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
