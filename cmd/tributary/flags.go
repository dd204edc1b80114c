// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// newFlagSet returns the flags of one command, with help that shows the usage
// line first.
func newFlagSet(name, args, about string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "%s\n\nUsage:\n  tributary %s %s\n\nFlags:\n", about, name, args)
		fs.PrintDefaults()
	}
	return fs
}

// parseFlags parses args and refuses positional arguments. done is true when
// the command is over, with code as its exit code: help was asked for, or the
// arguments are wrong.
func parseFlags(fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (code int, done bool) {
	if wantsHelp(args) {
		fs.SetOutput(stdout)
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, true
	case err != nil:
		return exitUsage, true
	case fs.NArg() > 0:
		fmt.Fprintf(stderr, "tributary %s: unexpected argument %q\n", fs.Name(), fs.Arg(0))
		return exitUsage, true
	}
	return exitOK, false
}

func wantsHelp(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return a == "-h" || a == "-help" || a == "--help"
	})
}

// choice is a flag that accepts a closed set of words.
type choice struct {
	value   *string
	allowed []string
}

// choiceFlag defines a flag whose value must be one of allowed; the first is
// the default.
func choiceFlag(fs *flag.FlagSet, name, about string, allowed ...string) *string {
	value := allowed[0]
	fs.Var(&choice{&value, allowed}, name, about+": "+strings.Join(allowed, " or "))
	return &value
}

func (c *choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be %s", strings.Join(c.allowed, " or "))
	}
	*c.value = s
	return nil
}
