// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl is kubectl, of the version of this module's go.mod: its own command package cannot be installed from its module.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
