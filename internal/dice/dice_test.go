// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package dice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestSeedsBeginWithTheSeedOfTheRun(t *testing.T) {
	seed := Seed(t)
	if got := slices.Collect(Seeds(t, 3)); !slices.Equal(got, []uint64{seed, seed + 1, seed + 2}) {
		t.Errorf("%v, want three from %d on", got, seed)
	}
	if a, b := New(t), From(seed, 0); a.Uint64() != b.Uint64() {
		t.Error("New draws other numbers than number 0 of the seed")
	}
}

func TestParseSeed(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "7": 7, "18446744073709551615": 1<<64 - 1} {
		if got, err := parse(text); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-1", "1.5", "18446744073709551616"} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNoTestHasDiceOfItsOwn holds the rule for every test of the repository:
// from math/rand it may name the type of the dice, and nothing else.
func TestNoTestHasDiceOfItsOwn(t *testing.T) {
	read := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		read++
		for _, name := range ownDice(file) {
			t.Errorf("%s uses rand.%s; take dice.New, dice.Seeds or dice.From of internal/dice, so that SEED repeats the test", path, name)
		}
		return nil
	})
	if err != nil || read < 100 {
		t.Errorf("read %d files of tests: %v", read, err)
	}
}

// ownDice lists what a file takes from math/rand beside the type.
func ownDice(file *ast.File) []string {
	random := ""
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && strings.HasPrefix(path, "math/rand") {
			random = "rand"
			if spec.Name != nil {
				random = spec.Name.Name
			}
		}
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && random != "" && x.Name == random && selector.Sel.Name != "Rand" {
			names = append(names, selector.Sel.Name)
		}
		return true
	})
	return names
}

func TestOwnDiceAreSeen(t *testing.T) {
	for source, want := range map[string][]string{
		`package p; import "math/rand/v2"; var r = rand.New(rand.NewPCG(1, 2))`: {"New", "NewPCG"},
		`package p; import m "math/rand"; var r = m.Int()`:                      {"Int"},
		`package p; import "math/rand/v2"; var r *rand.Rand`:                    nil,
		`package p; import "crypto/rand"; var r = rand.Reader`:                  nil,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := ownDice(file); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}
