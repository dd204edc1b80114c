// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"net/netip"
	"time"
)

// Windows are for how long changes are gathered.
type Windows struct {
	// Changes of a Service that take nothing away are told this long after the first of them.
	Changes time.Duration
	// Removals is for how long an endpoint that goes, or turns unready, is told as it was.
	Removals time.Duration
}

// place is an endpoint of a Service; the zero value is the Service itself.
type place struct {
	addr           netip.Addr
	cluster, ports string
}

func (e *Endpoint) place() place {
	ports := ""
	for _, p := range e.Ports {
		ports += fmt.Sprintf("%s/%d/%s%v ", p.Name, p.Number, p.Protocol, p.AppProtocol)
	}
	return place{e.Addr, e.Cluster, ports}
}

// difference is what now differs from what the receiver has, with the times of it.
type difference struct {
	// since is when the oldest change began that takes nothing away; zero: there is none.
	since time.Time
	// gone are the endpoints that less can be sent to, and since when.
	gone map[place]time.Time
}

// differ compares what the receiver has with what is now. Differences that there were
// before keep their times; those of former ones that are no more are forgotten. New ones
// began at the time given.
func (d *difference) differ(has, now *Service, at time.Time) {
	d.gone = d.takenAway(has, now, at)
	arrived := has == nil && now != nil
	pairs(has, now, func(had, is *Endpoint) {
		arrived = arrived || had == nil || !is.takesAway(had) && !is.equal(had)
	})
	switch {
	case !arrived:
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = at
	}
}

// takenAway are the endpoints that less can be sent to, and since when, the time given at the
// latest; nil: there are none.
func (d *difference) takenAway(has, now *Service, at time.Time) (gone map[place]time.Time) {
	note := func(p place) {
		if gone == nil {
			gone = map[place]time.Time{}
		}
		gone[p] = earlier(d.gone[p], at)
	}
	if has != nil && now == nil {
		note(place{})
	}
	pairs(has, now, func(had, is *Endpoint) {
		if had != nil && is.takesAway(had) {
			note(had.place())
		}
	})
	return gone
}

// differs reports whether there is a difference.
func (d *difference) differs() bool { return !d.since.IsZero() || len(d.gone) > 0 }

// told notes what a state took away that was told: it is not held back once more.
func (d *difference) told(has, told *Service, since time.Time) {
	gone := d.takenAway(has, told, since)
	if d.gone == nil {
		d.gone = gone
	}
	maps.Copy(d.gone, gone)
}

// due is when the difference is to be told; zero: there is none.
func (d *difference) due(w Windows) (due time.Time) {
	if !d.since.IsZero() {
		due = d.since.Add(w.Changes)
	}
	for _, began := range d.gone {
		due = earlier(due, began.Add(w.Removals))
	}
	return due
}

// shown is what is told at a time: what the receiver has, but what has differed for the whole
// of its window as it is now, and with whole all but removals in theirs. So a removal is told
// while what came lately waits, unless the receiver would be without an address that serves
// it now by other ports, or with less than half of what is ready.
func (d *difference) shown(has, now *Service, w Windows, at time.Time, whole bool) *Service {
	whole = whole || !d.since.IsZero() && !at.Before(d.since.Add(w.Changes))
	hidden := func(p place) bool {
		began, gone := d.gone[p]
		return gone && at.Before(began.Add(w.Removals))
	}
	early := !whole
	for p := range d.gone {
		early = early || hidden(p)
	}
	if !early {
		return now
	}
	out := &Service{}
	pairs(has, now, func(had, is *Endpoint) {
		less := had != nil && is.takesAway(had)
		if less && hidden(had.place()) || !less && !whole {
			is = had
		}
		if is != nil {
			out.Endpoints = append(out.Endpoints, *is)
		}
	})
	switch {
	case len(out.Endpoints) == 0 && (now == nil && !hidden(place{}) || has == nil && !whole):
		return nil
	case !whole && has != nil && now != nil && out.starves(has, now):
		return d.shown(has, now, w, at, true)
	}
	return out
}

// starves reports whether a Service is without an address that was ready and is, or with less
// than half of those that are: the share below which load balancers, too, rather use them all.
func (s *Service) starves(was, is *Service) bool {
	told, had, ready := s.ready(), was.ready(), is.ready()
	for addr := range ready {
		if had[addr] && !told[addr] {
			return true
		}
	}
	return 2*len(told) < len(ready)
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
