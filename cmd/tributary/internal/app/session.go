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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/inventory"
	"tributary.dev/tributary/reconcile/leader"
)

// roundTripper shortens the signatures of transport wrappers.
type roundTripper = http.RoundTripper

// aloneGrace is how long writes in flight may take at the end: well below the ten seconds of
// SIGTERM. Where another process may wait for the Lease, handoverGrace is: what was given up
// is compared, and written if need be, by whoever leads within a second.
const (
	aloneGrace    = 5 * time.Second
	handoverGrace = 700 * time.Millisecond
)

// ErrNoSlices is why slices cannot be written to an old ingress cluster.
var ErrNoSlices = errors.New("the ingress cluster does not offer discovery.k8s.io/v1 (Kubernetes 1.21 or newer does); set replicas.write to [Endpoints]")

// switchGrace is how long writes in flight may take when another session takes the
// place of theirs: a connection that hangs must not keep that one from writing.
const switchGrace = time.Second

// sessionKey is what a session was opened with: another one is needed where it differs.
type sessionKey struct {
	// access is the hash of the access.
	access   string
	election electionKey
}

// ingressSession is the ingress cluster as one configuration reaches it: three
// connections, so that a burst of watch events does not delay a write, nor either the
// Lease, the reconciler that uses them, and the election in which it takes part.
//
// It is opened, follows, serves, and is ended. A nil one has ended.
type ingressSession struct {
	key             sessionKey
	watch           *kube.Session
	write, electing *kube.Connection
	reconciler      *reconcile.Reconciler
	// permit is what every request that changes something passes.
	permit  *leader.Permit
	elector *leader.Elector
	// begun is closed when replicas may be looked at.
	begun     chan struct{}
	following sync.WaitGroup
	stop      context.CancelFunc
	serving   sync.WaitGroup
	resign    context.CancelCauseFunc
	// context is that of the access it was opened with.
	context string
	// known is what the inventory of the cluster says, unrecorded why that could not be read.
	known      inventory.Inventory
	unrecorded error
}

// ingressOptions are what an ingress session is made from.
type ingressOptions struct {
	access  config.Access
	key     sessionKey
	config  *config.Config
	former  *ingressSession
	source  reconcile.Source
	outside reconcile.Outside
	metrics *metrics.Metrics
	// version is that of the product.
	version string
	logger  *slog.Logger
	// changed is called when the session leads, or does no longer.
	changed func()
	// leading is called before it begins to write.
	leading func(former time.Time)
	// trial: nothing is ever written, and dry runs need nobody's permit.
	trial bool
}

// sessionOptions are those of a configuration; former is the session that serves, if
// there is one.
func (r *App) sessionOptions(loaded *config.Loaded, former *ingressSession) ingressOptions {
	r.mu.Lock()
	key := r.key(loaded)
	r.mu.Unlock()
	return ingressOptions{
		access: loaded.Ingress, key: key, config: &loaded.Config, former: former, changed: r.signal, leading: r.lead, source: r.source, outside: r.sinks, metrics: r.metrics, version: r.build.Version, logger: r.logger,
	}
}

// openIngress connects and asks the server what it offers. It fails when the
// server does not answer: the caller tries again.
func openIngress(ctx context.Context, o ingressOptions) (*ingressSession, error) {
	session := &ingressSession{key: o.key, context: o.access.Context, permit: &leader.Permit{}, begun: make(chan struct{})}
	if err := session.connect(ctx, o); err != nil {
		session.close()
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	slices, err := OffersSlices(asking, session.watch.Clientset())
	cancel()
	if err == nil {
		err = session.identify(ctx, o.config, o.former)
	}
	if err == nil {
		err = session.follows(o.access, o.config, o.former)
	}
	if err == nil && !slices && settings(o.config).WriteSlices {
		err = ErrNoSlices
	}
	if err != nil {
		session.close()
		return nil, err
	}
	grace := handoverGrace
	if !o.key.election.Enabled {
		grace = aloneGrace
	}
	session.reconciler = reconcile.New(reconcile.Options{
		Session: session.watch, Writer: session.write.Clientset(), Events: session.watch.Clientset(), Source: o.source, Outside: o.outside,
		Only: o.config.Ingress.Only(), NoSlices: !slices, Recorder: o.metrics, Heartbeats: o.metrics.Heartbeats(), Logger: o.logger, Queue: queueOptions(o.metrics, o.access.REST),
		Begin: session.begun, Grace: grace, Leading: func() { o.leading(session.elector.State().Former) }, // who plans never leads
	})
	election := o.key.election.options()
	election.Client, election.Permit, election.Logger, election.Changed = session.electing.Clientset(), session.permit, o.logger, o.changed
	session.elector = leader.New(election)
	return session, nil
}

// connect makes the connections, all to the cluster that is expected; only the first asks.
// Whatever is sent on two of them passes the permit; the third is the election's, and
// nothing limits it.
func (s *ingressSession) connect(ctx context.Context, o ingressOptions) (err error) {
	observed := o.metrics.Transport(metrics.RoleIngress, "")
	unlimited := rest.CopyConfig(o.access.REST)
	unlimited.QPS = 0 // for writes it is handed out by lane, not by order of arrival: see queueOptions
	pin := kube.NewPin(expectedIdentity(o.config, o.former))
	guarded := kube.ConnectOptions{
		Cluster: "ingress", Version: o.version, Pin: pin, RolesOnly: o.config.Ingress.RolesOnly, Logger: o.logger, WrapDial: s.permit.Dial,
		Wrap: func(next roundTripper) roundTripper { return s.permit.RoundTripper(observed(next)) },
	}
	if o.trial {
		guarded.Wrap = func(next roundTripper) roundTripper { return leader.Trial(observed(next)) }
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if s.watch, err = kube.Open(ctx, o.access.REST, kube.SessionOptions{ConnectOptions: guarded}); err != nil {
		return otherIngress(err)
	}
	guarded.Logger = nil // what the server warns of is said once: by the first connection
	if s.write, err = kube.Connect(unlimited, guarded); err != nil {
		return err
	}
	s.electing, err = kube.Connect(unlimited, kube.ConnectOptions{Cluster: "ingress", Version: o.version, Pin: pin, RolesOnly: guarded.RolesOnly, Wrap: observed})
	return err
}

// askTimeout bounds what is asked before a session is used.
const askTimeout = 10 * time.Second

// OffersSlices reports whether the cluster serves discovery.k8s.io/v1.
func OffersSlices(ctx context.Context, client kubernetes.Interface) (bool, error) {
	err := client.Discovery().RESTClient().Get().AbsPath("/apis/discovery.k8s.io/v1").Do(ctx).Error()
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("ask the cluster for discovery.k8s.io/v1: %w", err)
	}
}

// follow lists and watches until the session is ended.
func (s *ingressSession) follow() {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.following.Go(func() { s.reconciler.Follow(ctx) })
}

// serve looks at replicas and takes part in the election until the session is ended.
// While it leads it writes, and each of beside runs, too.
func (s *ingressSession) serve(beside ...func(context.Context, *ingressSession)) {
	close(s.begun)
	var ctx context.Context
	ctx, s.resign = context.WithCancelCause(context.Background())
	s.serving.Go(func() {
		s.elector.Run(ctx, func(ctx context.Context) {
			var writers sync.WaitGroup
			writers.Go(func() { s.reconciler.Lead(ctx) })
			for _, run := range beside {
				writers.Go(func() { run(ctx, s) })
			}
			writers.Wait()
		})
	})
}

// end lets writes in flight end, gives up the Lease unless the cause is
// leader.ErrHandover, and returns when nothing is left of the session.
func (s *ingressSession) end(cause error) {
	if s == nil {
		return
	}
	if s.resign != nil {
		if errors.Is(cause, leader.ErrHandover) {
			defer time.AfterFunc(switchGrace, s.permit.Revoke).Stop()
		}
		s.resign(cause)
		s.serving.Wait()
	}
	s.stop()
	s.following.Wait()
	s.close()
}

func (s *ingressSession) close() {
	if s.watch != nil {
		s.watch.Release()
	}
	for _, c := range []*kube.Connection{s.write, s.electing} {
		if c != nil {
			c.Close()
		}
	}
}
