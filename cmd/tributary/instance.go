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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/metrics"
)

// defaultServer is where an instance with the default configuration listens.
const defaultServer = "http://127.0.0.1:9440"

// maxComplaint bounds how much of a refused request's answer is shown.
const maxComplaint = 4 << 10

// instance is a running tributary, as its pages show it.
type instance struct {
	base *url.URL
	http *http.Client
	// stop ends a forwarded port; nil where there is none.
	stop func()
}

// instanceFlags say which running instance a command asks.
type instanceFlags struct{ server, kubeconfig, context, namespace string }

func addInstanceFlags(cmd *cobra.Command) *instanceFlags {
	f := &instanceFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "`address` of the running instance: the \"listen\" of its configuration (default "+defaultServer+")")
	flags.StringVar(&f.context, "context", "", "`context` of a kubeconfig: ask the leading pod of that cluster, through a forwarded port")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of that pod (default "+defaultNamespace+")")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` to use with --context and --namespace (default: as kubectl)")
	return f
}

// open finds the instance. The caller closes it.
func (f *instanceFlags) open(ctx context.Context) (*instance, error) {
	inCluster := f.context != "" || f.namespace != "" || f.kubeconfig != ""
	switch {
	case inCluster && f.server != "":
		return nil, misused(errors.New("--server and --context, --namespace or --kubeconfig exclude each other"))
	case inCluster:
		return f.forward(ctx)
	}
	return newInstance(cmp.Or(f.server, defaultServer))
}

// status asks an instance for its state.
func (f *instanceFlags) status(ctx context.Context) (*metrics.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	i, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	defer i.close()
	return i.status(ctx)
}

// status reads the state of the instance.
func (i *instance) status(ctx context.Context) (*metrics.Status, error) {
	body, err := i.get(ctx, "/debug/status", nil)
	if err != nil {
		return nil, failed(err)
	}
	defer body.Close()
	var status metrics.Status
	if err := json.NewDecoder(io.LimitReader(body, maxStatus)).Decode(&status); err != nil {
		return nil, failedf("read status: %w; is the server a tributary of this version?", err)
	}
	return &status, nil
}

// instanceNames completes names from the state of the instance that the flags name.
func instanceNames(cmd *cobra.Command, names func(*metrics.Status) []string) ([]string, cobra.ShellCompDirective) {
	f := &instanceFlags{}
	for name, value := range map[string]*string{"server": &f.server, "context": &f.context, "namespace": &f.namespace, "kubeconfig": &f.kubeconfig} {
		*value, _ = cmd.Flags().GetString(name) // a command without the flag has the default
	}
	status, err := f.status(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(status), cobra.ShellCompDirectiveNoFileComp
}

// serviceNames completes the names of replicas that the instance has something to
// tell about.
func serviceNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return instanceNames(cmd, func(s *metrics.Status) []string {
		var names []string
		for _, c := range s.Conflicts {
			names = append(names, c.Namespace+"/"+c.Service)
		}
		for _, h := range s.Held {
			if h.Service != "" {
				names = append(names, h.Namespace+"/"+h.Service)
			}
		}
		for _, rec := range s.Slowest {
			names = append(names, rec.Namespace+"/"+rec.Service)
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
}

// newInstance reads the address of an instance: a URL, or host:port.
func newInstance(server string) (*instance, error) {
	text := server
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, misused(fmt.Errorf("--server: %q is not an address; give a URL such as %s", server, defaultServer))
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
