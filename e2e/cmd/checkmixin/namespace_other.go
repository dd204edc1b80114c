// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"
	"errors"
)

var errLinuxOnly = errors.New("pods get addresses on Linux alone; give -discovery=false")

func isolate(string) (int, error) { return 1, errLinuxOnly }

type podLink struct{}

func newPodLink(context.Context) (*podLink, error)    { return nil, errLinuxOnly }
func (*podLink) add(context.Context, string) error    { return errLinuxOnly }
func (*podLink) remove(context.Context, string) error { return errLinuxOnly }
