// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/metrics/record"
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
	s.table.fit([]string{stamp(time.Now()), "+10.00 ms", "", "", "gone from the ingress"})
	return s
}

// effect is what a change does to an address.
type effect struct {
	// seen names what the member showed, if its event does not tell; done what
	// the ingress cluster shows now, detail what that means for requests.
	seen, done, detail string
}

func (s *story) tell(rec *record.Change) error {
	causes := s.causes(rec)
	what := s.effect(rec)
	service := rec.Namespace + "/" + rec.Service
	if len(causes) == 0 {
		return s.tellMerged(rec, what)
	}
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
	shown := ""
	if rec.Stages.Echo > 0 {
		// Echo counts from the primary cause, the story from the address's own.
		shown = "after " + millis(max(0, rec.Stages.Echo-first.Arrival.Sub(rec.Cause.Arrival)))
	}
	after := "+" + millis(rec.Time.Sub(first.Arrival))
	return s.table.row(stamp(rec.Time), after, dash(first.Cluster), service, done(rec, what), ending(rec, shown, what))
}

// tellMerged tells of a change that does not name the event of the address's own
// pod: what was seen follows from what was done, and when it was seen is not known.
func (s *story) tellMerged(rec *record.Change, what effect) error {
	service, cluster := rec.Namespace+"/"+rec.Service, dash(onlyCluster(rec))
	others := len(rec.Causes) + rec.CausesDropped
	detail := fmt.Sprintf("its own event was merged with %d others", others)
	switch {
	case rec.CausesDropped == 0 && others == 0:
		detail = "caused by an event of another pod"
	case rec.CausesDropped == 0:
		detail = fmt.Sprintf("caused by %d events of other pods", others+1)
	}
	if err := s.table.row("-", "", cluster, service, what.seen, detail); err != nil {
		return err
	}
	shown := ""
	if rec.Stages.Echo > 0 {
		shown = millis(max(0, rec.Stages.Echo-rec.Stages.Total)) + " later"
	}
	return s.table.row(stamp(rec.Time), "", cluster, service, done(rec, what), ending(rec, shown, what))
}

// causes are the events that tell what became of the address, in their order:
// those of its own pod; if none is among them and none was left out, those that are
// no pod's. There are none where a burst has merged more than a change names.
func (s *story) causes(rec *record.Change) []record.Cause {
	var own, general []record.Cause
	for _, c := range append([]record.Cause{rec.Cause}, rec.Causes...) {
		switch {
		case c.IP == s.ip.String():
			own = append(own, c)
		case c.IP == "" && (c.Kind != "Pod" || c.Name == ""):
			general = append(general, c)
		}
	}
	if len(own) == 0 && rec.CausesDropped == 0 {
		own = general
		if len(rec.Causes) == 0 && s.mayBeOf(&rec.Cause) {
			own = []record.Cause{rec.Cause}
		}
	}
	slices.SortStableFunc(own, func(a, b record.Cause) int { return a.Arrival.Compare(b.Arrival) })
	return own
}

// mayBeOf is whether the only event behind a change may be of the address's pod
// although it does not name the address: it names none, or the pod's address of the
// other family.
func (s *story) mayBeOf(c *record.Cause) bool {
	named, err := netip.ParseAddr(c.IP)
	return err != nil || named.Is4() != s.ip.Is4()
}

// onlyCluster is the member of all events that are named, or "" if there are several.
func onlyCluster(rec *record.Change) string {
	for i := range rec.Causes {
		if rec.Causes[i].Cluster != rec.Cause.Cluster {
			return ""
		}
	}
	return rec.Cause.Cluster
}

func (s *story) effect(rec *record.Change) effect {
	switch {
	case record.HasIP(rec.Removed, s.ip):
		return effect{"seen leaving", "gone from the ingress", "takes no traffic"}
	case record.HasIP(rec.Unreadied, s.ip):
		return effect{"seen not ready", "written", "not ready: takes no new traffic"}
	case record.HasIP(rec.Readied, s.ip):
		return effect{"seen ready", "written", "ready: takes traffic"}
	case record.HasIP(rec.Added, s.ip):
		return effect{"seen", "written", "in the ingress"}
	}
	return effect{"seen", "written", "this address is unchanged"}
}

func seen(cause *record.Cause, what effect) string {
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

func done(rec *record.Change, what effect) string {
	switch rec.Result {
	case record.Written:
		return what.done
	case record.Dropped:
		return "nothing to write"
	}
	return string(rec.Result)
}

// ending says what the change means for requests; shown is when our own watch had
// it, if it is known.
func ending(rec *record.Change, shown string, what effect) string {
	switch {
	case rec.Result == record.Written && shown != "":
		return what.detail + "; our watch showed it " + shown
	case rec.Result == record.Written:
		return what.detail
	case rec.Result == record.Dropped:
		return "the ingress stands as it should"
	}
	return rec.Error
}
