// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// inText finds where a place in a text (a line and a column in characters, from 1) stands
// in the file. YAML folds, indents and quotes texts, but leaves what is not blank in its
// order: so the place is found by counting that.
func inText(data []byte, n *yaml.Node, line, column int) (inLine, inColumn int) {
	before, blank := inked(n.Value, line, column)
	at := reader{text: []rune(string(data)), line: 1, column: 1}
	at.skipTo(n.Line, n.Column)
	style := n.Style &^ yaml.TaggedStyle
	switch style {
	case yaml.LiteralStyle, yaml.FoldedStyle:
		at.skipTo(n.Line+1, 1)
	case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
		at.next()
	}
	end := at
	for seen := 0; !at.done() && !(blank && seen == before); {
		start := at
		r := at.character(style)
		if unicode.IsSpace(r) {
			continue
		}
		if seen == before && !blank {
			return start.line, start.column
		}
		seen++
		end = at
	}
	return end.line, end.column
}

// inked counts the characters before a place that are not blank; blank is true if the place
// itself is, or is the end: then it is right after the last of them.
func inked(text string, line, column int) (before int, blank bool) {
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		for j, r := range []rune(l) {
			if i == line-1 && j == column-1 {
				return before, unicode.IsSpace(r)
			}
			if !unicode.IsSpace(r) {
				before++
			}
		}
		if i == line-1 {
			break
		}
	}
	return before, true
}

// reader goes through a file by characters.
type reader struct {
	text             []rune
	at, line, column int
}

func (r *reader) done() bool { return r.at >= len(r.text) }

func (r *reader) next() rune {
	c := r.text[r.at]
	r.at++
	if r.column++; c == '\n' {
		r.line, r.column = r.line+1, 1
	}
	return c
}

func (r *reader) skipTo(line, column int) {
	for !r.done() && (r.line < line || r.line == line && r.column < column) {
		r.next()
	}
}

// character reads what stands for one character of the text.
func (r *reader) character(style yaml.Style) rune {
	c := r.next()
	switch {
	case r.done():
	case style == yaml.SingleQuotedStyle && c == '\'' && r.text[r.at] == '\'':
		r.next()
	case style == yaml.DoubleQuotedStyle && c == '\\':
		return r.escaped()
	}
	return c
}

// escaped reads what follows a backslash.
func (r *reader) escaped() rune {
	c := r.next()
	switch c {
	case 'n', 't', 'r', 'v', 'f', 'N', '_', 'L', 'P', '\n', ' ':
		return ' '
	case 'x', 'u', 'U':
		for range map[rune]int{'x': 2, 'u': 4, 'U': 8}[c] {
			if !r.done() {
				r.next()
			}
		}
	}
	return c
}
