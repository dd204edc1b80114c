// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/syncer"
)

const (
	// openTimeout bounds the opening of a session, and ingressRetry is when a request is tried
	// again that a start needs.
	openTimeout, ingressRetry = 15 * time.Second, 2 * time.Second
	// dialTimeout is how long it may take to connect.
	dialTimeout = 10 * time.Second
)

// ingress is the ingress cluster: three ways to the same cluster, so that a burst of events
// does not delay a write, nor either the Lease. Each has connections of its own.
type ingress struct {
	follow, write, elect *kube.Access
	logger               *slog.Logger
	// wanted is how the cluster is to be reached, and problem why it is not reached so.
	wanted  atomic.Pointer[config.Access]
	problem atomic.Pointer[error]
}

// newIngress returns the ways, none of which is open yet. What is sent by write passes the
// permit's connections.
func newIngress(loaded *config.Loaded, permit *leader.Permit, m *metrics.Metrics, version string, logger *slog.Logger) *ingress {
	i := &ingress{logger: logger}
	i.wanted.Store(&loaded.Ingress)
	i.problem.Store(new(error))
	options := kube.Options{Version: version, Pin: kube.NewPin(loaded.Config.Ingress.Identity), Wrap: m.Transport("")}
	open := func(ctx context.Context) (*kube.Session, error) { return i.open(ctx, i.wanted.Load().REST, options) }
	i.follow, i.elect = kube.NewAccess(open), kube.NewAccess(open)
	i.write = kube.NewAccess(func(ctx context.Context) (*kube.Session, error) {
		reach := rest.CopyConfig(i.wanted.Load().REST)
		if reach.Dial == nil {
			reach.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
		}
		reach.Dial = permit.Dial(reach.Dial)
		return i.open(ctx, reach, options)
	})
	return i
}

// open opens a session, and remembers why it cannot be.
func (i *ingress) open(ctx context.Context, reach *rest.Config, options kube.Options) (*kube.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	session, err := kube.Open(ctx, reach, options)
	switch before := text(*i.problem.Swap(&err)); {
	case err != nil && before != err.Error():
		i.logger.Error("the ingress cluster is not reached, trying on", "error", err)
	case err == nil && before != "":
		i.logger.Info("the ingress cluster is reached")
	}
	return session, err
}

// use says how the cluster is to be reached from now on. It never blocks; one goroutine calls it.
func (i *ingress) use(access config.Access) {
	if access.REST == nil || access.Hash == i.wanted.Load().Hash {
		return
	}
	i.wanted.Store(&access)
	for _, way := range i.ways() {
		way.Renew()
	}
}

// close closes all connections.
func (i *ingress) close() {
	for _, way := range i.ways() {
		way.Close()
	}
}

func (i *ingress) ways() []*kube.Access { return []*kube.Access{i.follow, i.write, i.elect} }

// trouble is why the cluster is not reached as it is configured; nil: it is.
func (i *ingress) trouble() error { return *i.problem.Load() }

// ingressStatus is the ingress cluster as pages show it.
func (a *App) ingressStatus() metrics.IngressStatus {
	trouble := a.reconciler.Cache.Trouble()
	s := metrics.IngressStatus{State: "live", Up: true, Synced: a.reconciler.Cache.HasSynced(), Replicas: len(a.reconciler.Cache.Keys())}
	session := a.ingress.follow.Current()
	if session != nil {
		s.LastContact, s.Version = session.LastContact().UTC(), session.Version()
	}
	err := cmp.Or(a.ingress.trouble(), trouble) // what cannot be reached cannot be followed
	switch {
	case errors.Is(err, kube.ErrOtherCluster):
		s.State, s.Up = "other cluster", false
	case session == nil || trouble != nil:
		s.State, s.Up = "unreachable", false
	case !s.Synced:
		s.State = "listing"
	}
	s.LastError = text(err)
	return s
}

// ownNamespace makes Tributary's own namespace if it is missing, as it is where no chart has
// made it. It tries until there is an answer. Who may not read or make it goes on.
func (i *ingress) ownNamespace(ctx context.Context, name string, labels map[string]string) {
	_ = wait.PollUntilContextCancel(ctx, ingressRetry, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		client, err := clientOf(i.elect)(ctx)
		if err == nil {
			_, err = client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
		}
		return err == nil || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err), nil
	})
}

// clientOf returns a function that returns the client of a way.
func clientOf(way *kube.Access) func(context.Context) (kubernetes.Interface, error) {
	return func(ctx context.Context) (kubernetes.Interface, error) {
		session, err := way.Get(ctx)
		if err != nil {
			return nil, err
		}
		return session.Clientset(), nil
	}
}

// LeasePrefix is that of the leader's Lease; the name of the installation follows.
const LeasePrefix = "tributary-leader."

// newElector takes part in the election of the configuration that the process started with.
func (a *App) newElector(loaded *config.Loaded, address string) *leader.Elector {
	c := loaded.Config
	return leader.New(leader.Options{
		Client: clientOf(a.ingress.elect), Namespace: c.Namespace, Name: LeasePrefix + c.Instance, Identity: holder(address), Labels: syncer.OwnLabels(c.Instance),
		LeaseDuration: c.LeaderElection.LeaseDuration.Value(), Disabled: !c.LeaderElection.Enabled, Permit: a.permit, Logger: a.Logger,
	})
}

// holder is the name by which this process holds the Lease. It outlasts a restart in place, so that a process waits for
// nothing that it held itself, and no two processes that run have it: in a pod its name, which the API server of the ingress
// cluster knows, too; elsewhere the name of the host, its boot, for a clone has the same name, and the
// address of the pages, which one process alone can listen at.
func holder(address string) string {
	if pod := os.Getenv("POD_NAME"); pod != "" {
		return pod
	}
	host, err := os.Hostname()
	if err != nil {
		host = "tributary"
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // where there is none the name must do
	return strings.Join([]string{host, strings.TrimSpace(string(boot)), address}, "_")
}

func (a *App) leaderStatus() metrics.LeaderStatus {
	elector := a.elector.Load()
	if elector == nil || !a.reconciler.Cache.HasSynced() {
		return metrics.LeaderStatus{}
	}
	return elector.State()
}
