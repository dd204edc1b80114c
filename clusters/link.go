// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
)

// link is a connection in use by a member: verified, of known version, and
// closed when the last loop that reads through it has let go.
type link struct {
	conn    *Connection
	gate    *gate
	version atomic.Pointer[ServerVersion]
	hash    string // of the access it was made from
	scope   string // the one namespace it reads; "" for all
	users   atomic.Int32
}

// versionTimeout bounds reading the version.
const versionTimeout = 5 * time.Second

// newLink connects and makes sure, before anything is read, of the identity of
// what answers. The caller holds the link and releases it.
func (m *Member) newLink(ctx context.Context, t target) (*link, error) {
	if t.access.REST == nil {
		if t.access.Err != nil {
			return nil, fmt.Errorf("%w: %w", errNoKubeconfig, t.access.Err)
		}
		return nil, errNoKubeconfig
	}
	o := ConnectOptions{Cluster: m.name, Version: m.opts.Version, Logger: m.log}
	if m.opts.Wrap != nil {
		o.Wrap = m.opts.Wrap(m.name)
	}
	conn, err := Connect(t.access.REST, o)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, gate: &gate{conn: conn, identity: &m.identity}, hash: t.access.Hash, scope: t.scope()}
	if err := l.prove(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	l.hold()
	return l, nil
}

// prove checks identity and reads the version.
func (l *link) prove(ctx context.Context) error {
	if err := l.gate.verify(ctx); err != nil {
		return err
	}
	if err := l.readVersion(ctx); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// readVersion asks for the version, which changes when the cluster is upgraded.
func (l *link) readVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	version, err := l.conn.Version(ctx)
	if err == nil {
		l.version.Store(&version)
	}
	return err
}

// serverVersion is the zero value while the version is not known.
func (l *link) serverVersion() ServerVersion {
	if v := l.version.Load(); v != nil {
		return *v
	}
	return ServerVersion{}
}

func (l *link) hold() { l.users.Add(1) }

func (l *link) release() {
	if l.users.Add(-1) == 0 {
		l.conn.Close()
	}
}

// Servers from this version on offer the list as a watch by default.
const streamingMajor, streamingMinor = 1, 34

// source returns a source of a resource through this link, which stays open until
// the source is retired.
func (l *link) source(r kube.Resource) kube.ListWatcher {
	client := l.conn.core()
	if r.Group == discoveryv1.GroupName {
		client = l.conn.discovery()
	}
	if r.Namespace == "" && r.Resource != resourceNodes.Resource {
		r.Namespace = l.scope
	}
	l.hold()
	source := l.gate.guard(kube.REST(client, r))
	source.StreamingList = l.serverVersion().AtLeast(streamingMajor, streamingMinor)
	source.Retired = l.release
	return source
}

// What members are asked for.
var (
	resourceServices = kube.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services"),
		NewList:              func() runtime.Object { return new(corev1.ServiceList) },
	}
	resourcePods = kube.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		NewList:              func() runtime.Object { return new(corev1.PodList) },
	}
	resourceNodes = kube.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"),
		NewList:              func() runtime.Object { return new(corev1.NodeList) },
	}
	resourceEndpoints = kube.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("endpoints"),
		NewList:              func() runtime.Object { return new(corev1.EndpointsList) },
	}
	resourceSlices = kube.Resource{
		GroupVersionResource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		NewList:              func() runtime.Object { return new(discoveryv1.EndpointSliceList) },
	}
)

// target is where a member is reached and what is taken from it.
type target struct {
	cluster config.Cluster
	access  config.Access
}

// scope is the one namespace to read; "" for all, filtered here.
func (t target) scope() string { return t.cluster.Namespaces.Only() }
