// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// isPlugin reports whether kubectl called this process: as kubectl-tributary.
func isPlugin() bool { return strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") }

// arguments are those of a command line. For completions kubectl calls kubectl_complete-tributary.
func arguments(line []string) []string {
	if strings.HasPrefix(filepath.Base(line[0]), "kubectl_complete-") {
		return append([]string{cobra.ShellCompRequestCmd}, line[1:]...)
	}
	return line[1:]
}

// commandLine is where a text names a command.
var commandLine = regexp.MustCompile(`\btributary (run|check|plan|status|trace|explain|release|resync|link|unlink|version)\b`)

// typed is a text in which commands stand as they are typed: for kubectl's plugin, with kubectl before them.
func typed(text string) string {
	if !isPlugin() {
		return text
	}
	return commandLine.ReplaceAllString(text, "kubectl tributary $1")
}

// typedWriter writes texts so.
type typedWriter struct{ io.Writer }

func (w typedWriter) Write(text []byte) (int, error) {
	_, err := io.WriteString(w.Writer, typed(string(text)))
	return len(text), err
}

// asPlugin words the help of all commands so.
func asPlugin(root *cobra.Command) {
	if !isPlugin() {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tributary"}
	for _, c := range root.Commands() {
		c.Long, c.Example = typed(c.Long), typed(c.Example)
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = typed(f.Usage) })
	}
}
