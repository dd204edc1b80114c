// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// isolate runs this program once more, with one argument more, in a network
// namespace of its own, where pods can have their addresses, and returns its exit
// code. Whoever is not root gets a user namespace around it.
func isolate(argument string) (code int, err error) {
	runtime.LockOSThread() // the child gets its signal when this thread ends
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	child := exec.Command(self, append(os.Args[1:], argument)...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Getuid(); uid != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := child.Start(); err != nil {
		return 1, fmt.Errorf("run in a network namespace of its own: %w; be root, allow user namespaces, or give -discovery=false", err)
	}
	err = child.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// podLink is the interface that has the pods' addresses.
type podLink struct{ name string }

// newPodLink brings the loopback up and adds a dummy interface, for whose lack in
// the kernel the loopback stands in.
func newPodLink(ctx context.Context) (*podLink, error) {
	if err := ip(ctx, "link", "set", "lo", "up"); err != nil {
		return nil, err
	}
	if ip(ctx, "link", "add", "pods", "type", "dummy") != nil {
		return &podLink{"lo"}, nil
	}
	return &podLink{"pods"}, ip(ctx, "link", "set", "pods", "up")
}

func (l *podLink) add(ctx context.Context, address string) error {
	return ip(ctx, "address", "add", address+"/32", "dev", l.name)
}

func (l *podLink) remove(ctx context.Context, address string) error {
	return ip(ctx, "address", "del", address+"/32", "dev", l.name)
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q (of iproute2): %w: %s", args, err, out)
	}
	return nil
}
