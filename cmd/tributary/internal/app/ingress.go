// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/leader"
)

const (
	// ingressRetry is how often a new credential of the ingress cluster is tried again.
	ingressRetry = 2 * time.Second
	// openTimeout bounds the opening of a session.
	openTimeout = 15 * time.Second
	// dialTimeout is how long it may take to connect.
	dialTimeout = 10 * time.Second
)

// ingress is the ingress cluster: three ways to the same cluster, so that a burst of events
// does not delay a write, nor either the Lease. Each has connections of its own; a new
// credential takes the place of the old one in all three.
type ingress struct {
	follow, write, elect *way
	logger               *slog.Logger
	// changed is signalled when another credential may be wanted.
	changed chan struct{}

	mu sync.Mutex
	// wanted is how the cluster is to be reached, and problem why it is not reached so.
	wanted  config.Access
	problem error
}

// way is one of the three.
type way struct {
	*kube.Access
	open func(context.Context) (*kube.Session, error)
	mu   sync.Mutex
	used string // hash of the credential that its session was opened with
}

// newIngress returns the ways, none of which is open yet. What is sent by write passes the
// permit's connections.
func newIngress(loaded *config.Loaded, permit *leader.Permit, m *metrics.Metrics, version string, logger *slog.Logger) *ingress {
	i := &ingress{logger: logger, changed: make(chan struct{}, 1), wanted: loaded.Ingress}
	pin := kube.NewPin(loaded.Config.Ingress.Identity)
	open := func(through func(leader.Dialer) leader.Dialer) *way {
		w := &way{}
		w.open = func(ctx context.Context) (*kube.Session, error) {
			access := i.access()
			reach := rest.CopyConfig(access.REST)
			if through != nil && reach.Dial == nil {
				reach.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
			}
			if through != nil {
				reach.Dial = through(reach.Dial)
			}
			ctx, cancel := context.WithTimeout(ctx, openTimeout)
			defer cancel()
			session, err := kube.Open(ctx, reach, kube.Options{Cluster: "ingress", Version: version, Pin: pin, Wrap: m.Transport(metrics.RoleIngress, "")})
			i.note(err)
			if err == nil {
				w.mu.Lock()
				w.used = access.Hash
				w.mu.Unlock()
			}
			return session, err
		}
		w.Access = kube.NewAccess(w.open)
		return w
	}
	i.follow, i.write, i.elect = open(nil), open(permit.Dial), open(nil)
	return i
}

func (i *ingress) access() config.Access {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.wanted
}

// note remembers why the cluster is not reached, and says so when that is news.
func (i *ingress) note(err error) {
	i.mu.Lock()
	before := i.problem
	i.problem = err
	i.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		i.logger.Error("the ingress cluster is not reached, trying on", "error", err)
	case err == nil && before != nil:
		i.logger.Info("the ingress cluster is reached")
	}
}

// trouble is why the cluster is not reached as it is configured; nil: it is.
func (i *ingress) trouble() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.problem
}

// use says how the cluster is to be reached from now on. It never blocks.
func (i *ingress) use(access config.Access) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if access.REST == nil || access.Hash == i.wanted.Hash {
		return
	}
	i.wanted = access
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// run lets new credentials take the place of those in use, until ctx ends. One that does not
// work takes nothing from what serves, and is tried again.
func (i *ingress) run(ctx context.Context) {
	defer func() {
		for _, w := range []*way{i.follow, i.write, i.elect} {
			w.Close()
		}
	}()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.changed:
		case <-retry:
		}
		retry = nil
		if !i.renew(ctx) {
			retry = time.After(ingressRetry)
		}
	}
}

// renew reports whether all ways have the credential that is wanted.
func (i *ingress) renew(ctx context.Context) bool {
	wanted, all, renewed := i.access().Hash, true, false
	for _, w := range []*way{i.follow, i.write, i.elect} {
		if _, err := w.Get(ctx); err != nil { // one that is being opened may have begun with the former credential
			all = false
			continue
		}
		w.mu.Lock()
		stale := w.used != wanted
		w.mu.Unlock()
		if !stale {
			continue
		}
		session, err := w.open(ctx)
		if err != nil {
			all = false
			continue
		}
		w.Swap(session)
		renewed = true
	}
	if all && renewed {
		i.logger.Info("the ingress cluster is reached with a new credential")
	}
	return all
}

// ownNamespace makes Tributary's own namespace if it is missing, as it is where no chart has
// made it. It tries until there is an answer. Who may not read or make it goes on.
func (i *ingress) ownNamespace(ctx context.Context, name string, labels map[string]string) {
	for ctx.Err() == nil {
		client, err := i.elect.clientset(ctx)
		if err == nil {
			asking, cancel := context.WithTimeout(ctx, openTimeout)
			if _, err = client.CoreV1().Namespaces().Get(asking, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				_, err = client.CoreV1().Namespaces().Create(asking, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
			}
			cancel()
		}
		if err == nil || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(ingressRetry):
		}
	}
}

// clientset is the client of a way.
func (w *way) clientset(ctx context.Context) (kubernetes.Interface, error) {
	session, err := w.Get(ctx)
	if err != nil {
		return nil, err
	}
	return session.Clientset(), nil
}

// roundTripper is short for what wraps transports.
type roundTripper = http.RoundTripper
