// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares got with a file and rewrites the file under -update.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read golden: %v; create it with: go test ./metrics/record -update", err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs; if that is meant: go test ./metrics/record -update\n--- want\n%s\n--- got\n%s", file, want, got)
	}
}
