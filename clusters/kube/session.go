// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Session is a connection in use: its identity checked, of known version, and closed
// when the last of its users has let go. All methods are safe for concurrent use.
type Session struct {
	conn       *Connection
	version    atomic.Pointer[ServerVersion]
	namespaces []string
	users      atomic.Int32
}

// SessionOptions say what a session is.
type SessionOptions struct {
	// ConnectOptions without a Pin: the cluster may be any, and is then to stay the same.
	ConnectOptions
	// Namespaces are those that are read, each by itself; none for all at once.
	Namespaces []string
}

// versionTimeout bounds reading the version.
const versionTimeout = 5 * time.Second

// Open connects and makes sure, before anything is read, of the identity of what
// answers. The caller is the session's first user and releases it.
func Open(ctx context.Context, cfg *rest.Config, o SessionOptions) (*Session, error) {
	if o.Pin == nil {
		o.Pin = new(Pin)
	}
	conn, err := Connect(cfg, o.ConnectOptions)
	if err != nil {
		return nil, err
	}
	s := &Session{conn: conn, namespaces: o.Namespaces}
	if err := s.prove(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	s.Hold()
	return s, nil
}

// prove checks identity and reads the version.
func (s *Session) prove(ctx context.Context) error {
	if err := s.conn.identity.verify(ctx); err != nil {
		return err
	}
	if err := s.readVersion(ctx); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// readVersion asks for the version, which changes when the cluster is upgraded.
func (s *Session) readVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	version, err := s.conn.Version(ctx)
	if err == nil {
		s.version.Store(&version)
	}
	return err
}

// Version is the zero value while the version is not known.
func (s *Session) Version() ServerVersion {
	if v := s.version.Load(); v != nil {
		return *v
	}
	return ServerVersion{}
}

// Offers asks whether the API has a version of a group.
func (s *Session) Offers(ctx context.Context, groupVersion string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	return s.conn.Offers(ctx, groupVersion)
}

// Host is the address of the server as configured; it holds no secret.
func (s *Session) Host() string { return s.conn.Host() }

// Identified reports whether the cluster has shown its identity in this session.
func (s *Session) Identified() bool { return s.conn.identity.told.Load() }

// Identity is by what the cluster is known; "" while it is by nothing.
func (s *Session) Identity() string { return s.conn.identity.pin.Known() }

// Clientset is the typed client of the session's connection.
func (s *Session) Clientset() kubernetes.Interface { return s.conn.Clientset() }

// Hold adds a user.
func (s *Session) Hold() { s.users.Add(1) }

// Release lets go. With the last user all requests and connections end.
func (s *Session) Release() {
	if s.users.Add(-1) == 0 {
		s.conn.Close()
	}
}

// Servers from this version on offer the list as a watch by default.
const streamingMajor, streamingMinor = 1, 34

// ListWatcher reads a resource through this session, which stays open until it is
// retired.
func (s *Session) ListWatcher(r Resource) ListWatcher {
	s.Hold()
	lw := s.listWatcher(r)
	lw.StreamingList = len(lw.Scopes) == 0 && s.Version().AtLeast(streamingMajor, streamingMinor)
	lw.Confirm, lw.Retired = s.Confirm, s.Release
	return lw
}

// listWatcher reads a resource for a user who holds the session.
func (s *Session) listWatcher(r Resource) ListWatcher {
	in := func(namespace string) ListWatcher {
		r.Namespace = namespace
		return REST(s.conn.client(r), r)
	}
	switch {
	case r.ClusterScoped && s.conn.rolesOnly:
		return refused(errRolesOnly(r))
	case r.ClusterScoped || r.Namespace != "" || len(s.namespaces) == 0:
		return in(r.Namespace)
	case len(s.namespaces) == 1:
		return in(s.namespaces[0])
	}
	return Across(s.namespaces, in)
}
