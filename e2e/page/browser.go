// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// BrowserEnv names the environment variable with the browser's executable, for one that is not in the PATH.
const BrowserEnv = "TRIBUTARY_CHROMIUM"

// ErrNoBrowser tells how to get a browser.
var ErrNoBrowser = errors.New("no Chromium found in the PATH; install it (Debian: apt-get install chromium) or name its executable in " + BrowserEnv)

// FindBrowser returns the path of a Chromium, or ErrNoBrowser.
func FindBrowser() (string, error) {
	if path := os.Getenv(BrowserEnv); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoBrowser
}

// Browser is a running headless Chromium. Its methods are safe for concurrent use.
type Browser struct {
	cmd      *exec.Cmd
	toward   *os.File
	reading  sync.WaitGroup
	mu       sync.Mutex
	next     int
	answers  map[int]chan message
	sessions map[string]*Tab
	gone     error
}

// message is any message of the DevTools protocol.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts the browser with a new profile in dir, which must be empty. It makes no requests but for what a test
// opens. Close ends it.
func Start(executable, dir string) (*Browser, error) {
	fromUs, toward, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the browser: %w", err)
	}
	back, fromIt, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the browser: %w", err)
	}
	cmd := exec.Command(executable, "--headless", "--remote-debugging-pipe", "--user-data-dir="+dir,
		"--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--hide-scrollbars", "--force-color-profile=srgb", "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, fromIt}
	// Its helper processes are in its group, so that one signal ends them all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	fromUs.Close()
	fromIt.Close()
	if err != nil {
		toward.Close()
		back.Close()
		return nil, fmt.Errorf("start the browser: %w", err)
	}
	b := &Browser{cmd: cmd, toward: toward, answers: map[int]chan message{}, sessions: map[string]*Tab{}}
	b.reading.Go(func() { b.read(back) })
	return b, nil
}

// Close ends the browser and returns when it is gone.
func (b *Browser) Close() {
	b.toward.Close()
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
	_ = b.cmd.Wait()
	b.reading.Wait()
}

// read dispatches messages until the browser is gone.
func (b *Browser) read(from *os.File) {
	defer from.Close()
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			b.end(err)
			return
		}
		// Params is decoded by its reader.
		var m struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m); err != nil {
			b.end(err)
			return
		}
		b.mu.Lock()
		answer, tab := b.answers[m.ID], b.sessions[m.Session]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m.message
		case tab != nil && m.Method != "":
			tab.event(m.Method, m.Params)
		}
	}
}

func (b *Browser) end(err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("the browser is gone")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = err
	for id, answer := range b.answers {
		delete(b.answers, id)
		close(answer)
	}
}

// call sends a command and decodes its result into out, unless out is nil.
func (b *Browser) call(ctx context.Context, session, method string, params, out any) error {
	answer := make(chan message, 1)
	b.mu.Lock()
	if b.gone != nil {
		b.mu.Unlock()
		return fmt.Errorf("%s: %w", method, b.gone)
	}
	b.next++
	id := b.next
	b.answers[id] = answer
	text, err := json.Marshal(message{ID: id, Session: session, Method: method, Params: params})
	if err == nil {
		_, err = b.toward.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser is gone", method)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, strings.TrimSpace(m.Error.Message))
		case out != nil:
			return json.Unmarshal(m.Result, out)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}
