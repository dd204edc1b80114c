// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tributary.dev/tributary/clusters/store"
)

// markRules are rules for transcripts: NAME/OUTCOME,… A rule matches the pods that are
// marked=NAME; one whose name begins with all matches every pod, one named in-ZONE
// those of a zone, and one named of-MARK those of Services that are marked so.
type markRules string

func deciderNamed(text string) store.Decider {
	if text == "" {
		return nil
	}
	return markRules(text)
}

func (m markRules) Decide(s store.Subject, held func(string) bool) (matched []store.Decision) {
	decided := false
	for rule := range strings.SplitSeq(string(m), ",") {
		name, then, _ := strings.Cut(rule, "/")
		isHeld := held != nil && held(name)
		zone, byZone := strings.CutPrefix(name, "in-")
		mark, byService := strings.CutPrefix(name, "of-")
		matches := strings.HasPrefix(name, "all") || byZone && zone == s.Zone && !s.Zoneless || byService && s.Service.Text == mark || slices.Contains(strings.Split(s.Pod.Text, "+"), name)
		if matches && (isHeld || !decided) {
			matched = append(matched, store.Decision{Rule: name, Then: store.Outcome(then)})
			decided = decided || !isHeld
		}
	}
	if !decided {
		matched = append(matched, store.Decision{Then: store.Upstream})
	}
	return matched
}

func (m markRules) ReadsNode() bool    { return strings.Contains(string(m), "in-") }
func (m markRules) ReadsService() bool { return strings.Contains(string(m), "of-") }
func (m markRules) Readies() bool      { return strings.Contains(string(m), "/Ready") }
func (m markRules) ID() string         { return string(m) }

// kept is what rules need of an item.
func (r *replay) kept(item string) store.Kept {
	kept := store.Kept{Since: r.decodes}
	for _, field := range strings.Fields(item) {
		if marks, ok := strings.CutPrefix(field, "marked="); ok {
			kept.Text = marks
		}
	}
	return kept
}

func ruledText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d by rules", n)
}

// showRules shows how many pods each rule decides, where that has changed.
func (r *replay) showRules() {
	var all []string
	counts := r.state.Store().RuleCount()
	for _, rule := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", rule, counts[rule]))
	}
	if text := strings.Join(all, ", "); text != r.rules {
		r.rules = text
		r.say("rules decide: %s", cmp.Or(text, "nothing"))
	}
}
