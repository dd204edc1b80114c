// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/review"
	"tributary.dev/tributary/internal/reserve"
)

// A name that a browser was made to resolve to this machine opens nothing.
func TestLocalNames(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:9440": true, "localhost:9440": true, "LOCALHOST": true, "[::1]:9440": true, "127.8.8.8": true, "a.localhost.:1": true, "[::ffff:127.0.0.1]:1": true,
		"evil.example:9440": false, "10.0.0.1:9440": false, "localhost.evil.example": false, "": false, "127.0.0.1.evil.example": false, "0.0.0.0:9440": false,
	} {
		if got := local(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

// place serves pages for a test; the handler answers with the path.
type place struct {
	*testing.T
	*pages
	moves []string
}

func newPlace(t *testing.T) *place {
	ctx, cancel := context.WithCancel(t.Context())
	p := &place{T: t}
	p.pages = &pages{
		ctx: ctx, logger: slog.New(slog.DiscardHandler), moved: func(address string) { p.moves = append(p.moves, address) },
		reviewer: review.New("", slog.New(slog.DiscardHandler)),
		handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }),
	}
	t.Cleanup(func() { cancel(); p.wait() })
	return p
}

// status is what is answered at a port of this machine to a request for a path by a name; 0: nobody is there.
func (p *place) status(url, host string) int {
	p.Helper()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, url, nil)
	if err != nil {
		p.Fatal(err)
	}
	request.Host = host
	answer, err := (&http.Client{Timeout: 10 * time.Second, Transport: transport}).Do(request)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// freePorts are not in use, and stay so.
func freePorts(t *testing.T) (a, b string) {
	t.Helper()
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = reserve.Port(); err != nil {
			t.Fatal(err)
		}
	}
	return strconv.Itoa(ports[0]), strconv.Itoa(ports[1])
}

// The pages move to an address that overlaps the one they have, and back; on loopback
// they ask who is meant.
func TestPagesMoveToAnOverlappingAddress(t *testing.T) {
	p := newPlace(t)
	port, _ := freePorts(t)
	use := func(address string) error { return p.exchange([servers]site{{address: address}}) }
	if err := use("127.0.0.1:" + port); err != nil {
		t.Fatal(err)
	}
	url := "http://127.0.0.1:" + port + "/"
	if p.status(url, "evil.example") != http.StatusForbidden || p.status(url, "localhost:"+port) != http.StatusOK {
		t.Error("the host is not looked at on loopback")
	}
	if err := use(":" + port); err != nil || len(p.moves) != 2 || p.status(url, "pod.example") != http.StatusOK {
		t.Errorf("moved to %q, %v", p.moves, err)
	}
	if err := use("256.0.0.1:" + port); err == nil || len(p.moves) != 2 || p.status(url, "pod.example") != http.StatusOK { // it stays where it is
		t.Errorf("moved to %q, %v", p.moves, err)
	}
	if err := use("127.0.0.1:" + port); err != nil || len(p.moves) != 3 || p.status(url, "evil.example") != http.StatusForbidden {
		t.Errorf("moved to %q, %v", p.moves, err)
	}
}

// The address for metrics serves them and the probes, and nothing else; both addresses change places in one edit.
func TestMetricsAlone(t *testing.T) {
	p := newPlace(t)
	a, b := freePorts(t)
	if err := p.exchange([servers]site{{address: "127.0.0.1:" + a}, {address: ":" + b}}); err != nil {
		t.Fatal(err)
	}
	judge := func(all, alone string) {
		t.Helper()
		for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/": 404, "/debug/status": 404, "/debug/changes": 404, ReleasePath: 404, "/metrics/x": 404} {
			if got := p.status("http://127.0.0.1:"+alone+path, "pod.example"); got != want {
				t.Errorf("%s at metricsListen: %d", path, got)
			}
			if got := p.status("http://127.0.0.1:"+all+path, "localhost"); got != http.StatusOK {
				t.Errorf("%s at listen: %d", path, got)
			}
		}
	}
	judge(a, b)
	if err := p.exchange([servers]site{{address: "127.0.0.1:" + b}, {address: ":" + a}}); err != nil {
		t.Fatal(err)
	}
	judge(b, a)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	// One of two new addresses is taken: both stay, also where one had to be let go for it.
	if err := p.exchange([servers]site{{address: ":" + b}, {address: taken.Addr().String()}}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a taken address: %v", err)
	}
	judge(b, a)
	former := p.servers[metricsAlone]
	if err := p.exchange([servers]site{{address: "127.0.0.1:" + b}}); err != nil {
		t.Fatal(err)
	}
	<-former.done
	if p.status("http://127.0.0.1:"+b+"/metrics", "localhost") != http.StatusOK || p.status("http://127.0.0.1:"+a+"/metrics", "localhost") != 0 {
		t.Error("metricsListen was not taken away, or listen was, too")
	}
}

// TLS and the review of tokens are switched on at the same address; a renewed certificate is served without moving.
func TestMetricsByTLS(t *testing.T) {
	p := newPlace(t)
	a, b := freePorts(t)
	loaded := &config.Loaded{Config: config.Config{Listen: "127.0.0.1:" + a, MetricsListen: "127.0.0.1:" + b}}
	follow := func() { p.follow(loaded) }
	follow()
	if p.status("http://127.0.0.1:"+b+"/metrics", "localhost") != http.StatusOK {
		t.Fatal("metrics are not served")
	}
	loaded.Config.MetricsTLS = config.MetricsTLS{CertFile: "c", KeyFile: "k"}
	loaded.Metrics.Err = errors.New("no such file")
	follow() // there is no certificate yet: it stays as it is
	if p.status("http://127.0.0.1:"+b+"/metrics", "localhost") != http.StatusOK {
		t.Error("without a certificate nothing is served")
	}
	backend := httptest.NewTLSServer(nil)
	defer backend.Close()
	loaded.Metrics = config.Certificate{TLS: &backend.TLS.Certificates[0]}
	loaded.Config.MetricsTokenReview = true
	follow()
	for path, want := range map[string]int{"/metrics": http.StatusUnauthorized, "/healthz": http.StatusOK} {
		if got := p.status("https://127.0.0.1:"+b+path, "localhost"); got != want {
			t.Errorf("%s by TLS: %d", path, got)
		}
	}
	serial := func() string {
		connection, err := tls.Dial("tcp", "127.0.0.1:"+b, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	before := p.servers[metricsAlone]
	loaded.Metrics.TLS = named(t, "renewed")
	follow()
	if got := serial(); !strings.HasPrefix(got, "renewed") || p.servers[metricsAlone] != before {
		t.Errorf("after a renewal %q is served", got)
	}
	loaded.Metrics.Err = errors.New("key and certificate do not match")
	follow()
	if got := serial(); !strings.HasPrefix(got, "renewed") {
		t.Errorf("after a slip %q is served", got)
	}
}

// named is a certificate for a name.
func named(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}
