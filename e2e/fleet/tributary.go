// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
)

// TributaryOptions says how to run tributary. Only Config must be given.
type TributaryOptions struct {
	// Binary is the executable; by default BuildTributary.
	Binary string
	// Config is the configuration file, e.g. from Fleet.WriteConfig.
	Config string
	// Dir receives the log; by default the directory of Config.
	Dir string
	// Args come after `run --config FILE`; Env is added to this process's environment.
	Args, Env []string
	// Container are all arguments, in place of those; then Env is the whole environment.
	Container []string
}

// Tributary is a `tributary run` process: stop, kill, freeze and restart it as any other.
type Tributary struct {
	*cluster.Process
	// URL is the HTTP address from the configuration file, as it was when the process was first started.
	URL string

	http *http.Client
}

// defaultListen is where tributary listens if its configuration does not say.
const defaultListen = "127.0.0.1:9440"

// StartTributary starts `tributary run` and returns at once; use WaitReady. It ends when it is stopped or killed, or with
// this process.
func StartTributary(ctx context.Context, o TributaryOptions) (*Tributary, error) {
	if o.Binary == "" {
		binary, err := BuildTributary(ctx, false)
		if err != nil {
			return nil, err
		}
		o.Binary = binary
	}
	if o.Dir == "" {
		o.Dir = filepath.Dir(o.Config)
	}
	listen, err := listenAddress(o.Config)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(o.Dir, "tributary-*.log")
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("start tributary: %w", err)
	}
	args := o.Container
	if args == nil {
		args = append([]string{"run", "--config", o.Config}, o.Args...)
	}
	t := &Tributary{
		Process: cluster.NewProcess(cluster.ProcessOptions{Name: "tributary", Path: o.Binary, Args: args, Env: o.Env, OnlyEnv: o.Container != nil, Log: log.Name()}),
		URL:     "http://" + listen,
		// A connection kept open across a restart would only bring errors; the requests are few.
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	return t, t.Start(ctx)
}

// StartReady starts tributary and waits until it is ready; one that does not become so is killed.
func StartReady(ctx context.Context, o TributaryOptions) (*Tributary, error) {
	t, err := StartTributary(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := t.WaitReady(ctx); err != nil {
		t.Kill()
		return nil, err
	}
	return t, nil
}

// listenAddress reads where a configuration file lets tributary listen.
func listenAddress(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("start tributary: %w", err)
	}
	var config struct {
		Listen string `json:"listen"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("start tributary: %s: %w", path, err)
	}
	return cmp.Or(config.Listen, defaultListen), nil
}

// Get returns the body of an answer of 200 from tributary's HTTP address, or an error.
func (t *Tributary) Get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %.300s", path, resp.Status, body)
	}
	return body, nil
}

// readyLimit bounds WaitReady if the context does not: tributary does not let an unreachable member hold readiness
// longer than 15 s, and the machine may be busy.
const readyLimit = time.Minute

// WaitReady returns when /readyz answers 200, or with an error as soon as the process has ended.
func (t *Tributary) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := t.Done()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends with this call
		select {
		case <-done:
			cancel(errors.New("the process has ended"))
		case <-stop:
		}
	}()
	err := Eventually(ctx, readyLimit, func(ctx context.Context) error {
		_, err := t.Get(ctx, "/readyz")
		return err
	})
	if err != nil {
		return fmt.Errorf("tributary is not ready: %w\n%s", err, t.Tail(30))
	}
	return nil
}
