// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// An ingress cluster that does not answer is known as such probeLimit after it last
// did: by then two probes are under way or have failed. One that is away is asked more
// often, so that what waits is written soon after it is back.
const (
	probeEvery   = 3 * time.Second
	probeTimeout = 3 * time.Second
	probeDown    = time.Second
	probeLimit   = 8 * time.Second
)

// errShut is why nothing is written before a probe has told more.
var errShut = errors.New("requests that write are not answered")

// prober asks the ingress cluster now and then for something small. On a quiet fleet
// nothing else is asked of it, and watches say nothing when nothing happens.
//
// All methods are safe for concurrent use.
type prober struct {
	// ask makes the ingress cluster answer.
	ask func(context.Context) error
	// contact is when it last answered any request on the connection that is asked.
	contact func() time.Time
	logger  *slog.Logger

	mu sync.Mutex
	// err is what the last probe ended with, good when the last one ended well.
	err  error
	good time.Time
	// lost is true once too much time has passed without a good answer.
	lost bool
}

func newProber(ask func(context.Context) error, contact func() time.Time, logger *slog.Logger) *prober {
	return &prober{ask: ask, contact: contact, logger: logger, good: time.Now()}
}

// run probes until ctx is done.
func (p *prober) run(ctx context.Context) {
	for pause := probeEvery; ; {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = p.probe(ctx)
	}
}

// probe asks once and returns when to ask again.
func (p *prober) probe(ctx context.Context) time.Duration {
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := p.ask(asking)
	if apierrors.IsTooManyRequests(err) {
		err = nil // busy, and there
	}
	if ctx.Err() != nil {
		return probeEvery
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; err == nil {
		p.good = now
	}
	p.lockedJudge(now)
	if err != nil {
		return probeDown
	}
	return probeEvery
}

// lockedJudge says so, once, when the ingress cluster is lost or found again.
func (p *prober) lockedJudge(now time.Time) {
	since := p.good
	if at := p.contact(); !answered(p.err) && at.After(since) {
		since = at // too busy to answer a probe in time, and there
	}
	lost := p.err != nil && now.Sub(since) >= probeLimit
	if lost == p.lost {
		return
	}
	p.lost = lost
	if lost {
		p.logger.Warn("the ingress cluster gives no usable answer, trying on", "since", since.UTC(), "error", p.err)
		return
	}
	p.logger.Info("the ingress cluster answers again")
}

// trouble returns why the ingress cluster counts as lost, nil if it does not. It is a
// matter of time, and not only of news.
func (p *prober) trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lockedJudge(time.Now())
	if !p.lost {
		return nil
	}
	return p.err
}

// answeredSince reports whether a probe was answered well after a moment; err is what
// the last one ended with.
func (p *prober) answeredSince(at time.Time) (well bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.good.After(at), p.err
}

// askVersion asks over the connection that writes go through. Whoever could read the
// version at the start, and nothing starts without, may do so.
func (r *Reconciler) askVersion(ctx context.Context) error {
	err := r.opts.Writer.CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Error()
	if err != nil && !answered(err) {
		return err
	}
	r.contact.Store(time.Now().UnixNano())
	if !denied(err) && r.gate.shut() {
		r.hurry()
	}
	return err
}

// hurry opens a closed gate when nothing waits before it, and otherwise lets the next
// key through at once: it is an answer to a write that opens the gate, for a server
// that has just started tells its version before it takes anything.
func (r *Reconciler) hurry() {
	if len(r.queue.OldestArrivals()) == 0 {
		r.gate.reached()
		return
	}
	r.gate.probe()
}

// Trouble returns why the ingress cluster is not seen or not written to, nil if it is.
func (r *Reconciler) Trouble() error {
	if err := cmp.Or(r.prober.trouble(), r.observer.trouble()); err != nil {
		return err
	}
	if !r.gate.shut() {
		return nil
	}
	// It may stay closed for a while yet, until a key's turn comes to open it.
	if well, err := r.prober.answeredSince(time.Unix(0, r.closed.Load())); !well {
		return fmt.Errorf("changes wait in their lanes: %w", cmp.Or(err, errShut))
	}
	return nil
}

// LastContact is when the ingress cluster was last heard of: an answer, an event or a
// bookmark; zero if never.
func (r *Reconciler) LastContact() time.Time {
	if at := max(r.contact.Load(), r.observer.contact.Load()); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}
