// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// view is what page.html shows: the status as it is, and what is made for the page
// alone. The template says where things are, texts says how values read.
type view struct {
	*metrics.Status
	// Findings are what is wrong, first of all.
	Findings []metrics.Finding
	Strips   []stripView
	// Changes are the newest of those that are remembered, newest first.
	Changes []*record.Change
}

// pageChanges is the number of changes on the page, pageAddresses that of the addresses of
// one kind in one change.
const pageChanges, pageAddresses = 50, 4

// newView is the view of a status and of records, which come oldest first.
func newView(s *metrics.Status, records []*record.Change) *view {
	v := &view{Status: s, Findings: s.Findings(), Changes: slices.Clone(records[max(0, len(records)-pageChanges):])}
	slices.Reverse(v.Changes)
	for i := range s.Clusters {
		v.Strips = append(v.Strips, newStrip(s.Clusters[i].Name, records))
	}
	return v
}

// texts are the functions of the template. Whatever a cluster chose passes one of those
// that make it fit to be read.
var texts = template.FuncMap{
	"visible": visible, "ago": Ago, "short": Short, "effects": effects,
	"lag":    func(s float64) string { return Short(time.Duration(s * float64(time.Second))) },
	"plain":  func(s string) string { return strings.ReplaceAll(visible(s), "_", " ") },
	"moment": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"host":   func(address string) string { return visible(record.HostOf(address)) },
}

// effect is what a change does to some addresses, of which some are shown.
type effect struct {
	Class, Name string
	Shown       []string
	More        int
}

func effects(rec *record.Change) (all []effect) {
	for _, e := range []struct {
		class, name string
		list        []string
	}{{"bad", "removed", rec.Removed}, {"warn", "not ready", rec.Unreadied}, {"ok", "added", rec.Added}, {"ok", "ready", rec.Readied}} {
		if n := min(len(e.list), pageAddresses); n > 0 {
			all = append(all, effect{e.class, e.name, e.list[:n], len(e.list) - n})
		}
	}
	return all
}

// maxText bounds text on the page: an error may repeat what a server answered.
const maxText = 400

// visible makes text that a cluster chose fit for the page, and bounds its length.
func visible(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return Legible(s)
}

// Legible makes text that a cluster chose fit to be read, on a page or a terminal: what is not meant to be seen
// (control characters, marks that reverse the direction of what follows) becomes a replacement character.
func Legible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Short renders a duration with two or three digits.
func Short(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms <= 0:
		return "0"
	case ms < 1:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1_000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", ms/1_000)
	default:
		return duration.HumanDuration(d)
	}
}

// Ago renders a point in time relative to now; "never" for the zero time.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return duration.HumanDuration(now.Sub(at)) + " ago"
}

// The latency strip of a cluster: one dot for each of its last live changes
// that were written, from left to right, on a logarithmic scale. Coordinates
// are those of the view box 0 0 320 104 in page.html, which draws the scale.
const (
	// stripSize is the number of changes in a strip.
	stripSize             = 120
	stripRight, stripStep = 313.0, 2.2
	stripTop, stripBottom = 8.0, 96.0
	// stripLeast and stripMost bound the scale; what lies beyond sits on its edge.
	stripLeast, stripMost = 500 * time.Microsecond, 10 * time.Second
)

// stripView is what the page shows of a cluster's latency. The numbers say the same as the
// picture, for those who cannot see it.
type stripView struct {
	Cluster       string
	Count         int
	P50, P99, Max string
	// Removals and Others are the paths that draw the dots.
	Removals, Others string
}

// stripY is where a duration lies on the scale.
func stripY(d time.Duration) float64 {
	d = min(max(d, stripLeast), stripMost)
	up := math.Log(float64(d)/float64(stripLeast)) / math.Log(float64(stripMost)/float64(stripLeast))
	return stripBottom - up*(stripBottom-stripTop)
}

// newStrip draws the newest of the records, which come oldest first, that are of a cluster.
func newStrip(cluster string, records []*record.Change) stripView {
	v := stripView{Cluster: visible(cluster)}
	var totals []time.Duration
	for _, rec := range slices.Backward(records) {
		if rec.Cluster != cluster || !rec.Cause.Live || rec.Result != record.Written || len(totals) == stripSize {
			continue
		}
		dot := fmt.Sprintf("M%.1f %.1fh0", stripRight-stripStep*float64(len(totals)), stripY(rec.Stages.Total))
		totals = append(totals, rec.Stages.Total)
		if rec.Lane == "removal" {
			v.Removals += dot
		} else {
			v.Others += dot
		}
	}
	if v.Count = len(totals); v.Count > 0 {
		slices.Sort(totals)
		// A quantile is a value that was measured, nothing in between.
		at := func(percent int) string { return Short(totals[(v.Count*percent+99)/100-1]) }
		v.P50, v.P99, v.Max = at(50), at(99), at(100)
	}
	return v
}
