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
	result, ok := errors.AsType[*exit](err)
	if !ok { // cobra's own: what it refuses before a command begins is how it was called
		result = &exit{code: exitUsage, err: fmt.Errorf("%w; see \"%s --help\"", err, command.CommandPath())}
	}
	if result.err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", command.CommandPath(), result.err)
	}
	return result.code
}

// newRoot returns all commands.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "tributary",
		Short: "Carry the endpoints of many Kubernetes clusters into one ingress cluster",
		Long: "Tributary carries the endpoints of many Kubernetes clusters into one ingress cluster.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 usage or invalid configuration. Errors go to stderr.",
		SilenceUsage: true, SilenceErrors: true,
		RunE:    nothingToRun,
		Version: readBuildVersion().Version,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(
		newRunCommand(), newCheckCommand(), newPlanCommand(), newStatusCommand(), newTraceCommand(), newExplainCommand(),
		newLinkCommand(), newUnlinkCommand(), newVersionCommand(),
	)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() { // cobra's own takes a word that it does not know for a question
		if c.HasSubCommands() {
			c.Args, c.RunE = cobra.NoArgs, nothingToRun
		}
	}
	return root
}

// nothingToRun is what a command does of which only those below it do anything.
func nothingToRun(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	_ = cmd.Help() // to stderr, which has nowhere else to complain
	return &exit{code: exitUsage}
}

// exit is how a command ended when not well.
type exit struct {
	code int
	// err is what to say; nil: it has been said.
	err error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// misused is an error in how a command was called, or in its configuration.
func misused(err error) error { return &exit{exitUsage, err} }

// failed is an error of what a command did; nil stays nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exit{exitFailed, err}
}

// failedf is failed with a message.
func failedf(format string, args ...any) error { return failed(fmt.Errorf(format, args...)) }
