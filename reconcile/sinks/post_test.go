// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// posted sends a request to a receiver that answers, however busy this machine is.
func posted(t *testing.T, c *client, body string) outcome {
	t.Helper()
	return postedWithin(t, c, body, 30*time.Second)
}

func postedWithin(t *testing.T, c *client, body string, timeout time.Duration) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return c.post(ctx, []byte(body))
}

// timeoutFor is how long to wait for a result.
func timeoutFor(want result) time.Duration {
	if want == resultTimeout {
		return 200 * time.Millisecond
	}
	return 30 * time.Second
}

// TestAnswers: what each answer of a receiver means.
func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   result
		pause  time.Duration
	}{
		{"200", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "thanks") }, resultOK, 0},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, resultOK, 0},
		{"200, and a text that never ends", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "x"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}, resultOK, 0},
		{"202, and a text that never comes", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(202)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, resultOK, 0},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/in" {
				t.Error("it is followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, resultRedirect, 0},
		{"400", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, resultRefused, 0},
		{"422", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422) }, resultRefused, 0},
		{"408", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(408) }, resultServerError, 0},
		{"429 in seconds", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(429) }, resultThrottled, 7 * time.Second},
		{"429 for ever", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "999999999")
			w.WriteHeader(429)
		}, resultThrottled, maxRetryAfter},
		{"429 with nonsense", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "-1 soon")
			w.WriteHeader(429)
		}, resultThrottled, 0},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(500) }, resultServerError, 0},
		{"503", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(503) }, resultServerError, 7 * time.Second},
		{"600", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(600) }, resultInvalid, 0},
		{"never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, resultTimeout, 0},
		{"hangs up", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		}, resultUnreachable, 0},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n\r\n")
			conn.Close()
		}, resultInvalid, 0},
		{"a head that never ends", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: ")
			for range 100 {
				if _, err := io.WriteString(conn, strings.Repeat("x", 4096)); err != nil {
					break
				}
			}
			conn.Close()
		}, resultInvalid, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client leaves
				test.answer(w, r)
			}))
			defer server.Close()
			c := &client{url: server.URL + "/in?secret=1"}
			defer c.close()
			o := postedWithin(t, c, "[]", timeoutFor(test.want))
			if o.result != test.want || o.pause != test.pause {
				t.Errorf("got %s, pause %s, %v; want %s, %s", o.result, o.pause, o.err, test.want, test.pause)
			}
			if (o.err == nil) != (o.result == resultOK) || o.err != nil && strings.Contains(o.err.Error(), "secret") {
				t.Errorf("error %v", o.err)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	c := &client{url: "http://" + listener.Addr().String() + "/?secret=1"}
	if o := posted(t, c, "[]"); o.result != resultUnreachable || strings.Contains(o.err.Error(), "secret") {
		t.Errorf("%+v", o)
	}
}

func TestRetryAfterAsDate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"Thu, 01 Jan 2026 00:00:30 GMT": 30 * time.Second, "Thu, 01 Jan 2026 00:00:00 GMT": 0, "Wed, 31 Dec 2025 00:00:00 GMT": 0,
		"Fri, 01 Jan 2038 00:00:00 GMT": maxRetryAfter, "": 0, " 12 ": 12 * time.Second, "99999999999999999999": maxRetryAfter, "-5": 0, "1e9": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestRequest: what a receiver sees, by TLS with a client's certificate and a token that is
// read anew for each request; by HTTP/2 where it speaks nothing else. One connection does.
func TestRequest(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) { testRequest(t, protocol) })
	}
}

func testRequest(t *testing.T, protocol string) {
	var seen http.Header
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		if r.Method != http.MethodPost || len(r.TLS.PeerCertificates) != 1 {
			t.Errorf("%s with %d certificates", r.Method, len(r.TLS.PeerCertificates))
		}
		if (r.ProtoMajor == 2) != (protocol == "h2") {
			t.Errorf("it speaks %s", r.Proto)
		}
	}))
	server.EnableHTTP2 = protocol == "h2"
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{protocol}}
	connections := 0
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections++
		}
	}
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key := pair(t)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	c := &client{url: server.URL, agent: "tributary/test", auth: Auth{
		BearerTokenFile: write("token", "first\n"), CertFile: write("cert", cert), KeyFile: write("key", key), CAFile: write("ca", ca),
	}}
	defer c.close()
	for _, token := range []string{"first", "second"} {
		write("token", token+"\n")
		if o := posted(t, c, "[]"); o.result != resultOK {
			t.Fatal(o)
		}
		if got := seen.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("authorization %q", got)
		}
		if got := seen.Get("Content-Type") + " " + seen.Get("User-Agent"); got != "application/cloudevents-batch+json tributary/test" {
			t.Error(got)
		}
	}
	if connections != 1 {
		t.Errorf("%d connections", connections)
	}
	for name, text := range map[string]string{"token": "a\nb", "cert": "nothing", "ca": ""} {
		good, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		path := write(name, text)
		o := posted(t, c, "[]")
		if o.result != resultCredentials || !strings.Contains(o.err.Error(), path) {
			t.Errorf("%s: %+v", name, o)
		}
		write(name, string(good))
	}
	if o := posted(t, c, "[]"); o.result != resultOK {
		t.Errorf("mended: %+v", o)
	}
	write("ca", cert) // another authority
	if o := posted(t, c, "[]"); o.result != resultUnreachable {
		t.Errorf("another authority: %+v", o)
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if o := posted(t, c, "[]"); o.result != resultCredentials {
		t.Errorf("no token: %+v", o)
	}
}

// TestConnectionsAreFew: a receiver of HTTP/2 that sends each connection away, or answers no
// request, has no more than one of ours in the end, and what follows comes by a new one.
func TestConnectionsAreFew(t *testing.T) {
	const settings, goAway = "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	ca := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, says string
		want       result
	}{{"goes away", settings + goAway, resultUnreachable}, {"never answers", settings, resultTimeout}} {
		t.Run(test.name, func(t *testing.T) {
			listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate.TLS.Certificates, NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			var group sync.WaitGroup
			defer group.Wait()
			defer listener.Close()
			var made, open atomic.Int32
			ended := make(chan struct{}, 100)
			group.Go(func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					made.Add(1)
					open.Add(1)
					group.Go(func() {
						defer func() { open.Add(-1); ended <- struct{}{} }()
						defer conn.Close()
						_, _ = io.WriteString(conn, test.says)
						_, _ = io.Copy(io.Discard, conn)
					})
				}
			})
			c := &client{url: "https://" + listener.Addr().String(), auth: Auth{CAFile: ca}}
			defer c.close()
			const posts = 3
			for range posts {
				if o := postedWithin(t, c, "[]", timeoutFor(test.want)); o.result != test.want {
					t.Errorf("%s: %v", o.result, o.err)
				}
			}
			if made.Load() < 1 || made.Load() > maxDials*posts {
				t.Errorf("%d connections", made.Load())
			}
			for open.Load() > 1 {
				<-ended
			}
		})
	}
}
