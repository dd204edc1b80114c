// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/listwatch"
	"tributary.dev/tributary/clusters/store"
)

// A probe each probeEvery that may take probeTimeout makes an unreachable member
// known within 8 s. One that does not answer is asked more often, so that what
// it missed is caught up with soon after it is back.
const (
	probeEvery   = 4 * time.Second
	probeTimeout = 3 * time.Second
	probeDown    = time.Second
	// revisionEvery and versionEvery are how many probes pass between looks at the
	// revision and at the version.
	revisionEvery = 3
	versionEvery  = 30
)

// prober looks at a member from outside of its watches, which say nothing when
// nothing happens: does it answer, is it still itself, has it gone back in time.
type prober struct {
	m     *Member
	down  bool
	count int
}

func newProber(m *Member) *prober { return &prober{m: m} }

// probe looks once and returns when to look again.
func (p *prober) probe(ctx context.Context) time.Duration {
	p.m.mu.Lock()
	l := p.m.link
	p.m.mu.Unlock()
	err := p.ask(ctx, l)
	if ctx.Err() != nil {
		return probeEvery
	}
	if err == nil {
		p.m.health.heard(time.Now())
	}
	now := time.Now()
	p.m.health.note(func(f *facts) {
		if f.probe != nil && err == nil {
			f.answered = now
		}
		f.probe = err
	})
	if err != nil {
		p.down = true
		return jitter(probeDown)
	}
	if p.down {
		p.down = false
		p.m.loops.each(looper.Kick)
	}
	if p.count++; p.count%revisionEvery == 0 {
		p.revisions(ctx, l)
	}
	if p.count%versionEvery == 0 || l.version.Load() == nil {
		_ = l.readVersion(ctx) // what it was will do
	}
	return jitter(probeEvery)
}

// ask makes the member answer. That it is busy or hides the namespace is an
// answer; that it does not accept the credential is none that helps.
func (p *prober) ask(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := l.gate.look(ctx)
	if apierrors.IsTooManyRequests(err) {
		return nil
	}
	return err
}

// revisions compares the revision of a fresh list with what the watches have
// seen. A lower one means that the member's etcd was restored from a backup: its
// watches would stay silent until the revisions have caught up, and nothing else
// would tell. A second look excludes a server that lags behind its peers.
func (p *prober) revisions(ctx context.Context, l *link) {
	var err error
	for range 2 {
		if err = p.regressed(ctx, l); !errors.Is(err, ErrWentBack) {
			return
		}
	}
	p.m.health.note(func(f *facts) { f.wentBack(err) })
	p.m.loops.each(looper.Rewind)
}

// regressed returns ErrWentBack if a list shows a lower revision than was seen
// before it was asked for.
func (p *prober) regressed(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for _, kind := range []struct {
		resource listwatch.Resource
		seen     uint64
	}{
		{resourceServices, p.m.loops.services.Revision()},
		{resourcePods, p.m.loops.pods.Revision()},
	} {
		revision, err := l.revision(ctx, kind.resource)
		if err != nil {
			return err
		}
		if revision != 0 && revision < kind.seen {
			return fmt.Errorf("%w: a list of %s shows revision %d, %d was seen before", ErrWentBack, kind.resource.Resource, revision, kind.seen)
		}
	}
	return nil
}

// revision reads the revision of a list of at most one object.
func (l *link) revision(ctx context.Context, r listwatch.Resource) (uint64, error) {
	r.Namespace = l.scope
	list, err := l.gate.guard(listwatch.REST(l.conn.core(), r)).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return store.Revision(accessor.GetResourceVersion()), nil
}
