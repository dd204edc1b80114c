// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"

	"tributary.dev/tributary/clusters/config"
)

// addConfigFlag adds --config, which has no default: a file that is picked up
// by accident would write to a cluster by accident.
func addConfigFlag(fs *flag.FlagSet) *string {
	return fs.String("config", "", "configuration `file` (required)")
}

// openConfig reads the configuration that a command was given. On failure it has
// said why, and the exit code is returned instead.
func openConfig(command, path string, stderr io.Writer) (*config.Watcher, int) {
	if path == "" {
		fmt.Fprintf(stderr, "tributary %s: --config is missing; give the configuration file\n", command)
		return nil, exitUsage
	}
	watcher, err := config.Open(path)
	if err != nil {
		printError(stderr, command, err)
		return nil, exitUsage
	}
	return watcher, exitOK
}
