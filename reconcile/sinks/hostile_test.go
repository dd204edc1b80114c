// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"bufio"
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
	"testing"
)

// rawReceiver answers each request with bytes, and says nothing else; it ends a connection
// after its answer if these end so.
func rawReceiver(t *testing.T, answer string, ends bool) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	t.Cleanup(func() { listener.Close(); group.Wait() })
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if _, err := io.WriteString(conn, answer); err != nil || ends {
						return
					}
				}
			})
		}
	})
	return "http://" + listener.Addr().String() + "/?secret=1"
}

// TestHostileAnswers: what is no proper answer is none, and the next request fares no worse:
// nothing but the status counts, nothing panics, and no error holds the URL.
func TestHostileAnswers(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		ends         bool
		want         result
	}{
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nthanks", true, resultOK},
		{"HTTP/1.0 that keeps the connection", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", false, resultOK},
		{"a page of another program", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\n<html>\x00", false, resultOK},
		{"garbage instead of what the head announces", "HTTP/1.1 202 Accepted\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\xff\xfe\xfd\xfc", false, resultOK},
		{"it is cut in the middle of its text", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", true, resultOK},
		{"chunks that are none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", true, resultOK},
		{"more than it announces", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and then more", false, resultOK},
		{"two answers to one request", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 Internal Server Error\r\n\r\n", false, resultOK},
		{"a hint before the answer", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false, resultOK},
		{"hints alone", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", 1000)+"\r\n\r\n", 200), true, resultInvalid},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", false, resultInvalid},
		{"301", "HTTP/1.1 301 Moved Permanently\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", false, resultRedirect},
		{"303", "HTTP/1.1 303 See Other\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", false, resultRedirect},
		{"a redirect to nowhere", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", false, resultRedirect},
		{"304", "HTTP/1.1 304 Not Modified\r\n\r\n", false, resultRedirect},
		{"a status that is none", "HTTP/1.1 2000 OK\r\n\r\n", true, resultInvalid},
		{"a status without a number", "HTTP/1.1 fine\r\n\r\n", true, resultInvalid},
		{"a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", true, resultInvalid},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", true, resultInvalid},
		{"it is cut in the middle of its head", "HTTP/1.1 200 OK\r\nX: y", true, resultUnreachable},
		{"it is cut in the middle of its status", "HTTP/1.1 2", true, resultInvalid},
		{"nothing", "", true, resultUnreachable},
		{"half a head, and then nothing", "HTTP/1.1 200 OK\r\nX: y\r\n", false, resultTimeout},
		{"zeros without end", strings.Repeat("\x00", 1<<20), true, resultInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &client{url: rawReceiver(t, test.answer, test.ends)}
			defer c.close()
			for n := range 3 {
				o := postedWithin(t, c, "[]", timeoutFor(test.want))
				if o.result != test.want || o.pause != 0 {
					t.Errorf("request %d: %s, pause %s, %v; want %s", n, o.result, o.pause, o.err, test.want)
				}
				if (o.err == nil) != (o.result == resultOK) || o.err != nil && strings.Contains(o.err.Error(), "secret") {
					t.Errorf("error %v", o.err)
				}
			}
		})
	}
}

// TestHostileTLS: a receiver that cannot prove who it is gets nothing, not even a token; one
// that has changed its certificate does, as soon as it proves it.
func TestHostileTLS(t *testing.T) {
	var seen int
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen++ }))
	defer server.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen++ }))
	defer plain.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := write("ca", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	other, otherKey := pair(t)
	for _, test := range []struct {
		name, url string
		auth      Auth
		want      result
	}{
		{"its authority is known", server.URL, Auth{CAFile: ca}, resultOK},
		{"its name is one of the certificate", server.URL, Auth{CAFile: ca, ServerName: "example.com"}, resultOK},
		{"another name", server.URL, Auth{CAFile: ca, ServerName: "slb.shop.internal"}, resultUnreachable},
		{"an authority that nobody knows", server.URL, Auth{}, resultUnreachable},
		{"another authority", server.URL, Auth{CAFile: write("other", other)}, resultUnreachable},
		{"no TLS where it is expected", "https://" + plain.Listener.Addr().String(), Auth{CAFile: ca}, resultInvalid},
		{"a certificate whose key is another's", server.URL, Auth{CAFile: ca, CertFile: ca, KeyFile: write("key", otherKey)}, resultCredentials},
	} {
		seen = 0
		test.auth.BearerTokenFile = write("token", "secret")
		c := &client{url: test.url, auth: test.auth}
		o := posted(t, c, "[]")
		c.close()
		if o.result != test.want || (seen > 0) != (test.want == resultOK) || o.err != nil && strings.Contains(o.err.Error(), "secret") {
			t.Errorf("%s: %s, %v, %d requests; want %s", test.name, o.result, o.err, seen, test.want)
		}
	}
}

// TestRotatedCertificate: a receiver that comes back with another certificate is told when the
// file has its authority, and not before; by the connection that stands it is told on.
func TestRotatedCertificate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca")
	serve := func(cert, key string) *httptest.Server {
		certificate, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	first, firstKey := pair(t)
	second, secondKey := pair(t)
	old, next := serve(first, firstKey), serve(second, secondKey)
	now := old
	c := &client{url: "https://slb.example.com", auth: Auth{CAFile: file, ServerName: pairName}}
	c.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, now.Listener.Addr().String())
	}
	defer c.close()
	expect := func(step, authority string, want result) {
		t.Helper()
		if err := os.WriteFile(file, []byte(authority), 0o600); err != nil {
			t.Fatal(err)
		}
		if o := posted(t, c, "[]"); o.result != want {
			t.Errorf("%s: %s, %v; want %s", step, o.result, o.err, want)
		}
	}
	expect("at first", first, resultOK)
	now = next
	old.CloseClientConnections()
	expect("it has another certificate", first, resultUnreachable)
	expect("both are trusted", first+second, resultOK)
	expect("the former is trusted no more", second, resultOK)
	expect("a file that is being written", second[:len(second)/2], resultCredentials)
	expect("and is whole again", second, resultOK)
}

// TestLateDial: a connection that is made when its request has ended ends no other.
func TestLateDial(t *testing.T) {
	lateConn, _ := net.Pipe()
	ours, theirs := net.Pipe()
	begun, goOn, conns := make(chan struct{}), make(chan struct{}), make(chan net.Conn, 1)
	c := &client{dial: func(_ context.Context, _, address string) (net.Conn, error) {
		if address == "late" {
			close(begun)
			<-goOn
			return lateConn, nil
		}
		return <-conns, nil
	}}
	conns <- ours
	late, first := make(chan error), c.begin(t.Context())
	go func() {
		_, err := c.connect(first, "tcp", "late")
		late <- err
	}()
	<-begun
	conn, err := c.connect(c.begin(t.Context()), "tcp", "next")
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-late; err == nil {
		t.Error("a connection for a request that has ended")
	}
	go func() { _, _ = conn.Write([]byte("x")) }()
	if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil {
		t.Errorf("the connection of the next request is ended: %v", err)
	}
	c.close()
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("it is still open")
	}
}
