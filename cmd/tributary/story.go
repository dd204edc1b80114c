// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/netip"
	"slices"

	"tributary.dev/tributary/metrics"
)

// story tells what happened to one address: for each change a line for every
// event of its pod in the member, and one for when the ingress cluster had it.
type story struct {
	ip    netip.Addr
	table *table
}

func newStory(w io.Writer, ip netip.Addr) *story {
	s := &story{ip: ip, table: newTable(w, "TIME", "AFTER", "CLUSTER", "SERVICE", "EVENT", "DETAIL")}
	// Room for what most rows need, so that columns stay in line from the first.
	s.table.fit([]string{"", "+10.00 ms", "", "", "gone from the ingress"})
	return s
}

// effect is what a change does to an address.
type effect struct {
	// seen names what the member showed, if its event does not tell; done what
	// the ingress cluster shows now, detail what that means for requests.
	seen, done, detail string
}

func (s *story) tell(rec *metrics.Record) error {
	causes := s.causes(rec)
	what := s.effect(rec)
	service := rec.Namespace + "/" + rec.Service
	for i := range causes {
		c := &causes[i]
		detail := c.String()
		if c.ResourceVersion != "" {
			detail += ", resourceVersion " + c.ResourceVersion
		}
		if err := s.table.row(stamp(c.Arrival), "", dash(c.Cluster), service, seen(c, what), detail); err != nil {
			return err
		}
	}
	first := &causes[0]
	after := "+" + millis(rec.Time.Sub(first.Arrival))
	return s.table.row(stamp(rec.Time), after, dash(first.Cluster), service, done(rec, what), ending(rec, first, what))
}

// causes are the events of the address's own pod that the change has merged, in
// their order; if it names none, the event that the latencies count from.
func (s *story) causes(rec *metrics.Record) []metrics.Cause {
	var own []metrics.Cause
	for _, c := range append([]metrics.Cause{rec.Cause}, rec.Causes...) {
		if c.IP == s.ip.String() {
			own = append(own, c)
		}
	}
	if len(own) == 0 {
		return []metrics.Cause{rec.Cause}
	}
	slices.SortStableFunc(own, func(a, b metrics.Cause) int { return a.Arrival.Compare(b.Arrival) })
	return own
}

func (s *story) effect(rec *metrics.Record) effect {
	switch {
	case metrics.HasIP(rec.Removed, s.ip):
		return effect{"seen leaving", "gone from the ingress", "takes no traffic"}
	case metrics.HasIP(rec.Unreadied, s.ip):
		return effect{"seen not ready", "written", "not ready: takes no new traffic"}
	case metrics.HasIP(rec.Readied, s.ip):
		return effect{"seen ready", "written", "ready: takes traffic"}
	case metrics.HasIP(rec.Added, s.ip):
		return effect{"seen", "written", "in the ingress"}
	}
	return effect{"seen", "written", "this address is unchanged"}
}

func seen(cause *metrics.Cause, what effect) string {
	switch {
	case cause.State != "":
		return "seen " + cause.State
	case cause.Event == "missing":
		return "missing in a list"
	case cause.Kind == "Pod" && cause.Event == "deleted":
		return "seen gone"
	}
	return what.seen
}

func done(rec *metrics.Record, what effect) string {
	switch rec.Result {
	case metrics.Written:
		return what.done
	case metrics.Dropped:
		return "nothing to write"
	}
	return string(rec.Result)
}

func ending(rec *metrics.Record, first *metrics.Cause, what effect) string {
	switch rec.Result {
	case metrics.Written:
		if rec.Stages.Echo > 0 {
			// Echo counts from the primary cause, the story from the address's own.
			echo := max(0, rec.Stages.Echo-first.Arrival.Sub(rec.Cause.Arrival))
			return fmt.Sprintf("%s; our watch showed it after %s", what.detail, millis(echo))
		}
		return what.detail
	case metrics.Dropped:
		return "the ingress stands as it should"
	}
	return rec.Error
}
