// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // CA roots where the machine has none, as in the image
)

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal must kill a process that hangs in its shutdown.
	context.AfterFunc(ctx, stop)
	code := dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// dispatch runs the command that args name and returns its exit code.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	_, failed := errors.AsType[failure](err)
	_, misused := errors.AsType[usage](err)
	if !failed { // cobra's own: what it refuses before a command begins is how it was called
		err = fmt.Errorf("%w; see \"%s --help\"", err, command.CommandPath())
	}
	fmt.Fprintf(stderr, "%s: %v\n", command.CommandPath(), err)
	if failed && !misused {
		return exitFailed
	}
	return exitUsage
}

// failure is the error of a command that has begun, and usage one in how it was called or in
// its configuration.
type (
	failure struct{ error }
	usage   struct{ error }
)

// Unwrap implements the interface of package errors.
func (f failure) Unwrap() error { return f.error }

// Unwrap implements the interface of package errors.
func (u usage) Unwrap() error { return u.error }

// newRoot returns all commands.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "tributary",
		Short: "Carry the endpoints of many Kubernetes clusters into one ingress cluster",
		Long: "Tributary carries the endpoints of many Kubernetes clusters into one ingress cluster.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 usage or invalid configuration. Errors go to stderr.",
		SilenceUsage: true, SilenceErrors: true,
		Version: readBuildVersion().Version,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(
		newRunCommand(), newCheckCommand(), newPlanCommand(), newStatusCommand(), newTraceCommand(), newExplainCommand(),
		newLinkCommand(), newUnlinkCommand(), newVersionCommand(),
	)
	for _, c := range root.Commands() {
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := run(cmd, args); err != nil {
				return failure{err}
			}
			return nil
		}
	}
	return root
}
