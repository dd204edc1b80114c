// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Service is what one replica is. It is never changed once it has been handed over.
type Service struct {
	// Endpoints are sorted, and no two are of one cluster, address and list of ports.
	Endpoints []Endpoint
}

// Endpoint is one address of a Service, with all its ports.
type Endpoint struct {
	Addr    netip.Addr
	Cluster string
	Zone    string
	Ports   []syncer.Port
	// Conditions as EndpointSlices define them.
	Ready, Serving, Terminating bool
}

// NewService sorts the endpoints, which become its own, and unites those of one cluster,
// address and list of ports, in whatever order these come: as ready as the better.
func NewService(endpoints []Endpoint) *Service {
	for i := range endpoints {
		if e := &endpoints[i]; !slices.IsSortedFunc(e.Ports, comparePorts) {
			e.Ports = slices.SortedFunc(slices.Values(e.Ports), comparePorts)
		}
	}
	slices.SortStableFunc(endpoints, compare)
	out := endpoints[:0]
	for _, e := range endpoints {
		if n := len(out); n > 0 && compare(out[n-1], e) == 0 {
			out[n-1] = united(out[n-1], e)
			continue
		}
		out = append(out, e)
	}
	return &Service{Endpoints: slices.Clip(out)}
}

func compare(a, b Endpoint) int {
	return cmp.Or(a.Addr.Compare(b.Addr), strings.Compare(a.Cluster, b.Cluster), slices.CompareFunc(a.Ports, b.Ports, comparePorts))
}

func comparePorts(a, b syncer.Port) int {
	set := func(p syncer.Port) int {
		if p.AppProtocol.Set {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number), strings.Compare(a.Protocol, b.Protocol),
		cmp.Compare(set(a), set(b)), strings.Compare(a.AppProtocol.Value, b.AppProtocol.Value))
}

func united(a, b Endpoint) Endpoint {
	a.Ready, a.Serving = a.Ready || b.Ready, a.Serving || b.Serving
	a.Terminating = a.Terminating && b.Terminating
	return a
}

func (e *Endpoint) equal(o *Endpoint) bool {
	return e.Addr == o.Addr && e.Cluster == o.Cluster && e.Zone == o.Zone && slices.Equal(e.Ports, o.Ports) &&
		e.Ready == o.Ready && e.Serving == o.Serving && e.Terminating == o.Terminating
}

// Equal reports whether two Services are the same to a receiver; nil is one that does not
// exist.
func (s *Service) Equal(o *Service) bool {
	if s == nil || o == nil || s == o {
		return s == o
	}
	return slices.EqualFunc(s.Endpoints, o.Endpoints, func(a, b Endpoint) bool { return a.equal(&b) })
}

// takesAway reports whether less can be sent to an endpoint than before; to nil, nothing.
func (e *Endpoint) takesAway(from *Endpoint) bool {
	return e == nil || from.Ready && !e.Ready || from.Serving && !e.Serving
}

// ready are the addresses that are ready.
func (s *Service) ready() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; e.Ready {
			out[e.Addr] = true
		}
	}
	return out
}

// pairs calls yield for each endpoint that either has, with nil where one has it not.
func pairs(a, b *Service, yield func(a, b *Endpoint)) {
	var from, to []Endpoint
	if a != nil {
		from = a.Endpoints
	}
	if b != nil {
		to = b.Endpoints
	}
	for len(from) > 0 || len(to) > 0 {
		order := 0
		switch {
		case len(from) == 0:
			order = 1
		case len(to) == 0:
			order = -1
		default:
			order = compare(from[0], to[0])
		}
		var x, y *Endpoint
		if order <= 0 {
			x, from = &from[0], from[1:]
		}
		if order >= 0 {
			y, to = &to[0], to[1:]
		}
		yield(x, y)
	}
}

// better is all that either has, by what more can be sent to.
func better(a, b *Service) *Service {
	if a == nil || b == nil || a.Equal(b) {
		return cmp.Or(a, b)
	}
	out := &Service{}
	pairs(a, b, func(x, y *Endpoint) {
		if x == nil || y != nil && !y.takesAway(x) {
			x = y
		}
		out.Endpoints = append(out.Endpoints, *x)
	})
	return out
}

// Delta says what differs for traffic between two states of a Service, as `ip:port` (an
// endpoint without ports as its address), sorted. No list is nil.
type Delta struct {
	Added     []string `json:"added"`
	Removed   []string `json:"removed"`
	Readied   []string `json:"readied"`
	Unreadied []string `json:"unreadied"`
}

// DeltaOf is what differs from one state to another; nil is a Service that does not exist.
func DeltaOf(from, to *Service) Delta {
	d := Delta{[]string{}, []string{}, []string{}, []string{}}
	was, is := spots(from), spots(to)
	for at, ready := range was {
		now, stays := is[at]
		switch {
		case !stays:
			d.Removed = append(d.Removed, at)
		case ready && !now:
			d.Unreadied = append(d.Unreadied, at)
		case !ready && now:
			d.Readied = append(d.Readied, at)
		}
	}
	for at := range is {
		if _, stood := was[at]; !stood {
			d.Added = append(d.Added, at)
		}
	}
	for _, list := range [][]string{d.Added, d.Removed, d.Readied, d.Unreadied} {
		slices.Sort(list)
	}
	return d
}

// spots are the ip:ports of a Service, and whether each is ready.
func spots(s *Service) map[string]bool {
	if s == nil {
		return nil
	}
	out := make(map[string]bool, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if len(e.Ports) == 0 {
			out[e.Addr.String()] = out[e.Addr.String()] || e.Ready
		}
		for _, p := range e.Ports {
			at := netip.AddrPortFrom(e.Addr, uint16(p.Number)).String()
			out[at] = out[at] || e.Ready
		}
	}
	return out
}
