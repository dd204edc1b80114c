// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Look is how a page is displayed.
type Look struct {
	// Width and Height are the window's, in CSS pixels.
	Width, Height int
	Phone, Dark   bool
	// NoScript disables JavaScript.
	NoScript bool
}

// Tab is one page in a browser.
type Tab struct {
	browser *Browser
	session string
	loaded  chan struct{}

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// Open opens a URL in a new tab, and waits until it is loaded.
func (b *Browser) Open(ctx context.Context, url string, look Look) (*Tab, error) {
	var target struct {
		ID string `json:"targetId"`
	}
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	attach := map[string]any{"targetId": target.ID, "flatten": true}
	if err := b.call(ctx, "", "Target.attachToTarget", attach, &session); err != nil {
		return nil, err
	}
	t := &Tab{browser: b, session: session.ID, loaded: make(chan struct{}, 8)}
	b.mu.Lock()
	b.sessions[session.ID] = t
	b.mu.Unlock()
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	for _, step := range []struct {
		method string
		params any
	}{
		{"Page.enable", nil}, {"Runtime.enable", nil}, {"Log.enable", nil}, {"Network.enable", nil},
		{"Emulation.setDeviceMetricsOverride", map[string]any{"width": look.Width, "height": look.Height, "deviceScaleFactor": 1, "mobile": look.Phone}},
		{"Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}},
		{"Emulation.setScriptExecutionDisabled", map[string]any{"value": look.NoScript}},
	} {
		if err := t.call(ctx, step.method, step.params, nil); err != nil {
			return nil, err
		}
	}
	return t, t.Go(ctx, url)
}

func (t *Tab) call(ctx context.Context, method string, params, out any) error {
	return t.browser.call(ctx, t.session, method, params, out)
}

// Go opens another URL and waits until it is loaded.
func (t *Tab) Go(ctx context.Context, url string) error {
	t.forgetLoads()
	var answer struct {
		Error string `json:"errorText"`
	}
	if err := t.call(ctx, "Page.navigate", map[string]any{"url": url}, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("open %s: %s", url, answer.Error)
	}
	return t.waitLoad(ctx)
}

// Leave runs a script that navigates the page elsewhere, and waits until that is loaded.
func (t *Tab) Leave(ctx context.Context, script string) error {
	t.forgetLoads()
	if err := t.Eval(ctx, script, nil); err != nil {
		return err
	}
	return t.waitLoad(ctx)
}

func (t *Tab) forgetLoads() {
	for {
		select {
		case <-t.loaded:
		default:
			return
		}
	}
}

func (t *Tab) waitLoad(ctx context.Context) error {
	select {
	case <-t.loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the page: %w", context.Cause(ctx))
	}
}

// Eval evaluates a script, waits for its promise, and decodes its value into out unless that is nil. It works with
// JavaScript disabled for the page, too.
func (t *Tab) Eval(ctx context.Context, script string, out any) error {
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text   string `json:"text"`
			Detail struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	params := map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}
	if err := t.call(ctx, "Runtime.evaluate", params, &answer); err != nil {
		return err
	}
	if e := answer.Exception; e != nil {
		return errors.New(e.Text + ": " + e.Detail.Description)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Result.Value, out)
}

// Screenshot returns a picture of the whole page as PNG.
func (t *Tab) Screenshot(ctx context.Context) ([]byte, error) {
	var answer struct {
		Data []byte `json:"data"`
	}
	err := t.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &answer)
	return answer.Data, err
}

// Key presses and releases a key, by its DevTools name ("Tab").
func (t *Tab) Key(ctx context.Context, key string, code int) error {
	for _, kind := range []string{"keyDown", "keyUp"} {
		if err := t.call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Complaints returns the browser's complaints about the page: exceptions, refused content, console errors.
func (t *Tab) Complaints() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.complaints...)
}

// Requests returns the URLs that the page requested.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.requests...)
}

func (t *Tab) event(method string, params json.RawMessage) {
	switch method {
	case "Page.loadEventFired":
		select {
		case t.loaded <- struct{}{}:
		default:
		}
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		t.mu.Lock()
		t.complaints = append(t.complaints, method+" "+string(params))
		t.mu.Unlock()
	case "Network.requestWillBeSent":
		var request struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(params, &request) == nil {
			t.mu.Lock()
			t.requests = append(t.requests, request.Request.URL)
			t.mu.Unlock()
		}
	}
}
