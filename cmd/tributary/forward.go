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
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics/page"
)

const (
	// defaultNamespace is where the manifests put Tributary, and defaultInstance the
	// installation that the default configuration names.
	defaultNamespace, defaultInstance = "tributary-system", "default"
	// defaultPort is that of the pages in its pods.
	defaultPort = 9440
)

// loading reads a context of the user's kubeconfig, as kubectl does.
func loading(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// forward finds the pod that leads and forwards a port of this machine to its pages.
func (f *instanceFlags) forward(ctx context.Context) (*instance, error) {
	logLibraries(slog.DiscardHandler) // what they say of a connection that ends is no fault of the command
	access, err := loading(f.kubeconfig, f.context).ClientConfig()
	if err != nil {
		return nil, usage{fmt.Errorf("--context: %w", err)}
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, usage{fmt.Errorf("--context: %w", err)}
	}
	namespace := cmp.Or(f.namespace, defaultNamespace)
	holder, err := leader(ctx, client, namespace, cmp.Or(f.instance, defaultInstance))
	if err != nil {
		return nil, err
	}
	out, err := forwardTo(ctx, access, client, namespace, holder)
	if err != nil {
		return nil, fmt.Errorf("forward a port to pod %s/%s, which holds the Lease: %w; if it has just gone, another will lead in some seconds, "+
			"and if this is no pod but a process elsewhere, give its address with --server", namespace, holder, err)
	}
	return out, nil
}

// leader is who holds the Lease of an installation: a pod, by its name.
func leader(ctx context.Context, client kubernetes.Interface, namespace, instance string) (string, error) {
	name := app.LeasePrefix + instance
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("namespace %s has no Lease %s: name another with --namespace or --instance; "+
			"an instance without leader election is asked through kubectl port-forward, with --server", namespace, name)
	case err != nil:
		return "", fmt.Errorf("read the Lease that names the pod that leads: %w", err)
	case lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
		return "", fmt.Errorf("nobody holds the Lease %s/%s: no pod leads at the moment; kubectl get pods -n %[1]s says why", namespace, name)
	}
	return *lease.Spec.HolderIdentity, nil
}

// forwardTo opens a port of this machine that leads to the pages of a pod.
func forwardTo(ctx context.Context, access *rest.Config, client *kubernetes.Clientset, namespace, pod string) (*instance, error) {
	target := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(access)
	if err != nil {
		return nil, err
	}
	overWebsocket, err := portforward.NewSPDYOverWebsocketDialer(target, access)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	dialer := portforward.NewFallbackDialer(overWebsocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", defaultPort)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		close(stop) // it ends once the API server has answered
		return nil, ctx.Err()
	case <-ready:
	}
	var out *instance
	ports, err := forwarder.GetPorts()
	if err == nil {
		out, err = newInstance(fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	}
	if err != nil {
		close(stop)
		<-ended
		return nil, err
	}
	out.stop = func() { close(stop); <-ended }
	return out, nil
}

const (
	// defaultServer is where an instance with the default configuration listens.
	defaultServer = "http://127.0.0.1:9440"
	// askTimeout bounds the whole of a question, and maxAnswer what is read of its answer.
	askTimeout = 15 * time.Second
	maxAnswer  = 64 << 20
	// maxComplaint bounds what of a refused request's answer is shown.
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
	return &instance{base: base, http: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}, nil
}

// close closes the connections.
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
