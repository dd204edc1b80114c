// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/flowcontrol"
)

// ConnectOptions say how a connection behaves. The zero value is usable.
type ConnectOptions struct {
	// Cluster names the cluster in errors and logs.
	Cluster string
	// Version of the product, for the User-Agent.
	Version string
	// Pin is the identity that the cluster must have: nothing is sent to another but the
	// question for it, and no answer of another is handed on. nil: it is not asked.
	Pin *Pin
	// Wrap observes requests, such as metrics.Metrics.Transport does; nil does not.
	Wrap func(http.RoundTripper) http.RoundTripper
	// RolesOnly asks nothing of the cluster that only a ClusterRole could grant.
	RolesOnly bool
	// WrapDial sees what is sent on the connections; nil does not.
	WrapDial func(next DialFunc) DialFunc
	// Logger says each distinct warning of the server once; nil says nothing.
	Logger *slog.Logger
}

// Connection is one way to one cluster: its own transport, shared with nothing,
// which Close ends whatever is still using it. All methods are safe for
// concurrent use.
type Connection struct {
	cluster   string
	host      string
	rolesOnly bool
	clientset *kubernetes.Clientset
	transport *http.Transport
	dialer    *connrotation.Dialer
	identity  *identityCheck // nil: not asked
	// dials counts TCP connections: each may have reached another cluster than the
	// one before it.
	dials atomic.Int64
}

// contentTypes asks for protobuf and accepts JSON, for proxies that speak only
// that.
const (
	contentType        = runtime.ContentTypeProtobuf
	acceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
)

// Connect prepares a connection; nothing is sent. cfg is not changed; its QPS and
// Burst limit requests other than watches, and QPS 0 means no limit. It is not
// client-go's usual way, which shares transports between all users of equal
// credentials: a member must not wait behind another's requests, and the ends of
// a connection must be ours to decide.
func Connect(cfg *rest.Config, o ConnectOptions) (*Connection, error) {
	c := &Connection{cluster: o.Cluster, host: cfg.Host, rolesOnly: o.RolesOnly}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = userAgent(o.Version)
	cfg.ContentType, cfg.AcceptContentTypes = contentType, acceptContentTypes
	cfg.WarningHandler = newWarnings(o.Logger)
	cfg.RateLimiter = nil
	if cfg.QPS > 0 {
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, max(1, cfg.Burst))
	} else {
		cfg.QPS = -1 // 0 would mean client-go's five requests a second
	}
	if err := c.open(cfg, o); err != nil {
		return nil, fmt.Errorf("connect to cluster %s: %w", o.Cluster, err)
	}
	return c, nil
}

func userAgent(version string) string {
	if version == "" {
		version = "devel"
	}
	return "tributary/" + version
}

// open builds transport and clients.
func (c *Connection) open(cfg *rest.Config, o ConnectOptions) error {
	c.dialer = connrotation.NewDialer(c.dial(cfg.Dial, o.WrapDial))
	cfg.Dial = c.dialer.DialContext
	tc, err := cfg.TransportConfig()
	if err != nil {
		return err
	}
	if c.transport, err = newTransport(tc); err != nil {
		return err
	}
	authenticated, err := transport.HTTPWrappersForConfig(tc, c.transport)
	if err != nil {
		return err
	}
	if cfg.ExecProvider != nil || cfg.AuthProvider != nil {
		authenticated = newDetached(authenticated)
	}
	var rt http.RoundTripper = roundTripper{wrapped{authenticated}}
	if o.Wrap != nil {
		rt = o.Wrap(rt)
	}
	if o.Pin != nil {
		c.identity = newIdentityCheck(c, o.Pin)
		rt = identified{wrapped{rt}, c.identity}
	}
	c.clientset, err = kubernetes.NewForConfigAndClient(cfg, &http.Client{Transport: rt})
	return err
}

// Clientset is the typed client. Requests other than watches are given up after
// requestTimeout unless their context says otherwise.
func (c *Connection) Clientset() kubernetes.Interface { return c.clientset }

// Host is the address of the server as configured; it holds no secret.
func (c *Connection) Host() string { return c.host }

// Close ends all requests and connections. It may be called more than once.
func (c *Connection) Close() {
	c.transport.CloseIdleConnections()
	c.dialer.CloseAll()
}

// client is the one that lists and watches of a resource go through.
func (c *Connection) client(r Resource) *rest.RESTClient {
	api := c.clientset.CoreV1().RESTClient()
	if r.Group == discoveryv1.GroupName {
		api = c.clientset.DiscoveryV1().RESTClient()
	}
	client, _ := api.(*rest.RESTClient)
	return client
}
