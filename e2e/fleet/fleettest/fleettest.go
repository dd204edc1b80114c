// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleettest fits package fleet to tests: what a test starts ends with it, an error ends the test, and a test
// that failed shows what the servers said.
package fleettest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// Start starts a fleet that ends with the test. If the test fails, the logs of all servers are copied to the test's
// artifact directory and the last lines of each are printed.
func Start(t testing.TB, o fleet.Options) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, f)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// RunTributary starts `tributary run`, which is killed when the test ends unless it has ended by then.
func RunTributary(t testing.TB, o fleet.TributaryOptions) *fleet.Tributary {
	t.Helper()
	p, err := fleet.StartTributary(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// Eventually fails the test unless cond returns nil within the time limit.
func Eventually(t testing.TB, limit time.Duration, cond func(ctx context.Context) error) {
	t.Helper()
	if err := fleet.Eventually(t.Context(), limit, cond); err != nil {
		t.Fatal(err)
	}
}

// tailLines is what is printed of each log of a failed test; the whole is in the artifact directory.
const tailLines = 15

func keepLogs(t testing.TB, f *fleet.Fleet) {
	dir := t.ArtifactDir()
	for _, path := range f.Logs() {
		name, err := filepath.Rel(f.Dir, path)
		if err != nil {
			name = filepath.Base(path)
		}
		t.Logf("%s, last lines (whole with -artifacts):\n%s", name, cluster.Tail(path, tailLines))
		if err := copyFile(path, filepath.Join(dir, name)); err != nil {
			t.Logf("keep %s: %v", name, err)
		}
	}
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
