// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	longestSentence = 20 // words
	glossaryWords   = 12
)

var (
	headlines = regexp.MustCompile(`(?m)^#+ .*$`)
	fenced    = regexp.MustCompile("(?s)```.*?```")
	blocks    = regexp.MustCompile(`\n\s*\n|\n(?:\s*[-*] |#+ |\d+\. |\|)`)
	fullStops = regexp.MustCompile(`[.!?](?:\s|$)`)
	words     = regexp.MustCompile("[A-Za-z0-9`'_./{}=*-]*[A-Za-z0-9][A-Za-z0-9`'_./{}=*-]*")
)

// longSentences are those of a page, outside of code, that have too many words. Cells of tables count each by itself.
func longSentences(text string) (found []string) {
	text = headlines.ReplaceAllString(fenced.ReplaceAllString(text, ""), "\n") // what follows is another sentence
	for _, block := range blocks.Split(strings.ReplaceAll(text, "**", ""), -1) {
		for cell := range strings.SplitSeq(strings.Join(strings.Fields(block), " "), "|") {
			for _, sentence := range fullStops.Split(cell, -1) {
				if len(words.FindAllString(sentence, -1)) > longestSentence {
					found = append(found, sentence)
				}
			}
		}
	}
	return found
}

// TestSentencesAreShort holds what is written for users to sentences that are read once.
func TestSentencesAreShort(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	below, inner := filepath.Glob("../../docs/*/*.md") // runbooks, and the references, which are made from comments
	if pages = append(pages, below...); err != nil || inner != nil || len(pages) < 35 {
		t.Fatalf("%d pages, %v, %v", len(pages), err, inner)
	}
	for _, path := range append(pages, "../../README.md", "../../CHANGELOG.md", "../../CONTRIBUTING.md", "../../SECURITY.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := longSentences(string(text)); len(found) > 0 {
			t.Errorf("%s has %d sentences of more than %d words:\n%s", path, len(found), longestSentence, strings.Join(found, "\n"))
		}
	}
}

// TestGlossaryIsShort: a word that needs an entry is a word to do without.
func TestGlossaryIsShort(t *testing.T) {
	text, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && strings.Trim(cells[1], " -") != "" && strings.TrimSpace(cells[1]) != "word" {
			count += 1 + strings.Count(cells[1], ",") + strings.Count(cells[1], "/")
		}
	}
	if count > glossaryWords || count < 5 {
		t.Errorf("the glossary has %d words, %d are allowed", count, glossaryWords)
	}
}
