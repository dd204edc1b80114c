// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// defaultServer is where an instance with the default configuration listens.
const defaultServer = "http://127.0.0.1:9440"

// maxComplaint bounds how much of a refused request's answer is shown.
const maxComplaint = 4 << 10

// instance is a running tributary, as its pages show it.
type instance struct {
	base *url.URL
	http *http.Client
}

func addServerFlag(fs *flag.FlagSet) *string {
	return fs.String("server", defaultServer, "`address` of the running instance: the \"listen\" of its configuration")
}

// newInstance reads the address of an instance: a URL, or host:port.
func newInstance(server string) (*instance, error) {
	text := server
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("--server: %q is not an address; give a URL such as %s", server, defaultServer)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = 10 * time.Second
	return &instance{base: base, http: &http.Client{Transport: transport}}, nil
}

// close lets go of the connections.
func (i *instance) close() { i.http.CloseIdleConnections() }

// complaint is an instance's answer to a request it refuses.
type complaint struct {
	status int
	text   string
}

func (c *complaint) Error() string { return c.text }

// get asks for a page. The caller closes the body.
func (i *instance) get(ctx context.Context, page string, query url.Values) (io.ReadCloser, error) {
	return i.ask(ctx, http.MethodGet, page, query, nil)
}

// post asks for something to be done. The caller closes the body.
func (i *instance) post(ctx context.Context, page string, query url.Values, header http.Header) (io.ReadCloser, error) {
	return i.ask(ctx, http.MethodPost, page, query, header)
}

func (i *instance) ask(ctx context.Context, method, page string, query url.Values, header http.Header) (io.ReadCloser, error) {
	target := i.base.JoinPath(page)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", i.base.Redacted(), err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := i.http.Do(request)
	if err != nil {
		// The client repeats method and URL; only the reason is news.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("cannot reach %s: %w; is \"tributary run\" running, and is this the \"listen\" of its configuration? Give another address with --server", i.base.Redacted(), err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxComplaint))
	text := strings.TrimSpace(clean(string(said)))
	if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusForbidden || text == "" {
		text = fmt.Sprintf("%s answered %s: %s; is it a tributary of this version?", target.Redacted(), response.Status, text)
	}
	return nil, &complaint{response.StatusCode, text}
}
