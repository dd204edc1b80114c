// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"slices"
	"strings"

	"tributary.dev/tributary/metrics/record"
)

const (
	// pageChanges is the number of changes on the page.
	pageChanges = 50
	// pageAddresses bounds the addresses of one kind in one change on the page.
	pageAddresses = 4
)

// changeView is a row about a change.
type changeView struct {
	Seq            uint64
	Time, DateTime string
	Service        string
	Cluster        string
	// Badge says what became of a change that was not simply written.
	Class, Badge     string
	Effects          []effectView
	Error            string
	Cause, CauseMore string
	Total, Stages    string
}

// effectView is what a change does to some addresses.
type effectView struct {
	Class, Word string
	Addresses   []addressView
	More        string
}

type addressView struct{ IP, Text string }

// changes picks the newest records; they come oldest first.
func (v *pageView) changes(records []*record.Change, filter *record.Filter) {
	if v.Filter.Problem != "" {
		v.NoChanges = "Mend the filter, or show all."
		return
	}
	matched := 0
	for _, rec := range slices.Backward(records) {
		if !filter.Match(rec) {
			continue
		}
		if matched++; matched <= pageChanges {
			v.Changes = append(v.Changes, newChangeView(rec))
		}
	}
	kept := "the " + count(len(records)) + " remembered"
	switch {
	case v.Filter.On:
		v.ChangesNote = fmt.Sprintf("Newest first: %s of %s that match, among %s.", count(len(v.Changes)), count(matched), kept)
		v.NoChanges = "No change that is still remembered matches."
	default:
		v.ChangesNote = fmt.Sprintf("Newest first: %s of %s.", count(len(v.Changes)), kept)
		v.NoChanges = "No change yet."
	}
}

func newChangeView(rec *record.Change) changeView {
	v := changeView{
		Seq: rec.Seq, Time: rec.Time.UTC().Format("15:04:05.000"), DateTime: rec.Time.UTC().Format(record.StampFormat),
		Service: visible(rec.Namespace + "/" + rec.Service), Cluster: dash(rec.Cluster),
		Error: message(rec.Error), Cause: visible(rec.Cause.String()),
		Total: short(rec.Stages.Total), Stages: stagesText(&rec.Stages),
	}
	switch rec.Result {
	case record.Written:
		if len(rec.Added)+len(rec.Removed)+len(rec.Readied)+len(rec.Unreadied) == 0 {
			v.Class, v.Badge = "ok", "written"
		}
	case record.Held:
		v.Class, v.Badge = "warn", "held"
	case record.Failed:
		v.Class, v.Badge = "bad", "failed"
	default:
		v.Badge = visible(string(rec.Result))
	}
	if others := len(rec.Causes) + rec.CausesDropped; others > 0 {
		v.CauseMore = fmt.Sprintf("and %s more", count(others))
	}
	for _, e := range []struct {
		class, word string
		list        []string
	}{{"bad", "removed", rec.Removed}, {"warn", "not ready", rec.Unreadied}, {"ok", "added", rec.Added}, {"ok", "ready", rec.Readied}} {
		if len(e.list) > 0 {
			v.Effects = append(v.Effects, newEffectView(e.class, e.word, e.list))
		}
	}
	return v
}

func newEffectView(class, word string, list []string) effectView {
	v := effectView{Class: class, Word: word}
	for _, address := range list[:min(len(list), pageAddresses)] {
		v.Addresses = append(v.Addresses, addressView{visible(record.HostOf(address)), visible(address)})
	}
	if more := len(list) - pageAddresses; more > 0 {
		v.More = fmt.Sprintf("and %s more", count(more))
	}
	return v
}

// stagesText tells where the time went, in milliseconds: what is zero is left
// out, and writes are told together, since they overlap.
func stagesText(s *record.Stages) string {
	parts := []string{"queue " + bare(s.Queue), "compute " + bare(s.Compute), "write " + bare(s.Write())}
	if s.Echo > 0 {
		parts = append(parts, "seen "+bare(s.Echo))
	}
	return strings.Join(parts, " · ")
}
