// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// view is what page.html shows: the status as it is, and what is made for the page
// alone. The template says where things are, texts turns values into words.
type view struct {
	*metrics.Status
	// Findings are what is wrong, first of all.
	Findings  []metrics.Finding
	Tally     []tally
	Strips    []stripView
	StripSize int

	Filter      pageFilter
	Changes     []*record.Change
	ChangesNote string
	Footer      string

	// Troubles are conflicts and addresses left out, of all TroubleCount of them.
	Troubles     []trouble
	TroubleCount int
}

// trouble is a row of what somebody should mend.
type trouble struct {
	Namespace, Service, Cluster, Reason, Text string
	Since                                     time.Time
}

// tally is a number that tells at a glance whether anything is wrong; its class, like all
// on the page, is ok, warn, bad or empty.
type tally struct{ Class, Name, Value, Detail string }

const (
	// pageChanges is the number of changes on the page, pageTroubles bounds each list of
	// troubles, and pageAddresses the addresses of one kind in one change.
	pageChanges, pageTroubles, pageAddresses = 50, 50, 4
	// lagWarn is the lag from which it is marked.
	lagWarn = 5 * time.Second
)

func newView(s *metrics.Status, records []*record.Change, form pageFilter, filter *record.Filter) *view {
	v := &view{
		Status: s, Findings: s.Findings(), Tally: tallies(s),
		Strips: newStrips(s.Clusters, records), StripSize: stripSize, Filter: form, Footer: footer(s),
		TroubleCount: s.ConflictCount + s.RejectedCount,
	}
	for _, c := range s.Conflicts[:min(len(s.Conflicts), pageTroubles)] {
		v.Troubles = append(v.Troubles, trouble{c.Namespace, c.Service, c.Cluster, c.Reason, c.Message, c.Since})
	}
	for _, r := range s.Rejected[:min(len(s.Rejected), pageTroubles)] {
		v.Troubles = append(v.Troubles, trouble{r.Namespace, r.Service, r.Cluster, r.Reason, r.Address + " is left out", r.Since})
	}
	if form.Problem != "" {
		return v
	}
	matched := 0
	for _, rec := range slices.Backward(records) { // they come oldest first
		if filter.Match(rec) {
			if matched++; matched <= pageChanges {
				v.Changes = append(v.Changes, rec)
			}
		}
	}
	v.ChangesNote = fmt.Sprintf("Newest first: %s of %s, among the %s remembered.", count(len(v.Changes)), count(matched), count(len(records)))
	return v
}

// texts are the functions of the template. Whatever a cluster chose passes one of those
// that make it fit to be read.
var texts = template.FuncMap{
	"visible": visible, "message": message, "dash": dash, "ago": Ago, "short": Short, "effects": effects, "stages": stagesText,
	"count":   func(n any) string { return grouped(fmt.Sprint(n)) },
	"lag":     func(s float64) string { return Short(seconds(s)) },
	"late":    lagClass,
	"word":    func(s string) string { return strings.ReplaceAll(visible(s), "_", " ") },
	"service": func(namespace, name string) string { return visible(namespace + "/" + name) },
	"moment":  func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"host":    func(address string) string { return visible(record.HostOf(address)) },
}

// effect is what a change does to some addresses, of which some are shown.
type effect struct {
	Class, Word string
	Shown       []string
	More        int
}

func effects(rec *record.Change) (all []effect) {
	for _, e := range []struct {
		class, word string
		list        []string
	}{{"bad", "removed", rec.Removed}, {"warn", "not ready", rec.Unreadied}, {"ok", "added", rec.Added}, {"ok", "ready", rec.Readied}} {
		if n := min(len(e.list), pageAddresses); n > 0 {
			all = append(all, effect{e.class, e.word, e.list[:n], len(e.list) - n})
		}
	}
	return all
}

// stagesText tells where the time went, in milliseconds.
func stagesText(s record.Stages) string {
	bare := func(d time.Duration) string { return strings.TrimSuffix(Short(d), " ms") }
	return "queue " + bare(s.Queue) + " · compute " + bare(s.Compute) + " · write " + bare(s.Write())
}

func tallies(s *metrics.Status) []tally {
	live := 0
	var of metrics.EndpointCounts
	lag := 0.0
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if c.Up && c.Synced {
			live++
		}
		of.Ready += c.Endpoints.Ready
		of.Reserve += c.Endpoints.Reserve
		of.NotReady += c.Endpoints.NotReady
		lag = max(lag, c.LagSeconds)
	}
	waiting, oldest := s.Comparing, 0.0
	for _, l := range s.Lanes {
		waiting += l.Waiting
		oldest = max(oldest, l.OldestSeconds)
	}
	queue := tally{Name: "Queue", Value: count(waiting)}
	if waiting > 0 {
		queue.Detail = "oldest " + Short(seconds(oldest))
	}
	return []tally{
		{Class: warnIf(len(s.Clusters) - live), Name: "Clusters live", Value: count(live) + " of " + count(len(s.Clusters))},
		{Name: "Replicas", Value: count(s.Ingress.Replicas)},
		{Name: "Endpoints ready", Value: count(of.Ready), Detail: count(of.Reserve) + " in reserve, " + count(of.NotReady) + " not ready"},
		{Class: lagClass(lag), Name: "Largest lag", Value: Short(seconds(lag))}, queue,
	}
}

func footer(s *metrics.Status) string {
	text := "Ingress cluster " + dash(s.Ingress.State) + " " + visible(s.Ingress.Version)
	if s.Leader.State != "" {
		text += "; this process is " + visible(s.Leader.State)
	}
	if !s.Started.IsZero() {
		text += ", running for " + Coarse(s.Time.Sub(s.Started))
	}
	if s.Config.File != "" {
		text += ". Configuration " + message(s.Config.File) + ", taken " + Ago(s.Config.LoadedAt, s.Time)
	}
	return text + "."
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func lagClass(s float64) string {
	if seconds(s) >= lagWarn {
		return "bad"
	}
	return ""
}

func warnIf(n int) string {
	if n > 0 {
		return "warn"
	}
	return ""
}
