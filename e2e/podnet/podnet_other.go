// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package podnet

import (
	"context"
	"errors"
	"os/exec"
)

var errLinuxOnly = errors.New("pods get addresses on Linux alone")

// Run fails: there are no network namespaces here.
func Run(*exec.Cmd) (int, error) { return 1, errLinuxOnly }

// Link is nothing here.
type Link struct{}

// NewLink fails.
func NewLink(context.Context) (*Link, error) { return nil, errLinuxOnly }

// Add fails.
func (*Link) Add(context.Context, string) error { return errLinuxOnly }

// Remove fails.
func (*Link) Remove(context.Context, string) error { return errLinuxOnly }
