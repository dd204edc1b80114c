// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// judge ends the recording and holds the history against the laws.
func (w *world) judge() {
	w.Helper()
	ctx := w.Context()
	h, err := w.rec.Stop(ctx)
	w.must(err)
	h.User, h.Installation = w.user, w.installation
	h.Covers = func(namespace string) bool { return namespace == w.ns }
	h.Writes = map[string][]cluster.Write{}
	for _, s := range append([]*fleet.Site{w.ingress}, w.members...) {
		all, err := s.Writes(ctx)
		w.must(err)
		h.Writes[s.Name()] = slices.DeleteFunc(all, func(x cluster.Write) bool { return x.Time.Before(h.Began) })
	}
	report := history.Check(h, w.laws)
	left, err := w.left(ctx)
	w.must(err)
	w.Logf("seed %d, faults %s; %d differences at the end, %s", w.seed, timeline(h.Spans), len(left), report)
	if len(report.Violations) == 0 {
		return
	}
	w.Errorf("%d violations", len(report.Violations))
	w.keep(string(w.installation)+"history.txt", func(f *os.File) error {
		_, err := h.WriteTo(f)
		return err
	})
}

// keep writes a file for whoever looks into a failure; `go test -artifacts` keeps
// it.
func (w *world) keep(name string, write func(*os.File) error) {
	f, err := os.Create(filepath.Join(w.ArtifactDir(), name))
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	if err != nil {
		w.Logf("keep %s: %v", name, err)
	}
}

// left tells the differences between what the members want and what is shown.
func (w *world) left(ctx context.Context) ([]string, error) {
	var members []history.Source
	for _, m := range w.members {
		members = append(members, source(m))
	}
	return history.Differences(ctx, w.ns, w.installation, source(w.ingress), members...)
}

// timeline tells the spans of a history, when each began and ended, as far as fits in
// a line; the history of a failure, an artifact, has all.
func timeline(spans []history.Span) string {
	const most = 24
	text := fmt.Sprint(spans[:min(len(spans), most)])
	if len(spans) > most {
		text += fmt.Sprintf(" and %d more", len(spans)-most)
	}
	return text
}
