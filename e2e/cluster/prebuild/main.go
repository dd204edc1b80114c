// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command prebuild builds the cluster binary, if this machine does not have it yet, and prints its path. `go test` shows
// the output of a package only when the package has ended, so a build inside a test would look like a hang; running this
// first shows that it is alive.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"tributary.dev/tributary/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := cluster.Binary(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
