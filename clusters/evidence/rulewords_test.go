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
// marked=NAME; one whose name begins with all matches every pod, and one named in-ZONE
// those of a zone.
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
		matches := strings.HasPrefix(name, "all") || byZone && zone == s.Zone && !s.Zoneless || slices.Contains(strings.Split(s.Pod.Text, "+"), name)
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

func (m markRules) ReadsNode() bool { return strings.Contains(string(m), "in-") }
func (m markRules) ID() string      { return string(m) }

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
