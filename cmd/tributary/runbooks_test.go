// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tributary.dev/tributary/metrics"
)

var (
	typedLine   = regexp.MustCompile("(?m)^\\s*tributary ([^#\n]*)|`tributary ([^`\n]*)`")
	reasonsOf   = regexp.MustCompile(`Reason = "(\w+)"`)
	conflictsOf = regexp.MustCompile("`(\\w+)` \\(")
)

// TestCommandsInPagesExist: what a page has somebody type is a command, and has these flags.
func TestCommandsInPagesExist(t *testing.T) {
	pages, _ := filepath.Glob("../../docs/*.md")
	runbooks, _ := filepath.Glob("../../docs/runbooks/*.md")
	seen := 0
	for _, path := range append(append(pages, runbooks...), "../../README.md") {
		for _, match := range typedLine.FindAllStringSubmatch(readPage(t, path), -1) {
			args := strings.Fields(match[1] + match[2])
			if len(args) == 0 || strings.ContainsAny(strings.Join(args, " "), "…[<|") {
				continue
			}
			cmd, rest, err := newRoot().Find(args)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil && err != pflag.ErrHelp {
				t.Errorf("%s: tributary %s: %v", path, strings.Join(args, " "), err)
			}
			seen++
		}
	}
	if seen < 50 {
		t.Errorf("%d commands found", seen)
	}
}

// TestReasonsHaveRunbooks: what status and metrics give as a reason, the page of its alert says what to do about.
func TestReasonsHaveRunbooks(t *testing.T) {
	const runbooks = "../../docs/runbooks/"
	var held, conflicts []string
	for _, r := range metrics.HoldReasons() {
		held = append(held, r.Name)
	}
	for _, f := range metrics.Families() {
		if f.Name == "conflicts" {
			for _, match := range conflictsOf.FindAllStringSubmatch(f.Values, -1) {
				conflicts = append(conflicts, match[1])
			}
		}
	}
	members := []string{}
	for _, match := range reasonsOf.FindAllStringSubmatch(readPage(t, "../../clusters/evidence/health.go"), -1) {
		members = append(members, match[1])
	}
	for _, test := range []struct {
		pages   []string
		reasons []string
		least   int
	}{
		{[]string{runbooks + "TributaryChangesHeld.md"}, held, 14},
		{[]string{runbooks + "TributaryConflict.md"}, conflicts, 8},
		{[]string{runbooks + "TributaryMemberUnreachable.md", runbooks + "TributaryMemberNotSynced.md", runbooks + "TributaryChangesHeld.md"}, members, 10},
	} {
		text := ""
		for _, page := range test.pages {
			text += readPage(t, page)
		}
		for _, reason := range test.reasons {
			if !strings.Contains(text, "`"+reason+"`") {
				t.Errorf("%v do not speak of %s", test.pages, reason)
			}
		}
		if len(test.reasons) < test.least {
			t.Errorf("%v: reasons %q", test.pages, test.reasons)
		}
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
