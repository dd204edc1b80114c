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

// Blame tells from a server's causes what of an action it refused. Causes that
// say nothing Tributary could leave out are passed over; so none may be found.
func Blame(a *Action, causes []Cause) []Refusal {
	var found []Refusal
	for _, cause := range causes {
		for _, r := range blame(a, parseField(cause.Field), cause.Message) {
			r.Message = shortened(cause.Field + ": " + cause.Message)
			if !slices.ContainsFunc(found, r.Is) {
				found = append(found, r)
			}
		}
	}
	return found
}

func blame(a *Action, path fieldPath, message string) []Refusal {
	switch {
	case path.name(0) == "metadata":
		return blameMetadata(a, path, message)
	case a.Service != nil:
		if path.name(0) == "spec" && path.name(1) == "ports" {
			return blamePort(a.Service.Ports, path[1].index, func(p syncer.ServicePort) string { return p.Name })
		}
	case a.Endpoints != nil:
		return blameSubsets(a.Endpoints.Subsets, path)
	case a.Slice != nil:
		switch path.name(0) {
		case "ports":
			return blamePort(a.Slice.Ports, path[0].index, func(p syncer.Port) string { return p.Name })
		case "endpoints":
			if i := path[0].index; i >= 0 && i < len(a.Slice.Endpoints) {
				return blameAddress(a.Slice.Endpoints[i].Addr, path.name(1) == "addresses" || path.name(1) == "")
			}
		}
	}
	return nil
}

func blameSubsets(subsets []syncer.Subset, path fieldPath) []Refusal {
	if path.name(0) != "subsets" || path[0].index < 0 || path[0].index >= len(subsets) || len(path) < 2 {
		return nil
	}
	subset, i := &subsets[path[0].index], path[1].index
	var list []syncer.Address
	switch path.name(1) {
	case "ports":
		return blamePort(subset.Ports, i, func(p syncer.Port) string { return p.Name })
	case "addresses":
		list = subset.Ready
	case "notReadyAddresses":
		list = subset.NotReady
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return blameAddress(list[i].Addr, path.name(2) == "ip" || path.name(2) == "")
}

func blameAddress(addr netip.Addr, itself bool) []Refusal {
	if itself {
		return []Refusal{{Scope: RefusedAddress, Address: addr}}
	}
	return []Refusal{{Scope: RefusedDetails, Address: addr}}
}

func blamePort[P any](ports []P, i int, name func(P) string) []Refusal {
	if i < 0 || i >= len(ports) {
		return nil
	}
	return []Refusal{{Scope: RefusedPort, Name: name(ports[i])}}
}

// blameMetadata finds the keys that the message quotes, by themselves or by
// their value. An object's name is the replica's, which nobody in particular gives.
func blameMetadata(a *Action, path fieldPath, message string) []Refusal {
	scope, keys := RefusedLabel, a.labels()
	switch path.name(1) {
	case "name", "namespace":
		return []Refusal{{Scope: RefusedShare}}
	case "labels":
	case "annotations":
		scope, keys = RefusedAnnotation, a.annotations()
	default:
		return nil
	}
	var found []Refusal
	for key, value := range keys {
		if strings.Contains(message, strconv.Quote(key)) || value != "" && strings.Contains(message, strconv.Quote(value)) {
			found = append(found, Refusal{Scope: scope, Name: key})
		}
	}
	if len(found) == 0 {
		found = []Refusal{{Scope: scope}}
	}
	slices.SortFunc(found, func(a, b Refusal) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func (a *Action) labels() map[string]string {
	switch {
	case a.Service != nil:
		return a.Service.Labels
	case a.Endpoints != nil:
		return a.Endpoints.Labels
	case a.Slice != nil:
		return a.Slice.Labels
	}
	return nil
}

func (a *Action) annotations() map[string]string {
	switch {
	case a.Service != nil:
		return a.Service.Annotations
	case a.Endpoints != nil:
		return a.Endpoints.Annotations
	case a.Slice != nil:
		return a.Slice.Annotations
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
