// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Run runs a command in an isolated network namespace of its own, and returns its exit code. Without root there is a
// user namespace around it. The command gets SIGTERM if this process ends.
func Run(cmd *exec.Cmd) (code int, err error) {
	runtime.LockOSThread() // the child gets its signal when this thread ends
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("run in a network namespace of its own: %w; be root, or allow user namespaces", err)
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// Link is the interface that has the pods' addresses.
type Link struct{ name string }

// NewLink brings the loopback up and adds a dummy interface; without support in the kernel it uses the loopback.
func NewLink(ctx context.Context) (*Link, error) {
	if err := ip(ctx, "link", "set", "lo", "up"); err != nil {
		return nil, err
	}
	if ip(ctx, "link", "add", "pods", "type", "dummy") != nil {
		return &Link{"lo"}, nil
	}
	return &Link{"pods"}, ip(ctx, "link", "set", "pods", "up")
}

// Add adds an address to the interface.
func (l *Link) Add(ctx context.Context, address string) error {
	return ip(ctx, "address", "add", address+"/32", "dev", l.name)
}

// Remove removes an address.
func (l *Link) Remove(ctx context.Context, address string) error {
	return ip(ctx, "address", "del", address+"/32", "dev", l.name)
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q (Debian: apt-get install iproute2): %w: %s", args, err, out)
	}
	return nil
}
