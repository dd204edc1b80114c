// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/kube"
)

// identity is the UID by which a member is known, once it is known. Safe for
// concurrent use.
type identity struct {
	mu  sync.Mutex
	uid string
}

// check compares, and remembers the first UID that is not empty.
func (i *identity) check(uid string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case uid == "" || uid == i.uid:
		return nil
	case i.uid == "":
		i.uid = uid
		return nil
	}
	return fmt.Errorf("%w: its kube-system namespace has UID %.64q, that of the member is %.64q", ErrOtherCluster, uid, i.uid)
}

// known returns the UID, or "".
func (i *identity) known() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.uid
}

// identityTimeout bounds one look at a cluster's identity.
const identityTimeout = 5 * time.Second

// gate lets nothing of a connection through before the cluster at its other end
// has shown that it is the member. Each TCP connection may end somewhere else
// (an address was re-used, a name points elsewhere), so it looks again whenever
// one was dialled; while a connection lives, that costs nothing.
type gate struct {
	conn     *Connection
	identity *identity
	// verified is the number of dials at the last look.
	verified atomic.Int64
}

// verify returns nil when every connection dialled so far has led to the member,
// as far as one may know: where reading the kube-system namespace was never
// allowed, the identity stays unknown.
func (g *gate) verify(ctx context.Context) error {
	// The look may itself dial; then the next one uses what it dialled.
	const looks = 3
	for range looks {
		dials := g.conn.dials.Load()
		if dials > 0 && g.verified.Load() == dials {
			return nil
		}
		if err := g.look(ctx); err != nil {
			return err
		}
		if g.conn.dials.Load() == dials {
			g.verified.Store(dials)
		}
	}
	return nil // one connection for each request, as old proxies do: each look was good
}

// look asks for the identity now. It is also how a member's health is probed.
func (g *gate) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	uid, err := g.conn.Identity(ctx)
	if err != nil {
		// A server that has just started refuses everything for a moment: where the
		// identity was once read, it has to be read again.
		if g.identity.known() == "" && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
			return nil
		}
		return err
	}
	if err := g.identity.check(uid); err != nil {
		return fmt.Errorf("cluster %s at %s: %w", g.conn.cluster, g.conn.host, err)
	}
	return nil
}

// guard returns a source that verifies before each use, and again when the use
// itself has dialled, before anything is handed on.
func (g *gate) guard(source kube.ListWatcher) kube.ListWatcher {
	guarded := source
	guarded.List = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		if err := g.verify(ctx); err != nil {
			return nil, err
		}
		list, err := source.List(ctx, opts)
		if err == nil {
			err = g.verify(ctx)
		}
		if err != nil {
			return nil, err
		}
		return list, nil
	}
	guarded.Watch = func(ctx context.Context, opts metav1.ListOptions) (kube.Stream, error) {
		if err := g.verify(ctx); err != nil {
			return nil, err
		}
		stream, err := source.Watch(ctx, opts)
		if err != nil {
			return nil, err
		}
		if err := g.verify(ctx); err != nil {
			stream.Stop()
			return nil, err
		}
		return stream, nil
	}
	return guarded
}
