// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options say how a session behaves. The zero value is usable.
type Options struct {
	// Version of the product, for the User-Agent.
	Version string
	// Pin is the identity that the cluster must have; nil: it may be any, and is then to stay
	// the same.
	Pin *Pin
	// Wrap observes requests, for metrics; nil does not.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Session is a way to one cluster: its own transport, shared with nothing, over which
// nothing is read before the cluster at its other end has shown its identity. All methods
// are safe for concurrent use.
type Session struct {
	host, version string
	pin           *Pin
	pool          *pool
	clientset     *kubernetes.Clientset
	// proved is until when the cluster need not show its identity again, in nanoseconds of Unix time.
	proved  atomic.Int64
	proving singleflight.Group
}

// Open connects, and checks the identity of the cluster before anything is read. cfg is not
// changed. Its QPS is ignored: there is no limit of requests on our side.
// The error wraps ErrOtherCluster where another cluster answers, and leaves it to the caller to name the cluster.
func Open(ctx context.Context, cfg *rest.Config, o Options) (*Session, error) {
	s := &Session{host: cfg.Host, pin: cmp.Or(o.Pin, NewPin(""))}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "tributary/" + cmp.Or(o.Version, "devel")
	cfg.ContentType = runtime.ContentTypeProtobuf
	// JSON is for proxies that speak only that.
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.WarningHandler = rest.NoWarnings{} // each answer about v1 Endpoints has one
	cfg.RateLimiter, cfg.QPS = nil, -1     // 0 would mean client-go's five requests a second
	client, err := s.newClient(ctx, cfg, o.Wrap)
	if err == nil {
		s.clientset, err = kubernetes.NewForConfigAndClient(cfg, client)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if s.version, err = s.askVersion(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Clientset is the typed client. Its requests end with their context alone, and answers of more
// than 8 MiB fail. There is no limit of requests a second.
func (s *Session) Clientset() kubernetes.Interface { return s.clientset }

// Identity is the UID of the cluster's namespace kube-system, by which it is known; "" while
// that is unknown.
func (s *Session) Identity() string { return s.pin.Known() }

// ClockOffset is how far the server's clock is ahead of ours, by the Date of its answers,
// to about a second and at most an hour; negative: behind.
func (s *Session) ClockOffset() time.Duration { return time.Duration(s.pool.heard.offset.Load()) }

// LastContact is when the cluster last sent something.
func (s *Session) LastContact() time.Time { return time.Unix(0, s.pool.heard.last.Load()) }

// Close ends all requests and connections. It may be called more than once. A nil *Session is closed.
func (s *Session) Close() {
	if s != nil {
		s.pool.close()
	}
}

// retire has no new request sent over connections that showed the identity of their cluster at least that
// long ago. Each is closed when nothing is under way over it: requests, or a watch.
func (s *Session) retire(age time.Duration) {
	if s != nil {
		s.pool.retire(age)
	}
}

// client is the client that a resource is read with.
func (s *Session) client(r Resource) rest.Interface {
	if r.Group == discoveryv1.GroupName {
		return s.clientset.DiscoveryV1().RESTClient()
	}
	return s.clientset.CoreV1().RESTClient()
}

// Version is that of the server, such as "v1.36.3"; "" where it does not say.
func (s *Session) Version() string { return s.version }

// askVersion asks the server for its version, which also tells whether it lets us in.
func (s *Session) askVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout) // to connect may take as long
	defer cancel()
	body, err := s.clientset.CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	var said version.Info
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err != nil {
		return "", fmt.Errorf("read the version of the cluster: %w", err)
	}
	return fmt.Sprintf("%.64s", said.GitVersion), nil
}
