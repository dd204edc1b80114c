// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Auth are the files by which requests prove who sends them, and the receiver who it is.
// Empty ones are not used.
type Auth struct {
	BearerTokenFile, CertFile, KeyFile, CAFile string
	// ServerName is what the receiver's certificate is for, if not the host of its URL.
	ServerName string
}

// result is what became of a request; a label of a metric, so the set is closed.
type result string

const (
	resultOK          result = "ok"
	resultRefused     result = "refused"      // a status of 400 to 499
	resultThrottled   result = "throttled"    // 429
	resultServerError result = "server_error" // 500 to 599
	resultRedirect    result = "redirect"     // 300 to 399
	resultInvalid     result = "invalid"      // an answer that is none
	resultTimeout     result = "timeout"
	resultUnreachable result = "unreachable"
	resultCredentials result = "credentials" // a file of auth is of no use
	resultStopped     result = "stopped"     // this process leads no longer
)

// outcome is what became of a request.
type outcome struct {
	result result
	// err says what is wrong, for people; nil when nothing is.
	err error
	// pause is how long the receiver wants to be left alone.
	pause time.Duration
}

// poster sends batches. It is for one goroutine.
type poster interface {
	post(ctx context.Context, body []byte) outcome
	close()
}

// Dial connects to a receiver; nil: as net.Dialer does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// client sends batches over HTTP.
type client struct {
	url   string
	agent string
	auth  Auth
	dial  Dial
	// used is the hash of the files that http is made from.
	used [sha256.Size]byte
	http *http.Client

	mu sync.Mutex
	// attempt is the request that connections are made for now, conn the last of them; both
	// guarded by mu.
	attempt *attempt
	conn    net.Conn
}

// attempt is one request, by which the context of a dial knows it.
type attempt struct{ dials int }

type attemptKey struct{}

const (
	// maxRetryAfter bounds how long a receiver may ask to be left alone.
	maxRetryAfter = 5 * time.Minute
	// maxHeaders bounds the head of an answer, maxFile a file of auth.
	maxHeaders = 64 << 10
	maxFile    = 1 << 20
	// maxDials bounds the connections for one request.
	maxDials = 2
	// drainTime and drainBytes bound what is read of an answer, so that its connection can
	// be used again.
	drainTime  = 100 * time.Millisecond
	drainBytes = 4 << 10
)

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lockedUse(nil)
}

// lockedUse ends the connection that was used, and goes on with another: one request at a
// time needs no second one, whatever a receiver does to the first.
func (c *client) lockedUse(conn net.Conn) {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = conn
}

// begin is for the next request. Connections that are still made for a former one are of no
// use any more, and end none of this one's.
func (c *client) begin(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt = &attempt{}
	return context.WithValue(ctx, attemptKey{}, c.attempt)
}

// connect makes a connection for the request that its context is of.
func (c *client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	of, _ := ctx.Value(attemptKey{}).(*attempt)
	fail := func(text string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New(text)}
	}
	c.mu.Lock()
	of.dials++
	dials := of.dials
	c.mu.Unlock()
	if dials > maxDials {
		return fail("it ends each connection before it answers")
	}
	dial := c.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if of != c.attempt {
		_ = conn.Close()
		return fail("it connects when its request has ended")
	}
	c.lockedUse(conn)
	return conn, nil
}

// post sends one batch. ctx ends with the time that it may take.
func (c *client) post(ctx context.Context, body []byte) outcome {
	token, err := c.prepare()
	if err != nil {
		return outcome{result: resultCredentials, err: err}
	}
	req, err := http.NewRequestWithContext(c.begin(ctx), http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return outcome{result: resultInvalid, err: errors.New("the URL makes no request")}
	}
	req.Header.Set("Content-Type", mediaType)
	req.Header.Set("User-Agent", c.agent)
	bear(req, token)
	resp, err := c.http.Do(req)
	if err != nil {
		c.close() // HTTP/2 would wait for its answers again
		return failure(ctx, err)
	}
	stop := time.AfterFunc(drainTime, func() { resp.Body.Close() })
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes) // the status has said all
	stop.Stop()
	resp.Body.Close()
	return judge(resp, time.Now())
}

func bear(req *http.Request, token string) {
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}

// judge says what an answer means.
func judge(resp *http.Response, now time.Time) outcome {
	status := resp.StatusCode
	o := outcome{err: fmt.Errorf("it answers %d %s", status, http.StatusText(status))}
	switch {
	case status >= 200 && status < 300:
		return outcome{result: resultOK}
	case status == http.StatusTooManyRequests:
		o.result = resultThrottled
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly:
		o.result = resultServerError
	case status >= 300 && status < 400:
		o.result, o.err = resultRedirect, fmt.Errorf("%w elsewhere, which is not followed: write the URL that it means", o.err)
	case status >= 400 && status < 500:
		o.result = resultRefused
	case status >= 500 && status < 600:
		o.result = resultServerError
	default:
		o.result = resultInvalid
	}
	if o.result == resultThrottled || status == http.StatusServiceUnavailable {
		o.pause = retryAfter(resp.Header.Get("Retry-After"), now)
	}
	return o
}

// retryAfter reads a Retry-After in either form: seconds, or a date. What makes no sense is
// none.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the greatest
		return min(maxRetryAfter, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(maxRetryAfter, max(0, at.Sub(now)))
}

// failure says why there was no answer, without the URL, which may hold a secret.
func failure(ctx context.Context, err error) outcome {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	_, dialing := errors.AsType[*net.OpError](err)
	timeout, isTimeout := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return outcome{result: resultStopped, err: context.Cause(ctx)}
	case errors.Is(err, context.DeadlineExceeded), isTimeout && timeout.Timeout():
		return outcome{result: resultTimeout, err: errors.New("it does not answer in time")}
	case dialing, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return outcome{result: resultUnreachable, err: err}
	}
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad || isSentAway(err) {
		return outcome{result: resultUnreachable, err: err}
	}
	return outcome{result: resultInvalid, err: fmt.Errorf("it answers what is no HTTP: %.200q", err.Error())}
}

// isSentAway reports whether an HTTP/2 connection ended before its answer. net/http has no
// types for that.
func isSentAway(err error) bool {
	for _, text := range []string{"http2: client conn", "http2: server sent GOAWAY", "http2: Transport received"} {
		if strings.HasPrefix(err.Error(), text) {
			return true
		}
	}
	return false
}

// prepare reads the files, and makes another client where they are others than before.
func (c *client) prepare() (token string, err error) {
	files := map[string][]byte{}
	for _, path := range []string{c.auth.BearerTokenFile, c.auth.CertFile, c.auth.KeyFile, c.auth.CAFile} {
		if path == "" {
			continue
		}
		if files[path], err = readFile(path); err != nil {
			return "", err
		}
	}
	sum := sha256.New()
	for _, path := range []string{c.auth.CertFile, c.auth.KeyFile, c.auth.CAFile} {
		fmt.Fprintf(sum, "%d:%s", len(files[path]), files[path])
	}
	if used := [sha256.Size]byte(sum.Sum(nil)); c.http == nil || used != c.used {
		config, err := c.tls(files)
		if err != nil {
			return "", err
		}
		c.close()
		c.used, c.http = used, newHTTP(config, c.connect)
	}
	token = strings.TrimSpace(string(files[c.auth.BearerTokenFile]))
	if c.auth.BearerTokenFile != "" && (token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })) {
		return "", fmt.Errorf("%s holds no token: one line of printable characters", c.auth.BearerTokenFile)
	}
	return token, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

func (c *client) tls(files map[string][]byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.auth.ServerName}
	if c.auth.CAFile != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(files[c.auth.CAFile]) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", c.auth.CAFile)
		}
	}
	if c.auth.CertFile != "" {
		pair, err := tls.X509KeyPair(files[c.auth.CertFile], files[c.auth.KeyFile])
		if err != nil {
			return nil, fmt.Errorf("%s and %s are no certificate with its key", c.auth.CertFile, c.auth.KeyFile)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// newHTTP speaks HTTP/1.1, and HTTP/2 where the receiver rather has that by TLS.
func newHTTP(config *tls.Config, dial Dial) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSClientConfig: config, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 5 * time.Second,
			MaxResponseHeaderBytes: maxHeaders, DisableCompression: true,
		},
	}
}

// Check reports why a receiver cannot be told: what is wrong with the files, that nobody
// answers at the URL, or that the credentials are refused. It asks by HEAD, and any other
// answer will do; "" asks nobody.
func Check(ctx context.Context, url string, a Auth) error {
	c := client{auth: a}
	defer c.close()
	token, err := c.prepare()
	if err != nil || url == "" {
		return err
	}
	req, err := http.NewRequestWithContext(c.begin(ctx), http.MethodHead, url, http.NoBody)
	if err != nil {
		return errors.New("the URL makes no request")
	}
	bear(req, token)
	resp, err := c.http.Do(req)
	if err != nil {
		return failure(ctx, err).err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		err = errors.New("it answers 401: these credentials are not the ones that it expects")
	}
	return errors.Join(err, resp.Body.Close())
}
