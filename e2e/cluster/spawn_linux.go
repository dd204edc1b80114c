// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "syscall"

// dieWithParent asks the kernel to kill the child when the thread that starts it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
