// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// command is one subcommand: its name, a line for the overview and its entry
// point, which returns an exit code.
type command struct {
	name  string
	about string
	run   func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

// commands lists the subcommands in the order in which help shows them.
func commands() []command {
	return []command{
		{"run", "replicate endpoints until SIGTERM", runCommand},
		{"check", "validate a configuration and reach every cluster", checkCommand},
		{"plan", "show what run would write, writing nothing", planCommand},
		{"status", "show the state of a running instance", statusCommand},
		{"release", "let pass what a running instance holds back", releaseCommand},
		{"trace", "show the changes of a running instance", traceCommand},
		{"version", "print version information", versionCommand},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal must kill a process that hangs in its shutdown.
	context.AfterFunc(ctx, stop)
	code := dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// dispatch runs the command that args name.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	name := args[0]
	switch name {
	case "help", "-h", "-help", "--help":
		if len(args) > 1 {
			return dispatch(ctx, []string{args[1], "-h"}, stdout, stderr)
		}
		usage(stdout)
		return exitOK
	case "--version":
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "tributary: unknown command %q; run \"tributary help\" for the list\n", args[0])
	return exitUsage
}

func usage(w io.Writer) {
	var b strings.Builder
	b.WriteString("Tributary carries the endpoints of many Kubernetes clusters into one ingress cluster.\n\nUsage:\n  tributary COMMAND [flags]\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-9s %s\n", c.name, c.about)
	}
	b.WriteString("\nRun \"tributary COMMAND -h\" for the flags of a command.\nExit codes: 0 done, 1 failed, 2 usage or invalid configuration.\n")
	io.WriteString(w, b.String())
}
