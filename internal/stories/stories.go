// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/golden"
)

// Story is one story while it is played. Apply applies a line of a step; Step returns the
// results of the lines since the last Step, a line each and without the ">".
type Story interface {
	Apply(line string) error
	Step() []string
}

// Play plays the files of testdata/stories, a subtest each; begin returns the beginning of a
// story. The results have to be those of the file, or are written there with -update.
func Play(t *testing.T, begin func(t *testing.T) Story) {
	t.Helper()
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			played := play(t, string(text), begin)
			golden.File(t, file, []byte(strings.Join(played, "\n")))
		})
	}
}

// play returns the lines of a file with the results of its stories.
func play(t *testing.T, text string, begin func(*testing.T) Story) (out []string) {
	t.Helper()
	s, changed := begin(t), false
	step := func() {
		if changed {
			for _, line := range s.Step() {
				out = append(out, strings.TrimRight("> "+line, " "))
			}
		}
		changed = false
	}
	for n, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, ">"):
			step()
			continue
		case strings.HasPrefix(line, "=="):
			step()
			s = begin(t)
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			step()
		default:
			if err := s.Apply(line); err != nil {
				t.Fatalf("line %d: %q: %v", n+1, line, err)
			}
			changed = true
		}
		out = append(out, line)
	}
	step()
	return out
}
