// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package buildcache stores executables that the end-to-end tests build, in the user's cache directory and never in a
// source tree. A file in the cache is always complete and never changes, so that a process can run it while others
// build; locks between processes prevent that something is built twice at the same time.
package buildcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/e2e/cluster/reserve"
)

// unused is how long an unused file is retained. A server executable has over 100 MB, and each change of go.mod makes
// another.
const unused = 3 * 24 * time.Hour

// Dir returns the cache directory, which exists after the call.
func Dir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "tributary-e2e")
	return dir, os.MkdirAll(dir, 0o700)
}

// Has reports whether the file exists, and marks it as used.
func Has(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// Prune removes files with that prefix which were not used for days. A failure does no harm: the next call tries again.
func Prune(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(entry.Name(), prefix) && time.Since(info.ModTime()) > unused {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}

// Pin links the file under a second name, derived from its content, which stays valid when the file is replaced.
func Pin(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return "", err
	}
	prefix := path + "-"
	pinned := prefix + hex.EncodeToString(digest.Sum(nil))[:16]
	if Has(pinned) {
		return pinned, nil
	}
	Prune(filepath.Dir(path), filepath.Base(prefix))
	// A link, not a copy: a descriptor open for writing that another goroutine's fork inherits would make it "busy".
	if err := os.Link(path, pinned); err != nil {
		return "", fmt.Errorf("pin %s: %w", path, err)
	}
	return pinned, nil
}

// ModuleDir returns the directory of the module tributary.dev/tributary/e2e: where this package was compiled from, or,
// if that is gone or was trimmed, a parent of the working directory.
func ModuleDir() (string, error) {
	var candidates []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		candidates = append(candidates, filepath.Dir(filepath.Dir(filepath.Dir(file))))
	}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			candidates = append(candidates, dir, filepath.Join(dir, "e2e"))
		}
	}
	for _, dir := range candidates {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && slices.Contains(strings.Split(string(text), "\n"), "module tributary.dev/tributary/e2e") {
			return dir, nil
		}
	}
	return "", errors.New("the source of module tributary.dev/tributary/e2e was not found: run this inside the repository")
}

// Lock waits for an exclusive lock on a file, which is created if necessary; waiting, unless nil, is called once if it
// has to wait. Close the file to unlock; the end of the process unlocks too.
func Lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		f, err := reserve.File(path)
		if !errors.Is(err, reserve.ErrTaken) {
			return f, err
		}
		if first && waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
