// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // CA roots where the machine has none, as in the image

	"tributary.dev/tributary/cmd/tributary/internal/app"
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
	args := os.Args[1:]
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl_complete-") { // kubectl asks its plugin so for completions
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	code := dispatch(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// dispatch runs the command that args name and returns its exit code.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	begun := false
	for _, c := range root.Commands() {
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			begun = true
			return run(cmd, args)
		}
	}
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	_, misused := errors.AsType[usage](err)
	if !begun { // what cobra refuses before a command begins is how it was called
		err = fmt.Errorf("%w; see \"%s --help\"", err, command.CommandPath())
	}
	fmt.Fprintf(stderr, "%s: %v\n", command.CommandPath(), err)
	if begun && !misused {
		return exitFailed
	}
	return exitUsage
}

// usage is an error in how a command was called or in its configuration.
type usage struct{ error }

// newRoot returns all commands.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "tributary",
		Short: "Carry the endpoints of many Kubernetes clusters into one ingress cluster",
		Long: "Tributary carries the endpoints of many Kubernetes clusters into one ingress cluster.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 usage or invalid configuration. Errors go to stderr.",
		SilenceUsage: true, SilenceErrors: true,
		Version: build().Version,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(
		newRunCommand(), newCheckCommand(), newPlanCommand(), newStatusCommand(), newTraceCommand(), newExplainCommand(),
		newLinkCommand(), newUnlinkCommand(), newVersionCommand(),
	)
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // so that an unknown shell is an error
	return root
}

// version and commit are set by the linker (see the Makefile); a plain `go
// build` falls back on what the toolchain recorded.
var (
	version = ""
	commit  = ""
)

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of tributary, and of what it was built with", Args: cobra.NoArgs,
	}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := build()
		text := map[string]string{"version": b.Version, "commit": b.Commit, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
		return show(cmd.OutOrStdout(), *output, text, func(p *printer) {
			p.printf("tributary %s\ncommit    %s\ngo        %s\nplatform  %s\n", text["version"], text["commit"], text["go"], text["platform"])
		})
	}
	return cmd
}

// build is what linker and toolchain know of this binary.
func build() app.Build {
	b := app.Build{Version: version, Commit: commit}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
	}
	return app.Build{Version: cmp.Or(b.Version, "(devel)"), Commit: cmp.Or(b.Commit, "unknown")}
}
