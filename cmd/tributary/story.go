// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/netip"

	"tributary.dev/tributary/metrics"
)

// story tells what happened to one address: two lines for each change, when
// it was seen in the member and when the ingress cluster had it.
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
	cause := s.cause(rec)
	what := s.effect(rec)
	service := rec.Namespace + "/" + rec.Service
	detail := cause.String()
	if cause.ResourceVersion != "" {
		detail += ", resourceVersion " + cause.ResourceVersion
	}
	if err := s.table.row(stamp(cause.Arrival), "", dash(cause.Cluster), service, seen(cause, what), detail); err != nil {
		return err
	}
	after := "+" + millis(rec.Time.Sub(cause.Arrival))
	return s.table.row(stamp(rec.Time), after, dash(rec.Cluster), service, done(rec, what), ending(rec, cause, what))
}

// cause picks the event of the address's own pod that came last, if the record
// names one; else the event that the latencies count from.
func (s *story) cause(rec *metrics.Record) metrics.Cause {
	best, found := rec.Cause, rec.Cause.IP == s.ip.String()
	for _, c := range rec.Causes {
		if c.IP == s.ip.String() && (!found || c.Arrival.After(best.Arrival)) {
			best, found = c, true
		}
	}
	return best
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

func seen(cause metrics.Cause, what effect) string {
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

func ending(rec *metrics.Record, cause metrics.Cause, what effect) string {
	switch rec.Result {
	case metrics.Written:
		if rec.Stages.Echo > 0 {
			// Echo counts from the primary cause, the story from the address's own.
			echo := rec.Stages.Echo - cause.Arrival.Sub(rec.Cause.Arrival)
			return fmt.Sprintf("%s; our watch showed it after %s", what.detail, millis(echo))
		}
		return what.detail
	case metrics.Dropped:
		return "the ingress stands as it should"
	}
	return rec.Error
}
