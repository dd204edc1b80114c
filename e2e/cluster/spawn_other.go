// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

import "syscall"

// dieWithParent does nothing where the kernel has no such signal; the pipe does the work.
func dieWithParent(*syscall.SysProcAttr) {}
