// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/cmd/tributary/internal/app"
)

// version and commit are set by the linker (see the Makefile); a plain `go
// build` falls back on what the toolchain recorded.
var (
	version = ""
	commit  = ""
)

// buildVersion is what `tributary version` prints.
type buildVersion struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Kubernetes string `json:"kubernetes"`
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of tributary and of the libraries it was built with", Args: cobra.NoArgs,
	}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := readBuildVersion()
		return show(cmd.OutOrStdout(), *output, v, func(p *printer) {
			p.printf("tributary %s\ncommit     %s\ngo         %s\nplatform   %s\nkubernetes %s (k8s.io/client-go)\n",
				v.Version, v.Commit, v.Go, v.Platform, v.Kubernetes)
		})
	}
	return cmd
}

// readBuildVersion collects what linker and toolchain know of this binary.
func readBuildVersion() buildVersion {
	v := buildVersion{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = cmp.Or(v.Commit, s.Value)
			}
		}
		for _, dep := range info.Deps {
			if dep.Path == "k8s.io/client-go" {
				v.Kubernetes = dep.Version
			}
		}
	}
	v.Version, v.Commit, v.Kubernetes = cmp.Or(v.Version, "(devel)"), cmp.Or(v.Commit, "unknown"), cmp.Or(v.Kubernetes, "unknown")
	return v
}

// appBuild is what the app says of this binary.
func appBuild() app.Build {
	v := readBuildVersion()
	return app.Build{Version: v.Version, Commit: v.Commit}
}
