// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"net/netip"
	"slices"
)

// HandWritten returns the contribution of a Service without a selector: its
// Endpoints and EndpointSlices as people or programs other than controllers
// wrote them. subsets are those of the Endpoints object, made the slices that no
// mirroring controller has made; skipMirror is true when the Endpoints carry the
// label that keeps them from being mirrored, and then they do not feed slices.
//
// Subsets hold the Endpoints verbatim, in their order and with their
// repetitions. Endpoints hold both sources, the Endpoints object in canonical
// form as the mirroring controller reads it (pkg/controller/endpointslicemirroring);
// Only says which kinds of object an endpoint belongs to. Where a slice and mirrored Endpoints name the same
// address, ports and target, the slice wins, since it has more fields.
//
// As everywhere, what an API server would refuse is left out by itself: an
// address, a host or node name, a port. A Service of type ExternalName or with
// a selector yields nothing.
func HandWritten(svc *Service, subsets []Subset, made []Slice, skipMirror bool, opts Options) Contribution {
	c := Contribution{Service: svc}
	if svc.ExternalName || svc.Selector != nil {
		return c
	}
	h := handWritten{opts: opts}
	for i := range subsets {
		h.subset(&subsets[i])
	}
	for i := range made {
		h.slice(&made[i])
	}
	c.Subsets = h.subsets
	c.Endpoints = h.merge(skipMirror)
	c.Families = familiesOf(c.Endpoints)
	c.Rejected = sortRejections(h.rejected)
	return c
}

// handWritten gathers what people wrote.
type handWritten struct {
	opts     Options
	subsets  []Subset
	sliced   []Endpoint
	rejected []Rejection
}

// subset adds one subset of Endpoints.
func (h *handWritten) subset(s *Subset) {
	ports := h.ports(s.Ports, len(s.Ports) > 1)
	if len(ports) == 0 && len(s.Ports) > 0 {
		return
	}
	accepted := Subset{Ports: ports, Ready: h.addresses(s.Ready), NotReady: h.addresses(s.NotReady)}
	if len(accepted.Ready)+len(accepted.NotReady) == 0 {
		return
	}
	h.subsets = append(h.subsets, accepted)
}

// mirror does what the mirroring controller does: it brings the subsets into
// canonical form before it makes endpoints of them.
func (h *handWritten) mirror() []*Endpoint {
	var out []*Endpoint
	for _, s := range Repack(h.subsets) {
		for _, list := range splitByName(s.Ports) {
			for _, a := range s.Ready {
				out = append(out, mirrored(a, list, true))
			}
			for _, a := range s.NotReady {
				out = append(out, mirrored(a, list, false))
			}
		}
	}
	return out
}

// mirrored is what the mirroring controller makes of an address, with the two
// conditions it leaves unset spelt out.
func mirrored(a Address, ports []Port, ready bool) *Endpoint {
	e := &Endpoint{Addr: a.Addr, Ports: ports, Ready: ready, Serving: ready,
		NodeName: a.NodeName, Hostname: a.Hostname, Target: a.Target}
	e.Grade = e.PublishedGrade(false)
	return e
}

// slice adds one EndpointSlice.
func (h *handWritten) slice(s *Slice) {
	if s.Family != IPv4 && s.Family != IPv6 {
		h.rejected = append(h.rejected, Rejection{
			Object: TargetRef{Kind: "EndpointSlice", Key: Key{Name: s.Name}}, Reason: RejectFQDN})
		return
	}
	ports := h.ports(s.Ports, false)
	if len(ports) == 0 && len(s.Ports) > 0 {
		return
	}
	lists := splitByName(ports)
	for i := range s.Endpoints {
		e := s.Endpoints[i]
		a, ok := h.address(Address{Addr: e.Addr, Hostname: e.Hostname, NodeName: e.NodeName, Target: e.Target})
		if !ok {
			continue
		}
		e.Addr, e.Hostname, e.NodeName = a.Addr, a.Hostname, a.NodeName
		e.Only, e.Grade = KindEndpointSlices, e.PublishedGrade(false)
		for _, list := range lists {
			e.Ports = list
			h.sliced = append(h.sliced, e)
		}
	}
}

func (h *handWritten) addresses(list []Address) []Address {
	var accepted []Address
	for _, a := range list {
		if a, ok := h.address(a); ok {
			accepted = append(accepted, a)
		}
	}
	return accepted
}

// address cleans one address; ok is false when it cannot be published.
func (h *handWritten) address(a Address) (clean Address, ok bool) {
	a.Addr = a.Addr.Unmap()
	if reason := refuse(a.Addr, h.opts.AllowedCIDRs); reason != "" {
		h.reject(a, reason)
		return a, false
	}
	if a.Hostname != "" && !IsLabel(a.Hostname) {
		h.reject(a, RejectHostname)
		a.Hostname = ""
	}
	if a.NodeName != "" && !isSubdomain(a.NodeName) {
		h.reject(a, RejectNodeName)
		a.NodeName = ""
	}
	return a, true
}

func (h *handWritten) reject(a Address, reason RejectReason) {
	text := ""
	if a.Addr.IsValid() {
		text = a.Addr.String()
	}
	h.rejected = append(h.rejected, Rejection{Object: a.Target, Address: text, Reason: reason})
}

// ports returns the acceptable ones; the list itself when all are.
func (h *handWritten) ports(list []Port, named bool) []Port {
	bad := func(p Port) bool { return !p.Valid() || named && p.Name == "" }
	if !slices.ContainsFunc(list, bad) {
		return list
	}
	var accepted []Port
	for _, p := range list {
		if bad(p) {
			h.rejected = append(h.rejected, Rejection{Address: p.String(), Reason: RejectPort})
		} else {
			accepted = append(accepted, p)
		}
	}
	return accepted
}

// splitByName spreads ports over lists in which no name repeats: Endpoints may
// repeat a name, one slice may not.
func splitByName(ports []Port) [][]Port {
	lists := [][]Port{nil}
	for _, port := range ports {
		at := slices.IndexFunc(lists, func(list []Port) bool {
			return !slices.ContainsFunc(list, func(p Port) bool { return p.Name == port.Name })
		})
		if at < 0 {
			at = len(lists)
			lists = append(lists, nil)
		}
		lists[at] = append(lists[at], port)
	}
	return lists
}

// merge joins both sources in canonical order.
func (h *handWritten) merge(skipMirror bool) []Endpoint {
	type identity struct {
		addr   netip.Addr
		target TargetRef
	}
	spoken := map[identity][][]Port{}
	all := h.sliced
	for i := range h.sliced {
		e := &h.sliced[i]
		id := identity{e.Addr, e.Target}
		spoken[id] = append(spoken[id], sortedPorts(e.Ports))
	}
	for _, e := range h.mirror() {
		ports := sortedPorts(e.Ports)
		said := slices.ContainsFunc(spoken[identity{e.Addr, e.Target}], func(p []Port) bool { return slices.Equal(p, ports) })
		if skipMirror || said {
			e.Only = KindEndpoints
		}
		all = append(all, *e)
	}
	slices.SortStableFunc(all, func(a, b Endpoint) int { return CompareEndpoints(&a, &b) })
	return all
}

// familiesOf returns the families of the endpoints that feed slices.
func familiesOf(endpoints []Endpoint) []Family {
	var families []Family
	for _, family := range []Family{IPv4, IPv6} {
		if slices.ContainsFunc(endpoints, func(e Endpoint) bool {
			return e.In(KindEndpointSlices) && familyOf(e.Addr) == family
		}) {
			families = append(families, family)
		}
	}
	return families
}
