// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplaceFile: what Replaceable says beforehand is what ReplaceFile does, with the same words at every try, and
// neither leaves anything beside the file.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	for name, ok := range map[string]bool{"there": true, "new": true, filepath.Join("gone", "k"): false, strings.Repeat("k", 255): false} {
		path := filepath.Join(dir, name)
		if name == "there" {
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := Replaceable(path)
		err := ReplaceFile(path, []byte("new"))
		if (before == nil) != ok || (err == nil) != ok {
			t.Errorf("%s: %v, then %v", name, before, err)
		}
		if !ok && (before.Error() != err.Error() || !strings.Contains(err.Error(), path+", whose directory must be writable: ")) {
			t.Errorf("%v, then %v", before, err)
		}
		if text, _ := os.ReadFile(path); ok && string(text) != "new" {
			t.Errorf("%s holds %q", name, text)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestWithTokenOfAFile: a token that is read from a file of its own would win over one that is written inline.
func TestWithTokenOfAFile(t *testing.T) {
	const text = `{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"tokenFile":"t"}}]}`
	if _, err := WithToken([]byte(text), "", "new"); err == nil || !strings.Contains(err.Error(), "tokenFile") {
		t.Error(err)
	}
}
