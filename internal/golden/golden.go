// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golden compares what a test produces with a file, and writes the file anew
// if the test runs with -update. Only tests import it.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the tests compare with anew; read every line of the difference")

// File compares got with a file, and names the first line that differs.
func File(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(body) == string(got) {
		return
	}
	want, is := strings.Split(string(body), "\n"), strings.Split(string(got), "\n")
	for i := range max(len(want), len(is)) {
		if w, g := at(want, i), at(is, i); w != g {
			t.Errorf("%s:%d:\n got  %s\n want %s\nif that is meant, run the test with -update", file, i+1, g, w)
			return
		}
	}
}

// at is a line, or says that there is none.
func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}
