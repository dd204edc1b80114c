// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// pageView is all that page.html shows, as text: the template decides where
// things stand and nothing else. Class is ok, warn, bad or empty.
type pageView struct {
	Title, Version, Time string
	Verdict              verdict
	// Alerts are what else deserves the first look.
	Alerts   []verdict
	Tally    []tally
	Clusters []clusterView
	// Natives are the members whose own controllers are observed.
	Natives   []nativeView
	Sinks     []sinkView
	Grid      []gridLine
	Strips    []stripView
	StripSize int

	Held, Conflicts, Rejected               []troubleView
	HeldCount, ConflictCount, RejectedCount string
	HeldMore, ConflictsMore, RejectedMore   string
	Filter                                  pageFilter
	Changes                                 []changeView
	ChangesNote, NoChanges                  string
	Footer                                  string
}

type verdict struct{ Class, Text, Detail string }

type tally struct{ Class, Name, Value, Detail string }

type clusterView struct {
	Name, Class, State, Version, Services, Pods, Ready, NotReady string
	Lag, LagClass, Contact, Error, ErrorAt                       string
	// Reason says more about the state; Flags are what is special beside it.
	Reason  string
	Flags   []flagView
	Remarks []string
}

type flagView struct{ Class, Text string }

// troubleView is a row about a held change, a conflict or a rejected address.
type troubleView struct {
	What, Cluster, Address, Reason, Message, Since string
	// Command or Remedy says how to release it.
	Command, Remedy string
}

// maxPageTroubles bounds each list of troubles on the page; /debug/status has more.
const maxPageTroubles = 50

// lagWarn is the lag from which a cluster is marked.
const lagWarn = 5 * time.Second

func newPageView(s *metrics.Status, records []*record.Change, form pageFilter, filter *record.Filter) *pageView {
	v := &pageView{
		Title: "Tributary: ready", Version: visible(s.Version), Time: s.Time.UTC().Format("15:04:05") + " UTC",
		Verdict: judge(s),
		Tally:   tallies(s), Grid: gridLines(), Strips: newStrips(s.Clusters, records), StripSize: stripSize,
		HeldCount: some(s.HeldCount), ConflictCount: some(s.ConflictCount), RejectedCount: some(s.RejectedCount),
		Filter: form,
	}
	if !s.Ready {
		v.Title = "Tributary: not ready"
	}
	v.Alerts = alerts(s)
	v.Natives = newNativeViews(s)
	v.Sinks = newSinkViews(s)
	for i := range s.Clusters {
		v.Clusters = append(v.Clusters, newClusterView(&s.Clusters[i], s.Time))
	}
	v.troubles(s)
	v.changes(records, filter)
	v.Footer = footer(s)
	return v
}

func newClusterView(c *metrics.ClusterStatus, now time.Time) clusterView {
	v := clusterView{
		Name: visible(c.Name), Class: "ok", State: dash(c.State), Version: dash(c.Version),
		Services: count(c.Services), Pods: count(c.Pods), Ready: count(c.Endpoints.Ready), NotReady: count(c.Endpoints.NotReady),
		Lag: lagText(c.LagSeconds), LagClass: lagClass(c.LagSeconds), Contact: ago(c.LastContact, now),
	}
	switch {
	case !c.Up:
		v.Class = "bad"
	case !c.Synced:
		v.Class = "warn"
	}
	v.Reason = visible(c.Reason)
	if c.Panic {
		v.Flags = append(v.Flags, flagView{"bad", "panic"})
	}
	if c.Stale {
		v.Flags = append(v.Flags, flagView{"warn", "stale"})
	}
	if n := c.Endpoints.Damped; n > 0 {
		v.Flags = append(v.Flags, flagView{"warn", plural(n, "endpoint waits to be stable", "endpoints wait to be stable")})
	}
	for _, remark := range c.Remarks {
		v.Remarks = append(v.Remarks, message(remark))
	}
	if c.LastError != "" {
		v.Error, v.ErrorAt = message(c.LastError), ago(c.LastErrorAt, now)
	}
	return v
}

func (v *pageView) troubles(s *metrics.Status) {
	for _, h := range s.Held[:min(len(s.Held), maxPageTroubles)] {
		what := "the whole cluster"
		if h.Service != "" {
			what = visible(h.Namespace + "/" + h.Service)
		}
		held := troubleView{
			What: what, Cluster: dash(h.Cluster), Reason: word(h.Reason), Message: message(h.Message), Since: ago(h.Since, s.Time),
		}
		if strings.HasPrefix(h.Release, "tributary ") {
			held.Command = message(h.Release)
		} else {
			held.Remedy = message(h.Release)
		}
		v.Held = append(v.Held, held)
	}
	for _, c := range s.Conflicts[:min(len(s.Conflicts), maxPageTroubles)] {
		v.Conflicts = append(v.Conflicts, troubleView{
			What: visible(c.Namespace + "/" + c.Service), Cluster: dash(c.Cluster), Reason: word(c.Reason),
			Message: message(c.Message), Since: ago(c.Since, s.Time),
		})
	}
	for _, r := range s.Rejected[:min(len(s.Rejected), maxPageTroubles)] {
		v.Rejected = append(v.Rejected, troubleView{
			What: visible(r.Namespace + "/" + r.Service), Cluster: dash(r.Cluster), Reason: word(r.Reason),
			Address: dash(r.Address), Since: ago(r.Since, s.Time),
		})
	}
	v.HeldMore, v.ConflictsMore, v.RejectedMore = more(s.HeldCount), more(s.ConflictCount), more(s.RejectedCount)
}

func more(n int) string {
	if n <= maxPageTroubles {
		return ""
	}
	return fmt.Sprintf("And %s more; tributary status -o json lists the first %d.", count(n-maxPageTroubles), metrics.MaxTroubles)
}

func footer(s *metrics.Status) string {
	text := "Ingress cluster " + dash(s.Ingress.State)
	if s.Ingress.Version != "" {
		text += ", " + visible(s.Ingress.Version)
	}
	if !s.Started.IsZero() {
		text += ". Running for " + coarse(s.Time.Sub(s.Started))
	}
	if s.Config.File != "" {
		text += ". Configuration " + message(s.Config.File) + ", taken " + ago(s.Config.LoadedAt, s.Time)
	}
	return text + "."
}

// word renders a label value for people.
func word(s string) string { return strings.ReplaceAll(visible(s), "_", " ") }

// some is empty for 0: a heading counts only what there is.
func some(n int) string {
	if n == 0 {
		return ""
	}
	return count(n)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func lagText(s float64) string {
	if s <= 0 {
		return "0"
	}
	return short(seconds(s))
}

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
