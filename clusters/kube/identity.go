// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Pin is the UID by which a cluster is known, once it is known. The zero value knows
// none yet. Safe for concurrent use.
type Pin struct {
	mu  sync.Mutex
	uid string
}

// NewPin returns a pin that knows a UID; "" is none.
func NewPin(uid string) *Pin { return &Pin{uid: uid} }

// Check compares, and remembers the first UID that is not empty. The error wraps
// ErrOtherCluster.
func (p *Pin) Check(uid string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case uid == "" || uid == p.uid:
		return nil
	case p.uid == "":
		p.uid = uid
		return nil
	}
	return fmt.Errorf("%w: its kube-system namespace has UID %.64q, that of the member is %.64q", ErrOtherCluster, uid, p.uid)
}

// Known returns the UID, or "".
func (p *Pin) Known() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uid
}

// identityTimeout bounds one question for a cluster's identity.
const identityTimeout = 5 * time.Second

// identityCheck lets nothing of a connection through before the cluster at its other
// end has shown that it is the one that is pinned. Each TCP connection may end
// somewhere else (an address was re-used, a name points elsewhere), so it asks again
// whenever one was dialled; while a connection lives, that costs nothing.
//
// To read the kube-system namespace is a right that a member may withhold, at any
// time: what does not let itself be asked is believed, and asked again at each use. A
// server that has just started refuses that for a moment, and everything else too.
type identityCheck struct {
	conn *Connection
	pin  *Pin
	// verified is the number of dials at the last good answer.
	verified atomic.Int64
}

// verify returns nil unless a connection dialled so far has led to another cluster, or
// could not be asked.
func (c *identityCheck) verify(ctx context.Context) error {
	// The question may itself dial; then the next one uses what it dialled.
	const attempts = 3
	for range attempts {
		dials := c.conn.dials.Load()
		if dials > 0 && c.verified.Load() == dials {
			return nil
		}
		told, err := c.ask(ctx)
		if err != nil || !told {
			return err
		}
		if c.conn.dials.Load() == dials {
			c.verified.Store(dials)
		}
	}
	return nil // one connection for each request, as old proxies do: each answer was good
}

// ask asks for the identity now. told is false where it may not be read.
func (c *identityCheck) ask(ctx context.Context) (told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	uid, err := c.conn.Identity(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := c.pin.Check(uid); err != nil {
		return false, fmt.Errorf("cluster %s at %s: %w", c.conn.cluster, c.conn.host, err)
	}
	return true, nil
}

// guard returns a ListWatcher that verifies before each use, and again when the use
// itself has dialled, before anything is handed on.
func (c *identityCheck) guard(lw ListWatcher) ListWatcher {
	guarded := lw
	guarded.List = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		if err := c.verify(ctx); err != nil {
			return nil, err
		}
		list, err := lw.List(ctx, opts)
		if err == nil {
			err = c.verify(ctx)
		}
		if err != nil {
			return nil, err
		}
		return list, nil
	}
	guarded.Watch = func(ctx context.Context, opts metav1.ListOptions) (Stream, error) {
		if err := c.verify(ctx); err != nil {
			return nil, err
		}
		stream, err := lw.Watch(ctx, opts)
		if err != nil {
			return nil, err
		}
		if err := c.verify(ctx); err != nil {
			stream.Stop()
			return nil, err
		}
		return stream, nil
	}
	return guarded
}
