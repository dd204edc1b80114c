// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
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

// addOutputFlag defines -o: text, the forms for programs, and whatever more.
func addOutputFlag(cmd *cobra.Command, more ...string) *choice {
	return addChoice(cmd, "output", "o", "output format", append([]string{"text", "json", "yaml"}, more...)...)
}

// printObject writes a value as -o json or -o yaml has it.
func printObject(w io.Writer, format string, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	out := text.Bytes()
	if err == nil && format == "yaml" {
		out, err = yaml.JSONToYAML(out)
	}
	if err == nil {
		_, err = w.Write(out)
	}
	if err != nil {
		return failedf("write output: %w", err)
	}
	return nil
}

// versioned puts apiVersion and kind before the fields of a struct.
type versioned[T any] struct {
	APIVersion string
	Kind       string
	Object     T
}

// MarshalJSON implements json.Marshaler.
func (v versioned[T]) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(map[string]string{"apiVersion": v.APIVersion, "kind": v.Kind})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(v.Object)
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), body[1:]...), nil
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

// readSecrets adds the members that are Secrets of the ingress cluster, if the configuration wants them.
func readSecrets(ctx context.Context, watcher *config.Watcher, timeout time.Duration) (*config.Loaded, error) {
	loaded := watcher.Loaded()
	if !loaded.SecretsUnread || loaded.Ingress.REST == nil {
		return loaded, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	secrets, err := app.ReadSecrets(ctx, loaded, readBuildVersion().Version)
	if err != nil {
		return loaded, err
	}
	return watcher.Use(secrets), nil
}

// addClusterFlag defines --cluster, completed from --config where there is one.
func addClusterFlag(cmd *cobra.Command, about string) *string {
	name := cmd.Flags().String("cluster", "", about)
	_ = cmd.RegisterFlagCompletionFunc("cluster", clusterNames)
	return name
}

// addServiceFlag defines --service.
func addServiceFlag(cmd *cobra.Command, about string) *string {
	name := cmd.Flags().String("service", "", about+": `NAMESPACE/NAME`")
	_ = cmd.RegisterFlagCompletionFunc("service", serviceNames)
	return name
}

// parseService reads the value of --service; nil if there is none.
func parseService(text string) (*syncer.Key, error) {
	if text == "" {
		return nil, nil
	}
	key, ok := syncer.ParseKey(text)
	if !ok {
		return nil, misused(fmt.Errorf("--service: %q is not NAMESPACE/NAME", text))
	}
	return &key, nil
}

// clusterNames completes the names of clusters from the file that --config names.
func clusterNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return instanceNames(cmd, members)
	}
	watcher, err := config.Open(path)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range watcher.Loaded().Config.Clusters {
		names = append(names, c.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
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

// positive checks a flag that is a time to wait.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return misused(fmt.Errorf("%s: %s is no time to wait", flag, d))
	}
	return nil
}
