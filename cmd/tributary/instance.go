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

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
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
type instanceFlags struct {
	server, kubeconfig, context, namespace, instance string
	port                                             uint16
}

func addInstanceFlags(cmd *cobra.Command) *instanceFlags {
	f := &instanceFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "`address` of the running instance: the \"listen\" of its configuration (default "+defaultServer+")")
	flags.StringVar(&f.context, "context", "", "`context` of a kubeconfig: ask the leading pod of that cluster, through a forwarded port")
	completeContexts(cmd, "context")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of that pod (default "+defaultNamespace+")")
	flags.StringVar(&f.instance, "instance", "", "the installation whose pod that is: the \"instance\" of its configuration (default "+config.DefaultInstance+")")
	flags.Uint16Var(&f.port, "port", 0, fmt.Sprintf("`port` of the \"listen\" of that pod's configuration (default %d)", defaultPort))
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` to use with --context and --namespace (default: as kubectl)")
	return f
}

// open finds the instance. The caller closes it.
func (f *instanceFlags) open(ctx context.Context) (*instance, error) {
	inCluster := f.context != "" || f.namespace != "" || f.kubeconfig != "" || f.instance != "" || f.port != 0
	switch {
	case inCluster && f.server != "":
		return nil, misused(errors.New("--server excludes --context, --namespace, --kubeconfig, --instance and --port"))
	case inCluster:
		return f.forward(ctx)
	}
	return newInstance(cmp.Or(f.server, defaultServer))
}

// status asks an instance for its state.
func (f *instanceFlags) status(ctx context.Context) (*metrics.Status, error) {
	return ask[metrics.Status](ctx, f, "/debug/status", nil)
}

// ask reads what a page of an instance answers.
func ask[T any](ctx context.Context, from *instanceFlags, page string, query url.Values) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	i, err := from.open(ctx)
	if err != nil {
		return nil, err
	}
	defer i.close()
	return decodeAnswer[T](i.get(ctx, page, query))
}

// decodeAnswer reads and closes an answer.
func decodeAnswer[T any](body io.ReadCloser, err error) (*T, error) {
	if err != nil {
		return nil, failed(err)
	}
	defer body.Close()
	out := new(T)
	if err := json.NewDecoder(io.LimitReader(body, maxStatus)).Decode(out); err != nil {
		return nil, failedf("read the answer: %w; is the server a tributary of this version?", err)
	}
	return out, nil
}

// tell posts to a page of an instance, which does something.
func tell[T any](ctx context.Context, from *instanceFlags, page string, query url.Values) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	i, err := from.open(ctx)
	if err != nil {
		return nil, err
	}
	defer i.close()
	return decodeAnswer[T](i.post(ctx, page, query, http.Header{app.OperatorHeader: {"1"}}))
}

// instanceFlagsOf reads the flags of a command whose arguments are completed; one without
// them has the defaults.
func instanceFlagsOf(cmd *cobra.Command) *instanceFlags {
	f := &instanceFlags{}
	for name, value := range map[string]*string{"server": &f.server, "context": &f.context, "namespace": &f.namespace, "kubeconfig": &f.kubeconfig, "instance": &f.instance} {
		*value, _ = cmd.Flags().GetString(name)
	}
	f.port, _ = cmd.Flags().GetUint16("port")
	return f
}

// instanceNames completes names from the state of the instance that the flags name.
func instanceNames(cmd *cobra.Command, names func(*metrics.Status) []string) ([]string, cobra.ShellCompDirective) {
	status, err := instanceFlagsOf(cmd).status(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(status), cobra.ShellCompDirectiveNoFileComp
}

// serviceNames completes the names of the replicas that the members of an instance contribute to.
func serviceNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, _ := ask[app.Explainable](cmd.Context(), instanceFlagsOf(cmd), app.ExplainPath, nil)
	if names == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names.Services, cobra.ShellCompDirectiveNoFileComp
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
