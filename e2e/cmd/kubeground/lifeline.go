// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
)

// lifelineEnv names the file descriptor of a pipe whose writing end only the parent holds. The kernel closes that end
// when the parent ends, however it ends, and the server ends with it: a test that was killed leaves nothing behind.
// Without the variable a server lives until it is told to stop.
const lifelineEnv = "KUBEGROUND_LIFELINE_FD"

// watchLifeline starts the goroutine that ends this process at the end of the pipe; it lives as long as the process.
func watchLifeline() error {
	value, set := os.LookupEnv(lifelineEnv)
	if !set {
		return nil
	}
	fd, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return fmt.Errorf("%s: want a file descriptor, got %q", lifelineEnv, value)
	}
	pipe := os.NewFile(uintptr(fd), "lifeline")
	if _, err := pipe.Stat(); err != nil {
		return fmt.Errorf("%s: descriptor %d: %w", lifelineEnv, fd, err)
	}
	go func() {
		// Nothing is ever written: the read returns only at the end of the pipe.
		_, _ = io.Copy(io.Discard, pipe)
		fmt.Fprintln(os.Stderr, "kubeground: the parent is gone, ending")
		os.Exit(3)
	}()
	return nil
}
