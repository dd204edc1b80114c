// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Pin is the UID by which a cluster is known, once it is known. The zero value knows
// none yet. Safe for concurrent use.
type Pin struct{ uid atomic.Pointer[string] }

// NewPin returns a pin that knows a UID; "" is none.
func NewPin(uid string) *Pin {
	p := new(Pin)
	if uid != "" {
		p.uid.Store(&uid)
	}
	return p
}

// Check compares, and remembers the first UID that is not empty. The error wraps
// ErrOtherCluster.
func (p *Pin) Check(uid string) error {
	if uid == "" || p.uid.CompareAndSwap(nil, &uid) {
		return nil
	}
	if known := p.Known(); uid != known {
		return fmt.Errorf("%w: its kube-system namespace has UID %.64q, and %.64q is expected", ErrOtherCluster, uid, known)
	}
	return nil
}

// Known returns the UID, or "".
func (p *Pin) Known() string {
	if uid := p.uid.Load(); uid != nil {
		return *uid
	}
	return ""
}

// identityTimeout bounds one question for a cluster's identity.
const identityTimeout = 5 * time.Second

// identityCheck lets nothing through a connection before the cluster at its other end has
// shown that it is the one that is pinned, and hands on no answer of another. Each TCP
// connection may end somewhere else (an address was re-used, a name points elsewhere),
// so it asks again whenever one was dialled; while a connection lives, that costs nothing.
//
// To read the kube-system namespace is a right that a cluster may withhold, at any
// time: what does not let itself be asked is believed, and asked again soon. A server
// that has just started refuses that for a moment, and everything else too.
type identityCheck struct {
	conn *Connection
	pin  *Pin
	// verified is the number of dials at the last good answer.
	verified atomic.Int64
	// told is true once it has shown an identity.
	told atomic.Bool
	// believed is until when what refused to tell is not asked again.
	believed atomic.Pointer[time.Time]

	// turn is held by who confirms; begun counts such questions, and said is what came of
	// the last.
	turn  chan struct{}
	begun atomic.Int64
	said  error
}

func newIdentityCheck(conn *Connection, pin *Pin) *identityCheck {
	return &identityCheck{conn: conn, pin: pin, turn: make(chan struct{}, 1)}
}

// askAgain is how long a cluster is believed that does not let itself be asked.
const askAgain = time.Second

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
		if until := c.believed.Load(); until != nil && time.Now().Before(*until) {
			return nil
		}
		told, err := c.ask(ctx)
		if err != nil {
			return err
		}
		if !told {
			c.believed.Store(new(time.Now().Add(askAgain)))
			return nil
		}
		if c.conn.dials.Load() == dials {
			c.verified.Store(dials)
		}
	}
	return nil // one connection for each request, as old proxies do: each answer was good
}

// confirm returns nil unless what was answered before the call may be another cluster's: a
// proxy that keeps our connection may have another behind it by now, which no dial tells.
// Who calls while a question is under way shares the next one.
func (c *identityCheck) confirm(ctx context.Context) error {
	before := c.begun.Load()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.begun.Load() > before {
		return c.said
	}
	if until := c.believed.Load(); until != nil && time.Now().Before(*until) {
		return nil
	}
	c.begun.Add(1)
	told, err := c.ask(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrOtherCluster) && c.verified.Load() > 0 && c.verified.Load() == c.conn.dials.Load() {
		err = nil // the question alone fails, on the way over which it showed itself
	}
	if err == nil && !told {
		c.believed.Store(new(time.Now().Add(askAgain)))
	}
	c.said = err
	return err
}

// asking marks the context of the question itself.
type asking struct{}

// ask asks for the identity now. told is false where it may not be read.
func (c *identityCheck) ask(ctx context.Context) (told bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, asking{}, true), identityTimeout)
	defer cancel()
	uid, err := c.conn.Identity(ctx)
	if hidden(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := c.pin.Check(uid); err != nil {
		return false, fmt.Errorf("cluster %s at %s: %w", c.conn.cluster, c.conn.host, err)
	}
	if uid != "" {
		c.told.Store(true)
	}
	return true, nil
}

// hidden reports whether an identity may not be asked for: the cluster refuses it, or what
// stands before it knows no such question.
func hidden(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsGone(err) || apierrors.IsResourceExpired(err)
}

// identified is the transport of a connection whose cluster is known: it verifies before
// each request, and again when the request itself has dialled.
type identified struct {
	wrapped
	check *identityCheck
}

// RoundTrip implements http.RoundTripper.
func (t identified) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if ctx.Value(asking{}) != nil {
		return t.next.RoundTrip(req)
	}
	if err := t.check.verify(ctx); err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := t.check.verify(ctx); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}
