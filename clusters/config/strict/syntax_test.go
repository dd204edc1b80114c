// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"strings"
	"testing"
)

// TestMalformedTellsItsPlace: what is not YAML is told with line and column, as other faults are. «» stands there; an
// editor that goes to it shows what is wrong, or what was never closed.
func TestMalformedTellsItsPlace(t *testing.T) {
	const alias = "an alias names an unknown anchor (a value that begins with * must be quoted)"
	for _, c := range []struct{ text, want string }{
		{"a: 1\nb:\n«»\t- c\n", "found character that cannot start any token"},
		{"a: 1\n«»\t\nb: 2\n", "found a tab character that violates indentation"},
		{"a: 1\n---\nb:\n«»\t- c\n", "found character that cannot start any token"},
		{"a: «»\"x\nb: y\n", "found unexpected end of stream"},
		{"a: «»'x\n\n\n", "found unexpected end of stream"},
		{"«»\"", "found unexpected end of stream"},
		{"a: \"x\nb: \"«»y\"\n", "did not find expected key"}, // the first text ends there
		{"a: \"äöü\" «»x\n", "did not find expected key"},
		{"a: b«»: c\n", "mapping values are not allowed in this context"},
		{"a: 1\n b«»: 2\n", "mapping values are not allowed in this context"},
		{"a:\n  b: 1\n   c«»: 2\n", "mapping values are not allowed in this context"},
		{"a:\n  - 1\n «»- 2\n", "did not find expected key"},
		{"a: «»-\n  - x\n", "block sequence entries are not allowed in this context"},
		{"- a\n«»b: 1\n", "did not find expected '-' indicator"},
		{"a: 1\nb\n«»c: 3\n", "could not find expected ':'"},
		{"a: [1, 2\nb«»: 3\n", "did not find expected ',' or ']'"},
		{"a: «»{x: 1\n", "did not find expected ',' or '}'"},
		{"{a: 1}«»}\n", "did not find expected <document start>"},
		{"a: «»]\n", "did not find expected node content"},
		{"«»]", "did not find expected node content"},
		{"a: 1\nb: «»[\n", "did not find expected node content"},
		{"äöü: «»[\n\n", "did not find expected node content"},
		{"[[[[{{{«»{", "did not find expected node content"},
		{"a: «»@x\n", "found character that cannot start any token"},
		{"a: «»`x`\n", "found character that cannot start any token"},
		{"a: |\n x\nz: \"«»\\q\"\n", "found unknown escape character"},
		{"a: |2«»x\n", "did not find expected comment or line break"},
		{"a: «»!<x\n", "did not find the expected '>'"},
		{"a: «»&\n", "did not find expected alphabetic or numeric character"},
		{"«»%YAML 3.0\n---\na: 1\n", "found incompatible YAML document"},
		{"a: «»*b\n", alias},
		{"a: [b, «»*c]\n", alias},
		{"a: 1\nb: «»\x01\n", "control characters are not allowed"},
		{"a: 1\nä: «»\xff\n", "invalid leading UTF-8 octet"},
	} {
		before, after, _ := strings.Cut(c.text, "«»")
		text := before + after
		var into everything
		faults := Decode([]byte(text), &into, Foreign).Locate("f", []byte(text))
		line, column := strings.Count(before, "\n")+1, len([]rune(before[strings.LastIndex(before, "\n")+1:]))+1
		if want := "is not valid YAML: " + c.want; len(faults) != 1 || faults[0].Message != want || faults[0].Line != line || faults[0].Column != column {
			t.Errorf("%q: got %s, want %s at %d:%d", text, faults.In("f"), want, line, column)
		}
	}
}
