// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// A child must not outlive this process, however it ends. Two mechanisms, because each has a gap:
//
//   - The kernel kills the child when the thread that started it ends (Linux). This also ends a child that is frozen, or
//     that knows nothing of us. The signal is bound to the thread, and the Go runtime ends threads at will, so all
//     children are started by one goroutine that owns its thread for the life of the process.
//   - The servers hold the reading end of a pipe and exit at its end. This works where the kernel has no such signal.

// lifelineEnv tells a server which descriptor is the reading end of the pipe; cmd/kubeground reads it.
const lifelineEnv = "KUBEGROUND_LIFELINE_FD"

// lifeline returns the pipe. Both ends are closed in children by default, so that the pipe ends with this process. The
// reference here prevents that the writing end is collected, and so closed, before.
var lifeline = sync.OnceValues(func() (pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return pipe{}, fmt.Errorf("create the pipe that servers watch: %w", err)
	}
	return pipe{reader: r, writer: w}, nil
})

type pipe struct{ reader, writer *os.File }

// spawner returns the queue of the goroutine that starts children. That goroutine deliberately has no end: ending it
// would end its thread, and with it every child.
var spawner = sync.OnceValue(func() chan<- func() {
	queue := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range queue {
			start()
		}
	}()
	return queue
})

// spawn starts cmd as a child that ends with this process. It is in a process group of its own, so that Ctrl-C in a
// terminal reaches only us, and we can shut down in order.
func spawn(cmd *exec.Cmd, withLifeline bool) error {
	if withLifeline {
		p, err := lifeline()
		if err != nil {
			return err
		}
		cmd.ExtraFiles = []*os.File{p.reader}
		cmd.Env = append(cmd.Environ(), lifelineEnv+"=3")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	result := make(chan error)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}
