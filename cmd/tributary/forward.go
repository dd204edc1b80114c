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
	// defaultServer is where an instance with the default configuration listens.
	defaultServer = "http://127.0.0.1:9440"
	// askTimeout bounds the whole of a question, and maxAnswer what is read of its answer.
	askTimeout = 15 * time.Second
	maxAnswer  = 64 << 20
	// maxComplaint bounds what of a refused request's answer is shown.
	maxComplaint = 4 << 10
)

// loading reads a context of the user's kubeconfig, as kubectl does.
func loading(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// forward finds the pod that leads and forwards a port of this machine to its pages, until it is
// stopped.
func (f *instanceFlags) forward(ctx context.Context) (address string, stop func(), err error) {
	logLibraries(slog.DiscardHandler) // what they say of a connection that ends is no fault of the command
	access, err := loading(f.kubeconfig, f.context).ClientConfig()
	if err != nil {
		return "", nil, usage{fmt.Errorf("--context: %w", err)}
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return "", nil, usage{fmt.Errorf("--context: %w", err)}
	}
	namespace := cmp.Or(f.namespace, defaultNamespace)
	holder, err := leader(ctx, client, namespace, cmp.Or(f.instance, defaultInstance))
	if err != nil {
		return "", nil, err
	}
	if address, stop, err = forwardTo(ctx, access, client, namespace, holder); err != nil {
		err = fmt.Errorf("forward a port to pod %s/%s, which holds the Lease: %w; if it has just gone, another will lead in some seconds, "+
			"and if this is no pod but a process elsewhere, give its address with --server", namespace, holder, err)
	}
	return address, stop, err
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
func forwardTo(ctx context.Context, access *rest.Config, client *kubernetes.Clientset, namespace, pod string) (address string, stop func(), err error) {
	target := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(access)
	if err != nil {
		return "", nil, err
	}
	overWebsocket, err := portforward.NewSPDYOverWebsocketDialer(target, access)
	if err != nil {
		return "", nil, err
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	dialer := portforward.NewFallbackDialer(overWebsocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	end, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", defaultPort)}, end, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return "", nil, err
	case <-ctx.Done():
		close(end) // it ends once the API server has answered
		return "", nil, ctx.Err()
	case <-ready:
	}
	stop = func() {
		close(end)
		<-ended
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
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

// ask reads what a page of an instance answers.
func ask[T any](ctx context.Context, from *instanceFlags, path string, query url.Values) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := new(T)
	return out, from.read(ctx, path, query, func(answer io.Reader) error {
		if err := json.NewDecoder(io.LimitReader(answer, maxAnswer)).Decode(out); err != nil {
			return fmt.Errorf("read the answer: %w; is the server a tributary of this version?", err)
		}
		return nil
	})
}

// read asks an instance for a page, by a connection of its own, and passes the answer on.
func (f *instanceFlags) read(ctx context.Context, path string, query url.Values, answered func(io.Reader) error) error {
	server := cmp.Or(f.server, defaultServer)
	if f.context+f.namespace+f.instance+f.kubeconfig != "" {
		forwarded, stop, err := f.forward(ctx)
		if err != nil {
			return err
		}
		defer stop()
		server = forwarded
	}
	base, err := baseOf(server)
	if err != nil {
		return err
	}
	target := base.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", base.Redacted(), err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		// The client repeats method and URL; only the reason is news.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return fmt.Errorf("cannot reach %s: %w; is \"tributary run\" running, and is this the \"listen\" of its configuration? "+
			"Give another address with --server, or --context to ask the pod that leads", base.Redacted(), err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return answered(response.Body)
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxComplaint))
	err = fmt.Errorf("%s answered %s: %s", target.Redacted(), response.Status, strings.TrimSpace(page.Legible(string(said))))
	if response.StatusCode == http.StatusBadRequest {
		return usage{err}
	}
	return err
}

// baseOf reads the address of an instance: a URL, or host:port.
func baseOf(server string) (*url.URL, error) {
	text := server
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, usage{fmt.Errorf("--server: %q is not an address; give a URL such as %s", server, defaultServer)}
	}
	return base, nil
}
