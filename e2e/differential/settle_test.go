// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/e2e/fleet"
)

// state is both clusters at about the same moment.
type state struct {
	member, ingress *objects
	ours, theirs    map[key]*view
}

func (w *world) look(ctx context.Context) (*state, error) {
	member, err := observe(ctx, w.member, true, w.namespaces)
	if err != nil {
		return nil, err
	}
	ingress, err := observe(ctx, w.fleet.Ingress, false, w.namespaces)
	if err != nil {
		return nil, err
	}
	s := &state{member: member, ingress: ingress, ours: map[key]*view{}, theirs: map[key]*view{}}
	for k := range member.services {
		s.add(w, k)
	}
	for k := range ingress.services {
		s.add(w, k)
	}
	for k := range ingress.endpoints {
		s.add(w, k)
	}
	for k := range ingress.slices {
		s.add(w, k)
	}
	return s, nil
}

func (s *state) add(w *world, k key) {
	if v := theirs(s.member, k); v != nil {
		s.theirs[k] = v
	}
	if v := w.ours(s.ingress, k); v != nil {
		s.ours[k] = v
	}
}

// differences returns the Services that differ, sorted.
func (s *state) differences() []key {
	keys := map[key]bool{}
	for k := range s.theirs {
		keys[k] = true
	}
	for k := range s.ours {
		keys[k] = true
	}
	// Where there is no Service any more there must be no endpoints.
	for k := range s.ingress.endpoints {
		keys[k] = true
	}
	for k := range s.ingress.slices {
		keys[k] = true
	}
	var out []key
	for k := range keys {
		if len(s.unequal(k)) > 0 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// unequal names the parts that differ.
func (s *state) unequal(k key) []string {
	ours, theirs := s.ours[k], s.theirs[k]
	switch {
	case ours == nil && theirs == nil:
		if s.ingress.endpoints[k] != nil || s.ingress.slices[k] != nil {
			return []string{"left over without a Service"}
		}
		return nil
	case ours == nil:
		return []string{"no replica"}
	case theirs == nil:
		return []string{"a replica of nothing"}
	}
	var out []string
	a, b := ours.parts(), theirs.parts()
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if name == familyPart && s.member.services[k].Spec.Selector == nil {
			continue
		}
		if !slices.Equal(a[name], b[name]) {
			out = append(out, name)
		}
	}
	return out
}

// Times of settling. Equality counts if neither side changed between two polls. Both
// must be unchanged for stuck before nudge considers what upstream overlooked.
const (
	pollEvery = 150 * time.Millisecond
	stuck     = 1500 * time.Millisecond
)

// settle waits until both sides are equal and do not change, and returns that state.
// Otherwise it fails the test with the differences.
func (w *world) settle(what string) *state {
	w.Helper()
	var last *state
	nudged := map[key]string{}
	since := time.Now()
	err := eventually(w.Context(), *patienceFlag, pollEvery, func(ctx context.Context) error {
		s, err := w.look(ctx)
		if err != nil {
			return err
		}
		before := last
		last = s
		if before == nil || before.member.print != s.member.print || before.ingress.print != s.ingress.print {
			since = time.Now()
			return fmt.Errorf("a side still changes")
		}
		different := s.differences()
		if len(different) == 0 {
			return nil
		}
		if time.Since(since) > stuck {
			if err := w.nudge(ctx, s, different, nudged); err != nil {
				return err
			}
		}
		return fmt.Errorf("%d Services differ", len(different))
	})
	if err != nil {
		w.Fatalf("%s: %v\n%s", what, err, w.report(last))
	}
	for k := range last.ours {
		if finishedListed(last.member, last.ingress, k) {
			w.Errorf("%s: %s lists a pod that has finished", what, k)
		}
	}
	for k, text := range nudged {
		if v := last.ours[k]; v == nil || v.text() != text {
			w.Errorf("%s: %s was wrong until its Service was touched:\n%s\nnow:\n%v", what, k, text, v)
		}
	}
	return last
}

// nudge touches Services for which the member's controllers overlooked a pod that
// finished (D1), so that they sync again. What we show must be right without that: it
// is recorded, and must be the same in the end.
func (w *world) nudge(ctx context.Context, s *state, different []key, nudged map[key]string) error {
	for _, k := range different {
		if s.ours[k] == nil || nudged[k] != "" || !finishedListed(s.member, s.member, k) || finishedListed(s.member, s.ingress, k) {
			continue
		}
		nudged[k] = s.ours[k].text()
		w.nudges++
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/look-again":"%d"}}}`, w.nudges)
		if _, err := w.member.Client.CoreV1().Services(k.namespace).Patch(ctx, k.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// eventually is fleet.Eventually with longer pauses: each poll lists everything.
func eventually(ctx context.Context, limit, every time.Duration, cond func(context.Context) error) error {
	next := time.Now()
	return fleet.Eventually(ctx, limit, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(next)):
		}
		err := cond(ctx)
		next = time.Now().Add(every)
		return err
	})
}
