// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// ProcessOptions describes a child process that can be started again and again.
type ProcessOptions struct {
	// Name is its name in errors, e.g. "idc-a/kube-apiserver".
	Name string
	// Path is the executable, Args are its arguments without its name.
	Path string
	Args []string
	// Env is added to the environment of this process, or is the whole environment with OnlyEnv.
	Env     []string
	OnlyEnv bool
	// Log is the file that receives stdout and stderr; restarts append to it.
	Log string
	// Ready is called after a start until it returns nil. A nil Ready means ready at once.
	Ready func(context.Context) error
	// Ground marks an executable of cmd/kubeground, which also watches the pipe of spawn.go.
	Ground bool
	// TermIsClean makes an end by SIGTERM itself a clean one for Stop: etcd cleans up, then raises the signal again, and
	// kube-controller-manager does not catch it.
	TermIsClean bool
}

// Process is a child process. Its methods may be called from any goroutine; Start, Stop, Kill and Restart one at a time.
type Process struct {
	options ProcessOptions

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil before the first start
	done   chan struct{} // closed when cmd has ended and was reaped
	exit   error         // what cmd.Wait said; valid once done is closed
	frozen bool
}

// NewProcess returns a process that has not been started.
func NewProcess(o ProcessOptions) *Process { return &Process{options: o} }

var (
	errExitZero   = errors.New("exit status 0")
	errNeverAsked = errors.New("no time to ask")
)

const readyPoll = 10 * time.Millisecond

// Start starts the process and waits until it is ready, it ends, or ctx is done; in the last case it is killed.
func (p *Process) Start(ctx context.Context) error {
	done, err := p.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.options.Name, err)
	}
	if p.options.Ready == nil {
		return nil
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-done:
			return fmt.Errorf("start %s: it ended before it was ready: %w\n%s", p.options.Name, cmp.Or(p.ExitErr(), errExitZero), p.Tail(20))
		case <-ctx.Done():
			p.Kill()
			return fmt.Errorf("start %s: %w: not ready: %w\n%s", p.options.Name, context.Cause(ctx), cmp.Or(last, errNeverAsked), p.Tail(20))
		case <-tick.C:
			try, cancel := context.WithTimeout(ctx, 2*time.Second)
			last = p.options.Ready(try)
			cancel()
			if last == nil {
				return nil
			}
		}
	}
}

func (p *Process) launch() (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return nil, errors.New("it is running already")
	}
	log, err := os.OpenFile(p.options.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child holds its own descriptor
	cmd := exec.Command(p.options.Path, p.options.Args...)
	if cmd.Env = p.options.Env; !p.options.OnlyEnv {
		cmd.Env = append(os.Environ(), p.options.Env...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := spawn(cmd, p.options.Ground); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	p.cmd, p.done, p.exit, p.frozen = cmd, done, nil, false
	go func() { // ends with the child
		err := cmd.Wait()
		p.mu.Lock()
		p.exit = err
		p.mu.Unlock()
		close(done)
	}()
	return done, nil
}

// Stop terminates the process (SIGTERM, after a thaw if it is frozen) and waits. It returns an error if the process
// does not end with code 0, or, having killed it, if ctx is done first. Stopping what does not run is no error.
func (p *Process) Stop(ctx context.Context) error {
	if !p.Running() {
		return nil
	}
	if err := p.Thaw(); err != nil {
		return err
	}
	_ = p.signal(syscall.SIGTERM) // fails only if it has just ended
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stop %s: %w, killed it", p.options.Name, context.Cause(ctx))
	}
	err := p.ExitErr()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && p.options.TermIsClean {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", p.options.Name, err)
	}
	return nil
}

// Kill ends the process with SIGKILL and returns when it is gone. It works on a frozen one too.
func (p *Process) Kill() {
	if p.Running() {
		_ = p.signal(syscall.SIGKILL)
		<-p.Done()
	}
}

// Restart stops the process gracefully if it runs, and starts it again.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Freeze suspends the process (SIGSTOP): its connections stay open and nothing answers. It returns when every thread
// has stopped.
func (p *Process) Freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze %s: %w", p.options.Name, err)
	}
	p.mu.Lock()
	p.frozen = true
	pid := p.cmd.Process.Pid
	p.mu.Unlock()
	if err := awaitStopped(pid); err != nil {
		return fmt.Errorf("freeze %s: %w", p.options.Name, err)
	}
	return nil
}

// Thaw lets a frozen process continue; it does nothing to one that is not frozen.
func (p *Process) Thaw() error {
	p.mu.Lock()
	frozen := p.frozen
	p.frozen = false
	p.mu.Unlock()
	if !frozen {
		return nil
	}
	if err := p.signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("thaw %s: %w", p.options.Name, err)
	}
	return nil
}

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(s)
}

// Running reports whether the process was started and has not ended; a frozen one runs.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked()
}

func (p *Process) runningLocked() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Done is closed when the process that was started last has ended. It is nil before the first start.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// ExitErr returns how the process ended last: nil for code 0 (and while it runs), else an *exec.ExitError.
func (p *Process) ExitErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// PID is the process id of the last start, 0 before it.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Name is the name in the options.
func (p *Process) Name() string { return p.options.Name }

// Log is the path of the file with stdout and stderr of all starts.
func (p *Process) Log() string { return p.options.Log }

// Tail returns the last n lines of the log, or the reason why it cannot be read.
func (p *Process) Tail(n int) string { return Tail(p.options.Log, n) }

// Tail returns the last n lines of a file, of its last 64 kB at most, or the reason why it cannot be read.
func Tail(path string, n int) string {
	const window = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	size := min(info.Size(), window)
	text := make([]byte, size)
	if _, err := f.ReadAt(text, info.Size()-size); err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
