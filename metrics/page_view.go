// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"time"
)

// pageView is all that page.html shows, as text: the template decides where
// things stand and nothing else. Class is ok, warn, bad or empty.
type pageView struct {
	Title, Version, Time string
	Verdict              verdict
	// Alerts are what else deserves the first look.
	Alerts    []verdict
	Tally     []tally
	Clusters  []clusterView
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
}

// troubleView is a row about a held change, a conflict or a rejected address.
type troubleView struct {
	What, Cluster, Address, Reason, Message, Release, Since string
}

// maxPageTroubles bounds each list of troubles on the page; /debug/status has more.
const maxPageTroubles = 50

// lagWarn is the lag from which a cluster is marked.
const lagWarn = 5 * time.Second

func newPageView(s *Status, records []*Record, form pageFilter, filter *Filter) *pageView {
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
	for i := range s.Clusters {
		v.Clusters = append(v.Clusters, newClusterView(&s.Clusters[i], s.Time))
	}
	v.troubles(s)
	v.changes(records, filter)
	v.Footer = footer(s)
	return v
}

// judge says in a sentence whether a person has anything to do.
func judge(s *Status) verdict {
	if !s.Ready {
		if len(s.NotReady) == 0 {
			return verdict{"bad", "Not ready.", ""}
		}
		return verdict{"bad", "Not ready.", message("Waiting for " + strings.Join(s.NotReady, "; ") + ".")}
	}
	var open []string
	if down := len(s.Clusters) - live(s); down > 0 {
		open = append(open, plural(down, "cluster is not live", "clusters are not live"))
	}
	if s.HeldCount > 0 {
		open = append(open, plural(s.HeldCount, "change is held", "changes are held"))
	}
	if s.ConflictCount > 0 {
		open = append(open, plural(s.ConflictCount, "conflict", "conflicts"))
	}
	if s.RejectedCount > 0 {
		open = append(open, plural(s.RejectedCount, "address is rejected", "addresses are rejected"))
	}
	if len(open) > 0 {
		return verdict{"warn", "Ready, but look at this:", strings.Join(open, ", ") + "."}
	}
	return verdict{"ok", "Ready.", "Every cluster is live; nothing is held, in conflict or rejected."}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// live counts the clusters that answer and have been seen whole.
func live(s *Status) (n int) {
	for i := range s.Clusters {
		if s.Clusters[i].Up && s.Clusters[i].Synced {
			n++
		}
	}
	return n
}

// alerts are faults that no table shows.
func alerts(s *Status) []verdict {
	var out []verdict
	if s.Config.Error != "" {
		out = append(out, verdict{"bad", "The configuration on disk is refused; the former one runs on.", message(s.Config.Error)})
	}
	if !s.Ingress.Up {
		detail := "Last contact: " + ago(s.Ingress.LastContact, s.Time) + "."
		if s.Ingress.LastError != "" {
			detail += " " + message(s.Ingress.LastError)
		}
		out = append(out, verdict{"bad", "The ingress cluster does not answer.", detail})
	}
	return out
}

// tallies are the numbers that tell at a glance whether anything is wrong.
func tallies(s *Status) []tally {
	up, ready, notReady, lag := live(s), 0, 0, 0.0
	for i := range s.Clusters {
		c := &s.Clusters[i]
		ready += c.Endpoints.Ready
		notReady += c.Endpoints.NotReady
		lag = max(lag, c.LagSeconds)
	}
	depth, oldest := 0, 0.0
	for _, l := range s.Lanes {
		depth += l.Depth
		oldest = max(oldest, l.OldestSeconds)
	}
	queue := tally{Name: "Queue", Value: count(depth)}
	if depth > 0 {
		queue.Detail = "oldest " + short(seconds(oldest))
	}
	clusters := tally{Name: "Clusters live", Value: count(up) + " of " + count(len(s.Clusters))}
	if up < len(s.Clusters) {
		clusters.Class = "bad"
	}
	endpoints := tally{Name: "Endpoints ready", Value: count(ready)}
	if notReady > 0 {
		endpoints.Detail = count(notReady) + " not ready"
	}
	return []tally{
		clusters, {Name: "Replicas", Value: count(s.Ingress.Replicas)}, endpoints,
		{Class: lagClass(lag), Name: "Largest lag", Value: lagText(lag)}, queue,
		{Class: warnIf(s.HeldCount), Name: "Held", Value: count(s.HeldCount)},
		{Class: warnIf(s.ConflictCount), Name: "Conflicts", Value: count(s.ConflictCount)},
		{Class: warnIf(s.RejectedCount), Name: "Rejected", Value: count(s.RejectedCount)},
	}
}

func newClusterView(c *ClusterStatus, now time.Time) clusterView {
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
	if c.LastError != "" {
		v.Error, v.ErrorAt = message(c.LastError), ago(c.LastErrorAt, now)
	}
	return v
}

func (v *pageView) troubles(s *Status) {
	for _, h := range s.Held[:min(len(s.Held), maxPageTroubles)] {
		what := "the whole cluster"
		if h.Service != "" {
			what = visible(h.Namespace + "/" + h.Service)
		}
		v.Held = append(v.Held, troubleView{
			What: what, Cluster: dash(h.Cluster), Reason: word(h.Reason),
			Message: message(h.Message), Release: message(h.Release), Since: ago(h.Since, s.Time),
		})
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
	return fmt.Sprintf("And %s more; tributary status -o json lists the first %d.", count(n-maxPageTroubles), maxTroubles)
}

func footer(s *Status) string {
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
