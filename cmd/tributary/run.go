// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics/record"
)

// newRunCommand replicates until the process is told to end.
func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run --config FILE", Short: "Replicate the members' endpoints into the ingress cluster until SIGTERM", Args: noArguments,
		Example: "  tributary run --config tributary.yaml\n  tributary run --config tributary.yaml --log-format json -v 1",
	}
	path, logs := addConfigFlag(cmd), addLogFlags(cmd)
	records := cmd.Flags().Int("records", record.DefaultRecords, "how many change records are remembered for trace, the page and exported traces; 0: none, and none is logged")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *records < 0 {
			return misused(fmt.Errorf("--records: %d is less than 0", *records))
		}
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		loaded := watcher.Loaded()
		if err := usable(loaded); err != nil {
			return misused(err)
		}
		logger := logs.newLogger(cmd.ErrOrStderr())
		for _, fault := range loaded.Faults() {
			logger.Error("kubeconfig refused, this cluster waits until it is mended", "error", fault)
		}
		return failed(app.Run(cmd.Context(), watcher, app.Options{Path: *path, Build: appBuild(), Records: *records, Logger: logger}))
	}
	return cmd
}

// usable reports why run cannot start with these files: the kubeconfig of the ingress
// cluster is refused, or every member's, or the certificate to serve with. A refused
// kubeconfig among good ones concerns its member alone, and so it does where members
// come from Secrets: those are not known before the ingress cluster is asked.
func usable(loaded *config.Loaded) error {
	if loaded.Ingress.REST == nil {
		return loaded.Ingress.Err
	}
	if loaded.Metrics.TLS == nil && loaded.Metrics.Err != nil {
		return loaded.Metrics.Err
	}
	if len(loaded.Members) == 0 || loaded.Config.ClustersFrom.Secrets != nil {
		return nil
	}
	for _, access := range loaded.Members {
		if access.REST != nil {
			return nil
		}
	}
	return loaded.Faults()
}

// appBuild is what the app says of this binary.
func appBuild() app.Build {
	v := readBuildVersion()
	return app.Build{Version: v.Version, Commit: v.Commit}
}
