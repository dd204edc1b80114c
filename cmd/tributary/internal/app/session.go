// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
)

// roundTripper shortens the signatures of transport wrappers.
type roundTripper = http.RoundTripper

// ErrNoSlices is why slices cannot be written to an old ingress cluster.
var ErrNoSlices = errors.New("the ingress cluster does not offer discovery.k8s.io/v1 (Kubernetes 1.21 or newer does); set replicas.write to [Endpoints]")

// ingressSession is the ingress cluster as one configuration reaches it: two
// connections, so that a burst of watch events does not delay a write, and the
// reconciler that uses them. It is closed, or started and ended.
type ingressSession struct {
	watch, write *kube.Connection
	version      kube.ServerVersion
	reconciler   *reconcile.Reconciler
	// hash is that of the access it was opened with.
	hash string
	// turn is closed when this session is the one that writes.
	turn    chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup
}

// ingressOptions are what an ingress session is made from.
type ingressOptions struct {
	access   config.Access
	settings reconcile.Settings
	source   reconcile.Source
	metrics  *metrics.Metrics
	// version is that of the product.
	version string
	logger  *slog.Logger
}

// sessionOptions are those of a configuration.
func (r *App) sessionOptions(loaded *config.Loaded) ingressOptions {
	return ingressOptions{
		access: loaded.Ingress, settings: settings(&loaded.Config), source: source{r.set}, metrics: r.metrics, version: r.build.Version, logger: r.logger,
	}
}

// openIngress connects and asks the server what it offers. It fails when the
// server does not answer: the caller tries again.
func openIngress(ctx context.Context, o ingressOptions) (*ingressSession, error) {
	session := &ingressSession{hash: o.access.Hash, turn: make(chan struct{})}
	// What the server warns of is said once: by the first connection.
	logger := o.logger
	for _, connection := range []**kube.Connection{&session.watch, &session.write} {
		access := rest.CopyConfig(o.access.REST)
		if connection == &session.write {
			access.QPS = 0 // handed out by lane, not by order of arrival: see queueOptions
		}
		c, err := kube.Connect(access, kube.ConnectOptions{
			Cluster: "ingress", Version: o.version, Wrap: o.metrics.Transport(metrics.RoleIngress, ""), Logger: logger,
		})
		logger = nil
		if err != nil {
			session.close()
			return nil, err
		}
		*connection = c
	}
	slices, err := session.ask(ctx)
	if err == nil && !slices && o.settings.WriteSlices {
		err = ErrNoSlices
	}
	if err != nil {
		session.close()
		return nil, err
	}
	session.reconciler = reconcile.New(reconcile.Options{
		Client: session.watch.Clientset(), Writer: session.write.Clientset(), Events: session.watch.Clientset(), Source: o.source, Settings: o.settings,
		NoSlices: !slices, PlainLists: !session.version.AtLeast(1, 34), Recorder: o.metrics, Logger: o.logger, Queue: queueOptions(o.metrics, o.access.REST),
		Turn: session.turn,
	})
	return session, nil
}

// ask reads the version and whether discovery.k8s.io/v1 is offered.
func (s *ingressSession) ask(ctx context.Context) (slices bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.version, err = s.watch.Version(ctx); err != nil {
		return false, err
	}
	return OffersSlices(ctx, s.watch)
}

// OffersSlices reports whether the cluster serves discovery.k8s.io/v1.
func OffersSlices(ctx context.Context, c *kube.Connection) (bool, error) {
	err := c.Clientset().Discovery().RESTClient().Get().AbsPath("/apis/discovery.k8s.io/v1").Do(ctx).Error()
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("ask the ingress cluster for discovery.k8s.io/v1: %w", err)
	}
}

// start lists and watches, and writes from its turn on; then beside runs, too.
func (s *ingressSession) start(ctx context.Context, beside func(context.Context)) {
	ctx, s.stop = context.WithCancel(ctx)
	s.running.Go(func() { s.reconciler.Run(ctx) })
	s.running.Go(func() {
		select {
		case <-s.turn:
			beside(ctx)
		case <-ctx.Done():
		}
	})
}

// end lets writes in flight end, and returns when nothing is left of the session.
func (s *ingressSession) end() {
	s.stop()
	s.running.Wait()
	s.close()
}

func (s *ingressSession) close() {
	for _, c := range []*kube.Connection{s.watch, s.write} {
		if c != nil {
			c.Close()
		}
	}
}
