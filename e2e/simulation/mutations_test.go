// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

var mutations = flag.Uint64("mutations", 0, "how many cases are played with each mutation, of which one must break a law; 0 plays none")

const root = "../.."

// Each mutation under testdata reintroduces a mistake that was once found by reading. The test checks
// that it still applies, and with -mutations that the simulation finds it.
func TestMutations(t *testing.T) {
	files, err := filepath.Glob("testdata/mutations/*.patch")
	if err != nil || len(files) < 14 {
		t.Fatalf("%d mutations: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".patch"), func(t *testing.T) {
			path, text := mutate(t, file)
			if *mutations > 0 {
				fmt.Printf("%s: %s\n", t.Name(), play(t, path, text))
			}
		})
	}
}

// mutate returns the path and the changed text of the file that a patch changes.
func mutate(t *testing.T, patch string) (path, text string) {
	lines, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	var before, after []string
	for line := range strings.Lines(string(lines)) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			path = filepath.Join(root, strings.TrimPrefix(line, "+++ b/"))
		case strings.HasPrefix(line, "-"):
			before = append(before, line[1:])
		case strings.HasPrefix(line, "+"):
			after = append(after, line[1:])
		}
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), strings.Join(before, "\n")); n != 1 {
		t.Fatalf("what %s changes occurs %d times in %s", patch, n, path)
	}
	return path, strings.Replace(string(source), strings.Join(before, "\n"), strings.Join(after, "\n"), 1)
}

// play plays cases with one file of the product replaced, and returns what was found.
func play(t *testing.T, path, text string) string {
	dir := t.TempDir()
	changed, overlay, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "test")
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	replace, _ := json.Marshal(map[string]map[string]string{"Replace": {absolute: changed}})
	for name, content := range map[string]string{changed: text, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for seed, first := dice.Seed(t), dice.Seed(t); seed < first+*mutations; seed++ {
		run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestCases$", "-seed", fmt.Sprint(seed), "-cases", fmt.Sprint(first+*mutations-seed), "-most", "1", "-tries", "0")
		out, _ := run.CombinedOutput()
		_, found, _ := strings.Cut(string(out), "seed ")
		if n, err := fmt.Sscan(found, &seed); n != 1 || err != nil {
			t.Errorf("not found: %s", out)
			return "not found"
		}
		if r := Run(Draw(seed), nil); r.Broken == nil { // the mutation's fault, not the product's
			text, _, _ := strings.Cut(found, "\n")
			return fmt.Sprintf("found after %d cases: seed %s", seed-first+1, text)
		}
	}
	return "not found"
}
