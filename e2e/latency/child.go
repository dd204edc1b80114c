// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"context"
	"io"
	"os"
	"os/exec"
)

// Child is this program once more, as an arm of its own: a process as tributary is one.
type Child struct {
	// Output is what it prints.
	Output io.Reader

	cmd   *exec.Cmd
	input io.Closer
}

// StartChild starts this program with other arguments.
func StartChild(ctx context.Context, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &Child{Output: output, cmd: cmd, input: input}, cmd.Start()
}

// PID is its process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// End closes its standard input, at the end of which it ends: it cannot outlive its parent.
func (c *Child) End() error {
	c.input.Close()
	return c.cmd.Wait()
}
