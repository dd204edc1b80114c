// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAnswers: what each answer of a receiver means.
func TestAnswers(t *testing.T) {
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   result
		pause  time.Duration
	}{
		"200":                     {status(200), resultOK, 0},
		"204":                     {status(204), resultOK, 0},
		"redirect":                {status(307, "Location", "/elsewhere"), resultServerError, 0},
		"400":                     {status(400), resultRefused, 0},
		"401":                     {status(401), resultServerError, 0},
		"422":                     {status(422), resultRefused, 0},
		"429 in seconds":          {status(429, "Retry-After", "7"), resultThrottled, 7 * time.Second},
		"429 for ever":            {status(429, "Retry-After", "99999999999"), resultThrottled, maxRetryAfter},
		"429 in nonsense":         {status(429, "Retry-After", "soon"), resultThrottled, 0},
		"503 to a date long past": {status(503, "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), resultServerError, 0},
		"500 asks for no pause":   {status(500, "Retry-After", "7"), resultServerError, 0},
		"cut":                     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, resultUnreachable, 0},
		"202, and a text that never ends": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(202)
			for _, err := w.Write([]byte("x")); err == nil; _, err = w.Write(make([]byte, 1000)) {
			}
		}, resultOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.answer)
			defer server.Close()
			c := &client{url: server.URL + "/in?token=secret"}
			o := c.send(t.Context(), http.MethodPost, []byte("[]"))
			if o.result != test.want || o.pause != test.pause || (o.err == nil) != (test.want == resultOK) {
				t.Errorf("%+v", o)
			}
			if o.err != nil && strings.Contains(o.err.Error(), "secret") {
				t.Errorf("a secret in %v", o.err)
			}
		})
	}
}

// A request to a silent receiver ends with the context; one that is not reached has a result of its own.
func TestNoAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	c := &client{url: server.URL}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if o := c.send(ctx, http.MethodPost, nil); o.result != resultTimeout {
		t.Errorf("%+v", o)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if o := c.send(ended, http.MethodPost, nil); o.result != resultStopped {
		t.Errorf("%+v", o)
	}
	server.Close()
	if o := c.send(t.Context(), http.MethodPost, nil); o.result != resultUnreachable {
		t.Errorf("%+v", o)
	}
}

// Token and certificates are read again for each request; without them nothing is sent.
func TestCredentials(t *testing.T) {
	var token string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		if r.Method == http.MethodHead && token != "Bearer two" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := &client{url: server.URL, auth: Auth{BearerTokenFile: write("token", "one\n"), CAFile: write("ca", "none")}}
	post := func(want result, bears string) {
		t.Helper()
		token = ""
		if o := c.send(t.Context(), http.MethodPost, nil); o.result != want || token != bears {
			t.Errorf("%+v, bearing %q", o, token)
		}
	}
	post(resultCredentials, "")
	write("ca", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	post(resultOK, "Bearer one")
	if err := Check(t.Context(), server.URL, c.auth); err == nil || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("checked: %v", err)
	}
	write("token", "two")
	post(resultOK, "Bearer two")
	if err := Check(t.Context(), server.URL, c.auth); err != nil {
		t.Errorf("checked: %v", err)
	}
	c.auth.BearerTokenFile = filepath.Join(dir, "none")
	post(resultCredentials, "")
	c.auth = Auth{CertFile: write("cert", "x"), KeyFile: write("key", "x")}
	post(resultCredentials, "")
	c.auth = Auth{}
	post(resultUnreachable, "")
}

// TestCheckTakesAnyAnswer: a receiver need not know HEAD, but has to accept the credentials.
func TestCheckTakesAnyAnswer(t *testing.T) {
	for status, works := range map[int]bool{200: true, 301: true, 401: false, 403: true, 405: true, 413: true, 429: true, 503: true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		if err := Check(t.Context(), server.URL, Auth{}); (err == nil) != works {
			t.Errorf("%d: %v", status, err)
		}
		server.Close()
	}
}
