// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/next/syncer"
)

// Service is what a receiver is told of a replica. It is never changed once it was handed over.
type Service struct {
	// Labels are those of the replica's Service, for selectors.
	Labels map[string]string
	// Endpoints are sorted by address, cluster and ports.
	Endpoints []Endpoint
}

// Endpoint is one address of a Service with the ports that it serves there.
type Endpoint struct {
	Addr    netip.Addr
	Cluster string
	Zone    string
	Ports   []syncer.Port
	// Conditions as EndpointSlices define them.
	Ready, Serving, Terminating bool
}

// NewService sorts the endpoints, which become its own.
func NewService(labels map[string]string, endpoints []Endpoint) *Service {
	slices.SortFunc(endpoints, func(a, b Endpoint) int {
		return cmp.Or(a.Addr.Compare(b.Addr), strings.Compare(a.Cluster, b.Cluster), slices.CompareFunc(a.Ports, b.Ports, comparePorts))
	})
	return &Service{Labels: labels, Endpoints: endpoints}
}

func comparePorts(a, b syncer.Port) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number), strings.Compare(a.Protocol, b.Protocol))
}

// equal reports whether two Services are the same to a receiver; nil is one that is not there.
func (s *Service) equal(o *Service) bool {
	if s == nil || o == nil || s == o {
		return s == o
	}
	return slices.EqualFunc(s.Endpoints, o.Endpoints, func(a, b Endpoint) bool {
		return a.Addr == b.Addr && a.Cluster == b.Cluster && a.Zone == b.Zone && slices.Equal(a.Ports, b.Ports) &&
			a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating
	})
}

// delta says what differs for traffic between two states of a Service, as ip:port (an
// endpoint without ports as its address), sorted. No list is nil.
type delta struct {
	Added     []string `json:"added"`
	Removed   []string `json:"removed"`
	Readied   []string `json:"readied"`
	Unreadied []string `json:"unreadied"`
}

// takesAway reports whether less can be sent somewhere than before.
func (d *delta) takesAway() bool { return len(d.Removed)+len(d.Unreadied) > 0 }

// deltaOf is what differs from one state to another; nil is a Service that is not there.
func deltaOf(from, to *Service) delta {
	d := delta{[]string{}, []string{}, []string{}, []string{}}
	was, is := from.spots(), to.spots()
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
func (s *Service) spots() map[string]bool {
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
