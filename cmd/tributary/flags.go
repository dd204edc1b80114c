// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/syncer"
)

// choice is a flag that accepts a closed set of words.
type choice struct {
	value   string
	allowed []string
}

// addChoice defines a flag whose value must be one of allowed; the first is the
// default.
func addChoice(cmd *cobra.Command, name, short, about string, allowed ...string) *choice {
	c := &choice{allowed[0], allowed}
	cmd.Flags().VarP(c, name, short, about+": "+strings.Join(allowed, ", "))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Type implements pflag.Value.
func (c *choice) Type() string { return "string" }

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}

// addOutputFlag defines -o: text, and the forms for programs.
func addOutputFlag(cmd *cobra.Command) *choice {
	return addChoice(cmd, "output", "o", "output format", "text", "json", "yaml")
}

// printObject writes a value as -o json or -o yaml has it, with apiVersion and kind first.
func printObject(w io.Writer, format, kind string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return failedf("write output: %w", err)
	}
	head := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, config.APIVersion, kind)
	if len(body) > 2 {
		head = append(head, ',')
	}
	body = append(head, body[1:]...)
	var out bytes.Buffer
	if format == "yaml" {
		var text []byte
		text, err = yaml.JSONToYAML(body)
		out.Write(text)
	} else {
		err = json.Indent(&out, body, "", "  ")
		out.WriteByte('\n')
	}
	if err == nil {
		_, err = w.Write(out.Bytes())
	}
	return failed(err)
}

// addConfigFlag adds --config, which has no default: a file that is picked up
// by accident would write to a cluster by accident.
func addConfigFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().String("config", "", "configuration `file` (required)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return path
}

// openConfig reads the configuration that a command was given.
func openConfig(path string) (*config.Watcher, error) {
	if path == "" {
		return nil, misused(errors.New("--config is missing; give the configuration file"))
	}
	watcher, err := config.Open(path)
	if err != nil {
		return nil, misused(err)
	}
	return watcher, nil
}

// addClusterFlag defines --cluster, completed with the members of the running instance.
func addClusterFlag(cmd *cobra.Command, about string) *string {
	name := cmd.Flags().String("cluster", "", about)
	_ = cmd.RegisterFlagCompletionFunc("cluster", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		status, err := instanceFlagsOf(cmd).status(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return members(status), cobra.ShellCompDirectiveNoFileComp
	})
	return name
}

// parseService reads NAMESPACE/NAME.
func parseService(text string) (syncer.Key, error) {
	key, ok := syncer.ParseKey(text)
	if !ok {
		return key, misused(fmt.Errorf("%q is not NAMESPACE/NAME", text))
	}
	return key, nil
}

// completeContexts completes flags with the contexts of the kubeconfig that --kubeconfig names, or kubectl would use.
func completeContexts(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			rules := clientcmd.NewDefaultClientConfigLoadingRules()
			rules.ExplicitPath, _ = cmd.Flags().GetString("kubeconfig")
			file, err := rules.Load()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return slices.Sorted(maps.Keys(file.Contexts)), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// noArguments is for commands that have flags alone.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("it takes no argument, and %q is one", args[0])
	}
	return nil
}
