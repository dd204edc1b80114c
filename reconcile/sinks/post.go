// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/kube"
)

// Auth are the files by which requests prove who sends them, and the receiver who it is.
// Empty ones are not used. They are read again for each request.
type Auth struct {
	BearerTokenFile, CertFile, KeyFile, CAFile string
}

// result is what became of a request; a label of a metric, so the set is closed.
type result string

const (
	resultOK          result = "ok"
	resultRefused     result = "refused"      // 400, 409, 413, 422: it does not accept what was sent
	resultThrottled   result = "throttled"    // 429
	resultServerError result = "server_error" // any other status
	resultTimeout     result = "timeout"
	resultUnreachable result = "unreachable" // no connection, or no HTTP
	resultCredentials result = "credentials" // a file of auth, or the URL, is of no use
	resultStopped     result = "stopped"     // this process leads no longer
)

// outcome is what became of a request: err says what is wrong, for people, and pause how
// long the receiver wants to be left alone.
type outcome struct {
	result result
	err    error
	pause  time.Duration
}

const (
	// maxRetryAfter bounds how long a receiver may ask to be left alone.
	maxRetryAfter = 5 * time.Minute
	// drained is what is read of the body of an answer, so that the connection can be used again.
	drained = 4 << 10
)

// client sends batches over HTTP. It is for one goroutine.
type client struct {
	url, agent string
	auth       Auth
	last       http.RoundTripper // as long as it is referenced, client-go shares its connection with the next
}

// send makes one request. ctx ends with the time that it may take.
func (c *client) send(ctx context.Context, method string, body []byte) outcome {
	through, err := c.transport()
	if err != nil {
		return outcome{result: resultCredentials, err: err}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url, bytes.NewReader(body))
	if err != nil {
		return outcome{result: resultCredentials, err: errors.New("the URL makes no request")}
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := through.RoundTrip(req) // which follows no redirect
	if err != nil {
		return failure(ctx, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, drained) // the status has said all
	return judge(resp)
}

// errCredentials is why a receiver does not let us in.
var errCredentials = errors.New("these credentials are not the ones that it expects")

// judge says what an answer means.
func judge(resp *http.Response) outcome {
	status := resp.StatusCode
	o := outcome{result: resultServerError, err: fmt.Errorf("it answers %d %s", status, http.StatusText(status))}
	switch status {
	case http.StatusUnauthorized:
		o.err = fmt.Errorf("%w: %w", o.err, errCredentials)
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		o.result = resultRefused
	case http.StatusTooManyRequests:
		o.result = resultThrottled
		fallthrough
	case http.StatusServiceUnavailable:
		seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31) // else it is none, or the greatest
		o.pause = min(maxRetryAfter, time.Duration(seconds)*time.Second)
	}
	switch status / 100 {
	case 2:
		return outcome{result: resultOK}
	case 3:
		o.err = fmt.Errorf("%w elsewhere, which is not followed: write the URL that it means", o.err)
	}
	return o
}

// failure says why there was no answer.
func failure(ctx context.Context, err error) outcome {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return outcome{result: resultStopped, err: context.Cause(ctx)}
	case ctx.Err() != nil, kube.TimedOut(err):
		return outcome{result: resultTimeout, err: errors.New("it does not answer in time")}
	}
	return outcome{result: resultUnreachable, err: fmt.Errorf("no answer: %.200s", err.Error())}
}

// transport reads the files; as long as they are the same, the connection is. It speaks
// HTTP/1.1 alone: there is one request at a time, and HTTP/2 would make connection after connection to a
// receiver that sends it away each time.
func (c *client) transport() (http.RoundTripper, error) {
	var texts [4][]byte
	for i, path := range []string{c.auth.BearerTokenFile, c.auth.CAFile, c.auth.CertFile, c.auth.KeyFile} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		texts[i] = bytes.TrimSpace(text)
		if err == nil && len(texts[i]) == 0 {
			err = fmt.Errorf("%s is empty", path)
		}
		if err != nil {
			return nil, err
		}
	}
	through, err := rest.TransportFor(&rest.Config{
		UserAgent: c.agent, BearerToken: string(texts[0]), DisableCompression: true,
		TLSClientConfig: rest.TLSClientConfig{CAData: texts[1], CertData: texts[2], KeyData: texts[3], NextProtos: []string{"http/1.1"}},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace(c.auth.CAFile+" "+c.auth.CertFile+" "+c.auth.KeyFile), err)
	}
	c.last = through
	return through, nil
}

// Check reports why nothing can be sent to a receiver: what is wrong with the files, that nobody
// answers at the URL, or that the credentials are refused. It asks by HEAD, and any other
// answer will do.
func Check(ctx context.Context, url string, a Auth) error {
	o := (&client{url: url, auth: a}).send(ctx, http.MethodHead, nil)
	switch o.result {
	case resultRefused, resultThrottled, resultServerError:
		if !errors.Is(o.err, errCredentials) {
			return nil
		}
	}
	return o.err
}
