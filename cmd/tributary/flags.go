// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/config"
)

// addChoice defines a flag whose value must be one of allowed; the first is the default.
func addChoice(cmd *cobra.Command, name, short, about string, allowed ...string) *string {
	value := allowed[0]
	about = fmt.Sprintf("%s: `%s` (default %s)", about, strings.Join(allowed, "|"), value)
	cmd.Flags().FuncP(name, short, about, func(given string) error {
		if !slices.Contains(allowed, given) {
			return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
		}
		value = given
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return &value
}

// addOutputFlag defines -o: text, and the forms for programs.
func addOutputFlag(cmd *cobra.Command) *string {
	return addChoice(cmd, "output", "o", "output format", "text", "json", "yaml")
}

// show prints a value: for people by text, for programs as -o has it.
func show(w io.Writer, format string, value any, text func(*printer)) error {
	var body []byte
	var err error
	switch format {
	case "json":
		body, err = json.MarshalIndent(value, "", "  ")
		body = append(body, '\n')
	case "yaml":
		body, err = yaml.Marshal(value)
	default:
		p := &printer{w: w}
		text(p)
		return p.err
	}
	if err == nil {
		_, err = w.Write(body)
	}
	return err
}

// addConfigFlag adds --config, which has no default: a file that is picked up
// by accident would write to a cluster by accident.
func addConfigFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().String("config", "", "configuration `file` (required)")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return path
}

// openConfig reads the configuration that a command was given.
func openConfig(path string) (*config.Watcher, error) {
	watcher, err := config.Open(path)
	if err != nil {
		return nil, usage{err}
	}
	return watcher, nil
}
