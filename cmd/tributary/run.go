// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
)

// newRunCommand replicates until the process is told to end.
func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run --config FILE", Short: "Replicate the members' endpoints into the ingress cluster until SIGTERM", Args: noArguments,
		Example: "  tributary run --config tributary.yaml\n  tributary run --config tributary.yaml --log-format json -v 1",
	}
	path, logs := addConfigFlag(cmd), addLogFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		if err := usable(watcher.Loaded()); err != nil {
			return misused(err)
		}
		logger := logs.newLogger(cmd.ErrOrStderr())
		return failed(app.Run(cmd.Context(), watcher, app.Options{Path: *path, Build: appBuild(), Logger: logger}))
	}
	return cmd
}

// usable reports why run cannot start with these files: the kubeconfig of the ingress
// cluster is refused, or every member's. A refused kubeconfig among good ones concerns its
// member alone, and so it does where members come from Secrets: those are not known before
// the ingress cluster is asked.
func usable(loaded *config.Loaded) error {
	if loaded.Ingress.REST == nil {
		return loaded.Ingress.Err
	}
	if len(loaded.Members) == 0 || loaded.Config.ClustersFrom.Secrets != nil {
		return nil
	}
	var refused []error
	for _, c := range loaded.Config.Clusters {
		access := loaded.Members[c.Name]
		if access.REST != nil {
			return nil
		}
		refused = append(refused, access.Err)
	}
	return errors.Join(refused...)
}

// appBuild is what the app says of this binary.
func appBuild() app.Build {
	v := readBuildVersion()
	return app.Build{Version: v.Version, Commit: v.Commit}
}
