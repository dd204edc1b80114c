// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/metrics/page"
)

const (
	// defaultServer is where an instance with the default configuration listens.
	defaultServer = "http://127.0.0.1:9440"
	// askTimeout bounds the whole of a question, and maxAnswer what is read of its answer.
	askTimeout = 15 * time.Second
	maxAnswer  = 64 << 20
	// maxComplaint bounds how much of a refused request's answer is shown.
	maxComplaint = 4 << 10
)

// instance is a running tributary, as its pages show it.
type instance struct {
	base *url.URL
	http *http.Client
	// stop ends a forwarded port; nil where there is none.
	stop func()
}

// instanceFlags say which running instance a command asks.
type instanceFlags struct{ server, kubeconfig, context, namespace, instance string }

func addInstanceFlags(cmd *cobra.Command) *instanceFlags {
	f := &instanceFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "`address` of the running instance, its \"listen\" (default "+defaultServer+")")
	flags.StringVar(&f.context, "context", "", "`context` of the ingress cluster: ask the pod that leads there")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of that pod (default "+defaultNamespace+")")
	flags.StringVar(&f.instance, "instance", "", "`instance` in the configuration of that pod (default "+defaultInstance+")")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` with that context (default: as kubectl)")
	for _, flag := range []string{"context", "namespace", "instance", "kubeconfig"} {
		cmd.MarkFlagsMutuallyExclusive("server", flag)
	}
	return f
}

// open finds the instance. The caller closes it.
func (f *instanceFlags) open(ctx context.Context) (*instance, error) {
	if f.context+f.namespace+f.instance+f.kubeconfig != "" {
		return f.forward(ctx)
	}
	return newInstance(cmp.Or(f.server, defaultServer))
}

// ask reads what a page of an instance answers.
func ask[T any](ctx context.Context, from *instanceFlags, path string, query url.Values) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	i, err := from.open(ctx)
	if err != nil {
		return nil, err
	}
	defer i.close()
	body, err := i.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	out := new(T)
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(out); err != nil {
		return nil, fmt.Errorf("read the answer: %w; is the server a tributary of this version?", err)
	}
	return out, nil
}

// newInstance reads the address of an instance: a URL, or host:port.
func newInstance(server string) (*instance, error) {
	text := server
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, usage{fmt.Errorf("--server: %q is not an address; give a URL such as %s", server, defaultServer)}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = 10 * time.Second
	return &instance{base: base, http: &http.Client{Transport: transport}}, nil
}

// close lets go of the connections.
func (i *instance) close() {
	i.http.CloseIdleConnections()
	if i.stop != nil {
		i.stop()
	}
}

// get asks for a page. The caller closes the body.
func (i *instance) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	target := i.base.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", i.base.Redacted(), err)
	}
	response, err := i.http.Do(request)
	if err != nil {
		// The client repeats method and URL; only the reason is news.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("cannot reach %s: %w; is \"tributary run\" running, and is this the \"listen\" of its configuration? "+
			"Give another address with --server, or --context to ask the pod that leads", i.base.Redacted(), err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxComplaint))
	err = fmt.Errorf("%s answered %s: %s", target.Redacted(), response.Status, strings.TrimSpace(page.Legible(string(said))))
	if response.StatusCode == http.StatusBadRequest {
		return nil, usage{err}
	}
	return nil, err
}
