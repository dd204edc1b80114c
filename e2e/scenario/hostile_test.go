// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// hostile is a receiver that answers a request on a connection as it likes, until stop is
// closed. result is what tributary's metric says of that.
type hostile struct {
	name, result string
	tls          bool
	answer       func(conn net.Conn, stop <-chan struct{})
}

// say sends a text.
func say(text string) func(net.Conn, <-chan struct{}) {
	return func(conn net.Conn, _ <-chan struct{}) { _, _ = io.WriteString(conn, text) }
}

// drip sends a text, and then another again and again, with a pause between.
func drip(text, more string, pause time.Duration) func(net.Conn, <-chan struct{}) {
	return func(conn net.Conn, stop <-chan struct{}) {
		_, err := io.WriteString(conn, text)
		for err == nil {
			if pause > 0 {
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
			}
			_, err = io.WriteString(conn, more)
		}
	}
}

func never(_ net.Conn, stop <-chan struct{}) { <-stop }

func answers(status, header string) func(net.Conn, <-chan struct{}) {
	return say("HTTP/1.1 " + status + "\r\n" + header + "Content-Length: 0\r\n\r\n")
}

// hostiles are the ways in which receivers go wrong. Those without an answer are in sink.
func hostiles(elsewhere string) []hostile {
	return []hostile{
		{name: "silent", result: "timeout", answer: never},
		{name: "slow-head", result: "timeout", answer: drip("HTTP/1.1 200 OK\r\nX: ", "x", 50*time.Millisecond)},
		{name: "endless-head", result: "unreachable", answer: drip("HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat("x", 1000)+"\r\n", 0)},
		{name: "slow-body", result: "ok", answer: drip("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "x", 50*time.Millisecond)},
		{name: "endless-body", result: "ok", answer: drip("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 64<<10), 0)},
		{name: "garbage-body", result: "ok", answer: say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n}{\x00\xff\"[")},
		{name: "gzip-bomb", result: "ok", answer: func(conn net.Conn, _ <-chan struct{}) {
			var bomb bytes.Buffer
			z := gzip.NewWriter(&bomb)
			_, _ = io.CopyN(z, zeros{}, 64<<20)
			_ = z.Close()
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", bomb.Len())
			_, _ = conn.Write(bomb.Bytes())
		}},
		{name: "redirect", result: "server_error", answer: answers("307 Temporary Redirect", "Location: "+elsewhere+"/elsewhere\r\n")},
		{name: "redirect-to-a-file", result: "server_error", answer: answers("302 Found", "Location: file:///etc/passwd\r\n")},
		{name: "flood-of-1xx", result: "unreachable", answer: drip("", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 0)},
		{name: "garbage-status", result: "unreachable", answer: answers("2O0 OK", "")},
		{name: "status-999", result: "server_error", answer: answers("999 What", "")},
		{name: "no-http", result: "unreachable", answer: say("SSH-2.0-OpenSSH_9.9\r\n\r\n")},
		{name: "wait-negative", result: "throttled", answer: answers("429 Too Many Requests", "Retry-After: -5\r\n")},
		{name: "wait-ten-years", result: "throttled", answer: answers("429 Too Many Requests", "Retry-After: 315360000\r\n")},
		{name: "wait-beyond-numbers", result: "throttled", answer: answers("429 Too Many Requests", "Retry-After: 99999999999999999999999\r\n")},
		{name: "wait-until-2099", result: "throttled", answer: answers("429 Too Many Requests", "Retry-After: Thu, 01 Jan 2099 00:00:00 GMT\r\n")},
		{name: "wait-nonsense", result: "throttled", answer: answers("429 Too Many Requests", "Retry-After: soon\r\n")},
		{name: "cut-in-the-head", result: "unreachable", answer: say("HTTP/1.1 200 OK\r\nX: ")},
		{name: "hangs-up", result: "unreachable", answer: func(net.Conn, <-chan struct{}) {}},
		{name: "resets", result: "unreachable", answer: func(conn net.Conn, _ <-chan struct{}) { _ = conn.(*net.TCPConn).SetLinger(0) }},
		{name: "length-lies", result: "ok", answer: say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")},
		{name: "no-tls", result: "unreachable", tls: true, answer: nil},
		{name: "tls-that-nobody-vouches-for", result: "unreachable", tls: true, answer: nil},
		{name: "tls-that-never-shakes-hands", result: "timeout", tls: true, answer: nil},
		{name: "http2-and-goaway", result: "unreachable", tls: true, answer: nil},
	}
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// pen are hostile receivers that run.
type pen struct {
	*world
	stop  chan struct{}
	group sync.WaitGroup
	ca    string
	cert  tls.Certificate
}

// serve takes connections; plain ones are read for a request before they are answered.
func (p *pen) serve(config *tls.Config, handle func(net.Conn)) (address string) {
	p.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	p.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.group.Go(func() {
				ended := make(chan struct{})
				defer close(ended)
				p.group.Go(func() {
					select {
					case <-p.stop:
					case <-ended:
					}
					conn.Close()
				})
				if config != nil {
					conn := tls.Server(conn, config)
					if conn.Handshake() == nil {
						handle(conn)
					}
					return
				}
				handle(conn)
			})
		}
	})
	p.group.Go(func() { <-p.stop; listener.Close() })
	return listener.Addr().String()
}

// sink starts a receiver, and returns the lines of its sink.
func (p *pen) sink(h hostile) string {
	p.Helper()
	hang := func(net.Conn) { <-p.stop }
	h2 := &tls.Config{Certificates: []tls.Certificate{p.cert}, NextProtos: []string{"h2"}}
	var address string
	trust := fmt.Sprintf("  auth: {tls: {caFile: %s}}\n", p.ca)
	switch h.name {
	case "no-tls":
		address = p.serve(nil, func(conn net.Conn) { say("HTTP/1.1 400 Bad Request\r\n\r\n")(conn, p.stop) })
	case "tls-that-nobody-vouches-for":
		address, trust = p.serve(h2, hang), ""
	case "tls-that-never-shakes-hands":
		address = p.serve(nil, hang)
	case "http2-and-goaway":
		address = p.serve(h2, func(conn net.Conn) { // its settings, and a GOAWAY
			_, _ = conn.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
			_, _ = io.Copy(io.Discard, conn)
		})
	default:
		trust = ""
		address = p.serve(nil, func(conn net.Conn) {
			in := bufio.NewReader(conn)
			for {
				request, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				h.answer(conn, p.stop)
				if !slices.Contains([]string{"redirect", "redirect-to-a-file", "garbage-body", "gzip-bomb"}, h.name) && !strings.HasPrefix(h.name, "wait-") {
					return
				}
			}
		})
	}
	scheme := "http"
	if h.tls {
		scheme = "https"
	}
	return fmt.Sprintf("- name: %s\n  url: %s://%s/\n  window: 0s\n%s", h.name, scheme, address, trust)
}

// TestHostileReceivers runs the binary with a sink for each of a few dozen receivers that answer slowly, wrongly, never and
// with garbage. Each is what its requests say it is; another receiver is told in time, and Kubernetes written, all the
// while; and neither memory nor goroutines grow with what they do.
func TestHostileReceivers(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx, a := t.Context(), w.fleet.Member("idc-a")
	slb := &receiver{told: map[string]told{}, last: map[string]told{}}
	well := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.Path == "/elsewhere" {
			t.Error("a redirect was followed")
		}
		slb.ServeHTTP(out, in)
	}))
	t.Cleanup(well.Close)
	all := hostiles(well.URL)
	p := w.newPen()
	sinks := "sinks:\n- name: well\n  url: " + well.URL + "/\n  window: 0s\n"
	for _, h := range all {
		sinks += p.sink(h)
	}
	w.replaceConfig(func(s string) string { return s + sinks })
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	pods := []*corev1.Pod{w.pod(a, "shop", "web-0", "web"), w.pod(a, "shop", "web-1", "web")}
	w.start()
	w.tells(slb, map[string]string{"shop/web": pods[0].Status.PodIP + " " + pods[1].Status.PodIP})
	for _, h := range all {
		w.counts(h)
	}
	goroutines, memory := w.gauge("go_goroutines"), w.gauge("process_resident_memory_bytes")
	for i := range 60 { // news, so that each is tried again and again
		if i%2 == 0 {
			w.must(a.MarkNotReady(ctx, "shop", "web-1"))
			w.tells(slb, map[string]string{"shop/web": pods[0].Status.PodIP})
			w.shows("shop", "web", line(a, pods[0], "ready+serving"), line(a, pods[1], "off"))
		} else {
			w.must(a.MarkReady(ctx, "shop", "web-1"))
			w.tells(slb, map[string]string{"shop/web": pods[0].Status.PodIP + " " + pods[1].Status.PodIP})
		}
	}
	fleettest.Eventually(t, soon, func(context.Context) error { // requests come and go
		if is := w.gauge("go_goroutines"); is > goroutines+20 {
			return fmt.Errorf("%.0f goroutines, %.0f before", is, goroutines)
		}
		return nil
	})
	if is := w.gauge("process_resident_memory_bytes"); is > memory+64<<20 {
		t.Errorf("%.0f MiB of memory, %.0f before", is/(1<<20), memory/(1<<20))
	}
	t.Logf("%d receivers: %.0f goroutines, %.0f before; %.0f MiB, %.0f before", len(all), w.gauge("go_goroutines"), goroutines,
		w.gauge("process_resident_memory_bytes")/(1<<20), memory/(1<<20))
	if faults := slb.faults(); len(faults) > 0 {
		t.Errorf("the receiver that is well was told wrongly: %q", faults)
	}
	began := time.Now()
	w.must(w.proc.Stop(ctx))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it ended after %s", took)
	}
}

// newPen makes a certificate that nobody vouches for but who is told to.
func (w *world) newPen() *pen {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	w.must(err)
	p := &pen{world: w, stop: make(chan struct{}), ca: filepath.Join(w.dir, "receivers.crt"), cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	w.must(os.WriteFile(p.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	w.Cleanup(func() {
		close(p.stop)
		p.group.Wait()
	})
	return p
}

// counts waits until a receiver's requests are counted as what they are.
func (w *world) counts(h hostile) {
	w.Helper()
	fleettest.Eventually(w.T, 2*soon, func(ctx context.Context) error {
		page, err := w.proc.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		var results []string
		for line := range strings.Lines(string(page)) {
			if name, ok := strings.CutPrefix(line, "tributary_sink_requests_total{result="); ok && strings.Contains(name, fmt.Sprintf("sink=%q}", h.name)) && !strings.HasSuffix(line, " 0\n") {
				results = append(results, strings.Split(name, `"`)[1])
			}
		}
		// Whether a connection fails or time runs out first is the machine's to say.
		silent := func(result string) bool { return result == "timeout" || result == "unreachable" }
		for _, result := range results {
			if h.result != "" && result != h.result && !(silent(result) && silent(h.result)) {
				return fmt.Errorf("the requests to %s are %q, want %q", h.name, results, h.result)
			}
		}
		if len(results) == 0 {
			return fmt.Errorf("no request to %s has ended", h.name)
		}
		return nil
	})
}

// gauge reads a metric without labels.
func (w *world) gauge(name string) float64 {
	w.Helper()
	page, err := w.proc.Get(w.Context(), "/metrics")
	w.must(err)
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			is, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			w.must(err)
			return is
		}
	}
	w.Fatalf("there is no metric %s", name)
	return 0
}
