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

// effect is what a change does to some addresses, of which some are shown.
type effect struct {
	Class, Word string
	Shown       []string
	More        int
}

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
			v.Changes = append(v.Changes, rec)
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

// newBadge says what became of a change that was not simply written.
func newBadge(rec *record.Change) (v verdict) {
	switch rec.Result {
	case record.Written:
		if len(effects(rec)) == 0 {
			v = verdict{Class: "ok", Text: "written"}
		}
	case record.Held:
		v = verdict{Class: "warn", Text: "held"}
	case record.Failed:
		v = verdict{Class: "bad", Text: "failed"}
	default:
		v.Text = visible(string(rec.Result))
	}
	if others := len(rec.Causes) + rec.CausesDropped; others > 0 {
		v.Detail = fmt.Sprintf("and %s more", count(others))
	}
	return v
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

// stagesText tells where the time went, in milliseconds: what is zero is left
// out, and writes are told together, since they overlap.
func stagesText(s *record.Stages) string {
	parts := []string{"queue " + bare(s.Queue), "compute " + bare(s.Compute), "write " + bare(s.Write())}
	if s.Echo > 0 {
		parts = append(parts, "seen "+bare(s.Echo))
	}
	return strings.Join(parts, " · ")
}
