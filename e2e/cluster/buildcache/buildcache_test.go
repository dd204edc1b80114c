// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package buildcache_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/cluster/buildcache"
	"tributary.dev/tributary/e2e/cluster/reserve"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPinKeepsWhatIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tool")
	pin := func(text string) string {
		t.Helper()
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		write(t, path, text) // as the go command does: a new file by the old name
		pinned, err := buildcache.Pin(path)
		if err != nil {
			t.Fatal(err)
		}
		return pinned
	}
	first, second, again := pin("one"), pin("two"), pin("one")
	if first == second || first != again {
		t.Errorf("names %s, %s, %s: want one for each content", first, second, again)
	}
	for name, want := range map[string]string{first: "one", second: "two"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestPruneTakesOnlyTheUnused(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-30 * 24 * time.Hour)
	for _, name := range []string{"tool-old", "tool-used", "other-old"} {
		path := filepath.Join(dir, name)
		write(t, path, name)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if !buildcache.Has(filepath.Join(dir, "tool-used")) || buildcache.Has(filepath.Join(dir, "absent")) {
		t.Error("Has: wrong about what is there")
	}
	buildcache.Prune(dir, "tool-")
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 || filepath.Base(left[0]) != "other-old" || filepath.Base(left[1]) != "tool-used" {
		t.Errorf("left: %v", left)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := reserve.File(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reserve.File(path); !errors.Is(err, reserve.ErrTaken) {
		t.Errorf("second lock: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := 0
	_, err = buildcache.Lock(ctx, path, func() { waited++; cancel() })
	if !errors.Is(err, context.Canceled) || waited != 1 {
		t.Errorf("waiting for a held lock: %v, %d calls", err, waited)
	}
	next, err := buildcache.Lock(t.Context(), path, func() { held.Close() })
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
}

func TestModuleDir(t *testing.T) {
	dir, err := buildcache.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cmd", "kubeground", "main.go")); err != nil {
		t.Errorf("%s is not the module: %v", dir, err)
	}
}
