// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/cmd/tributary/internal/app"
)

// newResyncCommand makes a running instance tell a sink everything anew.
func newResyncCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "resync", Short: "Let a running instance tell its sinks everything anew", Args: noArguments,
		Long:    "Let a running instance tell its sinks, the receivers outside of Kubernetes, what every Service is:\nfor a receiver that has lost what it was told. Run it where the instance runs, or with --context.",
		Example: "  tributary resync --sink slb\n  tributary resync --context ingress",
	}
	from := addInstanceFlags(cmd)
	sink := cmd.Flags().String("sink", "", "only this `sink`; without it all of them")
	_ = cmd.RegisterFlagCompletionFunc("sink", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return instanceNames(cmd, sinkNames)
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if *sink != "" {
			query.Set("sink", *sink)
		}
		done, err := tell[app.Resynced](cmd.Context(), from, app.ResyncPath, query)
		if refused, ok := errors.AsType[*complaint](err); ok && refused.status == http.StatusBadRequest {
			return cmp.Or(exists(cmd.Context(), from, *sink, sinkNames, noSink), failed(refused))
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d Services are told anew\n", done.Services)
		return failed(err)
	}
	return cmd
}
