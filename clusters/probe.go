// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A probe each probeEvery that may take probeTimeout makes an unreachable member
// known within 8 s. One that does not answer is asked more often, so that what
// it missed is caught up with soon after it is back.
const (
	probeEvery   = 4 * time.Second
	probeTimeout = 3 * time.Second
	probeDown    = time.Second
	// revisionEvery and versionEvery are how many probes pass between looks at the
	// past and at the version.
	revisionEvery = 3
	versionEvery  = 30
)

// prober looks at a member from outside of its watches, which say nothing when
// nothing happens: does it answer, is it still itself, has it gone back in time.
type prober struct {
	m     *Member
	down  bool
	count int
	past  *past
}

func newProber(m *Member) *prober { return &prober{m: m, past: newPast(m)} }

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
	back := p.down
	if back {
		p.down = false
		p.m.each(looper.RetryNow)
	}
	if p.count++; back || p.past.doubtful() || p.count%revisionEvery == 0 {
		p.past.look(ctx, l)
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
