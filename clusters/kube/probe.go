// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/metrics"
)

// A probe each probeEvery that may take probeTimeout makes an unreachable cluster
// known within 8 s. One that does not answer is asked more often, so that what
// it missed is caught up with soon after it is back.
const (
	probeEvery   = 4 * time.Second
	probeTimeout = 3 * time.Second
	probeDown    = time.Second
	// ProbeBound is what one round of a prober may take that gets on.
	ProbeBound = time.Minute
	// probeStarting is how long one that refuses is asked as often: it may be starting.
	probeStarting = 30 * time.Second
	// revisionEvery and versionEvery are how many probes pass between two questions for
	// a restored store, and for the version.
	revisionEvery = 3
	versionEvery  = 30
)

// Prober asks a cluster from outside of its watches, which say nothing when nothing
// happens: does it answer, is it still itself, has it gone back in time. The functions
// are called from Run, one at a time, and must not block.
type Prober struct {
	// Session returns what to ask through, held for the prober, which releases it; nil
	// when there is none.
	Session func() *Session
	// Followed are the kinds by which a restored store is found.
	Followed []Followed
	// Probed is told each outcome; nil: the cluster answers and is itself.
	Probed func(error)
	// Recovered is called when a cluster answers that did not.
	Recovered func()
	// Heartbeat beats while the prober gets on; nil: nobody looks.
	Heartbeat *metrics.Heartbeat
	// WentBack is told when the cluster's store was restored from a backup. All is to be
	// read anew.
	WentBack func(error)
}

// Run probes until ctx ends.
func (p *Prober) Run(ctx context.Context) {
	detector := newRestoreDetector(p.Followed)
	var state probeState
	count := 0
	ask := func(ctx context.Context) {
		if session := p.Session(); session != nil {
			count++
			p.ask(ctx, session, &state, detector, count)
			session.Release()
		}
	}
	Probe{Ask: ask, Pause: func() time.Duration { return state.pause(time.Now()) }, Heartbeat: p.Heartbeat}.Run(ctx)
}

// ask asks once; count numbers it.
func (p *Prober) ask(ctx context.Context, session *Session, state *probeState, detector *restoreDetector, count int) {
	told, err := session.probe(ctx)
	if ctx.Err() != nil {
		return
	}
	p.Probed(err)
	recovered := state.next(time.Now(), told, err)
	if recovered {
		p.Recovered()
	}
	if err == nil && (recovered || detector.doubtful() || count%revisionEvery == 0) {
		if err := detector.detect(ctx, session); err != nil {
			p.WentBack(err)
		}
	}
	if err == nil && (count%versionEvery == 0 || session.version.Load() == nil) {
		_ = session.readVersion(ctx) // what it was will do
	}
}

// Probe is a question that is asked again and again.
type Probe struct {
	// Ask asks once.
	Ask func(context.Context)
	// Pause is how long to wait before the next time, and Again has it asked anew; nil: never.
	Pause func() time.Duration
	Again <-chan struct{}
	// Heartbeat beats while the probe gets on; nil: nobody looks.
	Heartbeat *metrics.Heartbeat
}

// Run asks until ctx ends.
func (p Probe) Run(ctx context.Context) {
	defer p.Heartbeat.End()
	for {
		p.Heartbeat.Beat()
		select {
		case <-time.After(p.Pause()):
			p.Heartbeat.Beat()
			p.Ask(ctx)
		case <-p.Again:
		case <-ctx.Done():
			return
		}
	}
}

// probeState is what the last probes told.
type probeState struct {
	// down: not answered; refused: answered by a refusal since then, zero when not.
	down    bool
	refused time.Time
}

// next takes in the outcome of a probe, and reports whether the cluster is back: it
// answers after it did not, or lets itself be asked after it refused, as a server does
// that has just started.
func (s *probeState) next(now time.Time, told bool, err error) (recovered bool) {
	recovered = err == nil && s.down || told && !s.refused.IsZero()
	s.down = err != nil
	switch {
	case told:
		s.refused = time.Time{}
	case err == nil && s.refused.IsZero():
		s.refused = now
	}
	return recovered
}

// pause is how long to wait for the next probe.
func (s *probeState) pause(now time.Time) time.Duration {
	if s.down || !s.refused.IsZero() && now.Sub(s.refused) < probeStarting {
		return jitter(probeDown)
	}
	return jitter(probeEvery)
}

// jitter spreads a wait over its upper half.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func randomUpTo(d time.Duration) time.Duration { return rand.N(d + 1) }

// Answers reports whether the cluster answers a small request before ctx ends, on the connection over which its watches
// run: what these brought is no older then than what was asked.
func (s *Session) Answers(ctx context.Context) bool {
	_, err := s.probe(ctx)
	return err == nil
}

// probe makes the cluster answer: one that grants Roles alone is asked for its version, as
// its identity is not asked for. That it is busy or hides what is asked for is an answer; that
// it does not accept the credential is none that helps. told: it showed that it is itself.
//
// What answers with an error may be the question alone: then a list that is read anyway tells.
// It comes from etcd, as the identity does; open streams may come from a cache that lost it.
func (s *Session) probe(ctx context.Context) (told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	told, err = s.conn.identity.ask(ctx)
	switch {
	case s.conn.rolesOnly:
		err = s.readVersion(ctx)
	case Answered(err) && !apierrors.IsTooManyRequests(err):
		if _, listErr := s.revision(ctx, Services); listErr == nil {
			err = nil
		}
	}
	if apierrors.IsTooManyRequests(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	return told, err
}
