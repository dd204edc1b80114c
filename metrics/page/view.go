// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html/template"
	"reflect"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// pageView is what page.html shows: the status as it is, and what is made for the page
// alone. The template says where things stand, texts turns values into words.
type pageView struct {
	*metrics.Status
	Verdict verdict
	// Alerts are what else deserves the first look.
	Alerts    []verdict
	Tally     []tally
	Grid      []gridLine
	Strips    []stripView
	StripSize int

	Filter                 pageFilter
	Changes                []*record.Change
	ChangesNote, NoChanges string
	Footer                 string
}

// verdict is a sentence; its class, like all on the page, is ok, warn, bad or empty.
type verdict struct{ Class, Text, Detail string }

type tally struct{ Class, Name, Value, Detail string }

const (
	// maxPageTroubles bounds each list of troubles on the page; /debug/status has more.
	maxPageTroubles = 50
	// lagWarn is the lag from which a cluster is marked, sinkLagWarn a sink: receivers take
	// their time.
	lagWarn, sinkLagWarn = 5 * time.Second, time.Minute
)

func newPageView(s *metrics.Status, records []*record.Change, form pageFilter, filter *record.Filter) *pageView {
	v := &pageView{
		Status: s, Verdict: judge(s), Alerts: alerts(s), Tally: tallies(s),
		Grid: gridLines(), Strips: newStrips(s.Clusters, records), StripSize: stripSize, Filter: form, Footer: footer(s),
	}
	v.changes(records, filter)
	return v
}

// Observed reports whether the own controllers of any member are observed.
func (v *pageView) Observed() bool {
	return slices.ContainsFunc(v.Clusters, func(c metrics.ClusterStatus) bool { return c.Native != nil })
}

// texts are the functions of the template. Whatever a cluster chose passes one of those
// that make it fit to be read.
var texts = template.FuncMap{
	"visible": visible, "message": message, "dash": dash, "word": word, "ago": ago, "short": short, "plural": plural, "more": more,
	"lag": lagText, "late": lagClass, "badge": newBadge, "effects": effects, "stages": stagesText, "addresses": someAddresses, "native": nativeNote,
	"count":     func(n any) string { return grouped(fmt.Sprint(n)) },
	"service":   func(namespace, name string) string { return visible(namespace + "/" + name) },
	"since":     func(at, now time.Time) string { return coarse(now.Sub(at)) },
	"clock":     func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"moment":    func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"stamp":     func(t time.Time) string { return t.UTC().Format(record.StampFormat) },
	"command":   func(release string) bool { return strings.HasPrefix(release, "tributary ") },
	"sinkLate":  func(s float64) string { return markedFrom(sinkLagWarn, s) },
	"troubles":  func(list any) any { return first(maxPageTroubles, list) },
	"differing": func(list any) any { return first(maxPageDifferences, list) },
	"host":      func(address string) string { return visible(record.HostOf(address)) },
}

// first are the first n of a list.
func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
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

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func lagText(s float64) string {
	if s <= 0 {
		return "0"
	}
	return short(seconds(s))
}

func lagClass(s float64) string { return markedFrom(lagWarn, s) }

func markedFrom(least time.Duration, s float64) string {
	if seconds(s) >= least {
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
