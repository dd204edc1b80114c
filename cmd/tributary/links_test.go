// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	links   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// TestLinksOfTheDocumentation: every page and headline that a page links to is there.
func TestLinksOfTheDocumentation(t *testing.T) {
	const root = "../.."
	pages := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root || entry.Name() == "bin" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		pages++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range links.FindAllStringSubmatch(string(text), -1) {
			if problem := broken(path, match[1]); problem != "" {
				t.Errorf("%s links to %s: %s", path, match[1], problem)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 10 {
		t.Errorf("only %d pages were looked at", pages)
	}
}

// broken says what is wrong with a link of a page; nothing for one to elsewhere.
func broken(page, target string) string {
	if strings.Contains(target, "://") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	path := page
	if file != "" {
		path = filepath.Join(filepath.Dir(page), file)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "no such file"
	}
	if anchor == "" || info.IsDir() {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	for _, match := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchorOf(match[1]) == anchor {
			return ""
		}
	}
	return "no such headline"
}

// anchorOf is a headline as pages on the web name it.
func anchorOf(headline string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(headline))
}

var (
	shownCommand = regexp.MustCompile("tributary ([a-z]+)\\b([^`\"\n|;]*)")
	shownFlag    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// TestShownFlagsAreThere: every flag of ours that pages, runbooks, alerts, examples or the chart's notes show is one.
func TestShownFlagsAreThere(t *testing.T) {
	shown := 0
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md", "deploy/helm/*/templates/*", "deploy/helm/*/values.yaml", "deploy/prometheus/alerts.yaml", "deploy/mixin/*.go", "cmd/tributary/*.go", "cmd/tributary/internal/*/*.go"} {
		paths, err := filepath.Glob("../../" + pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range shownCommand.FindAllStringSubmatch(string(text), -1) {
				command, _, err := newRoot().Find([]string{match[1]})
				if err != nil || command.Name() != match[1] {
					continue // a word of a sentence
				}
				for _, flag := range shownFlag.FindAllStringSubmatch(match[2], -1) {
					if shown++; command.Flags().Lookup(flag[1]) == nil && flag[1] != "help" {
						t.Errorf("%s: %q: there is no --%s", path, match[0], flag[1])
					}
				}
			}
		}
	}
	if shown < 50 {
		t.Errorf("only %d flags were looked at", shown)
	}
}
