// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The ingress cluster is reached by one side at a time. When its kubeconfig is edited,
// the side in use serves until another has proven itself by listing all that stands;
// one that is refused takes nothing from it. Two never write at once.

// The pauses between two attempts to open the ingress cluster, and between two looks
// at one that does not let itself be listed.
const (
	openRetry      = 250 * time.Millisecond
	openRetryLimit = 5 * time.Second
	listedLook     = 250 * time.Millisecond
)

// firstSide reaches the ingress cluster and lists what stands, however long it takes.
// The side is nil when ctx ended first.
func (r *replicator) firstSide(ctx context.Context) (*ingressSide, error) {
	for {
		side, err := r.openSide(ctx, nil)
		if side == nil {
			return nil, err
		}
		r.noteIngress(nil)
		r.ingress.Store(side) // so that people see what it waits for
		if r.listed(ctx, side) {
			return side, nil
		}
		r.ingress.Store(nil)
		side.end()
	}
}

// nextSide waits until the configuration leads to the ingress cluster differently than
// the side that serves, and until that way has proven itself. nil: ctx is done.
func (r *replicator) nextSide(ctx context.Context, serving *ingressSide) *ingressSide {
	for ctx.Err() == nil {
		if r.leads(serving) {
			r.noteIngress(nil) // the edit was taken back, if there was one
			select {
			case <-ctx.Done():
			case <-r.reopen:
			}
			continue
		}
		side, _ := r.openSide(ctx, serving) // an error would end a start
		if side == nil {
			continue
		}
		if r.listed(ctx, side) {
			return side
		}
		side.end()
	}
	return nil
}

// leads reports whether a side is the way that the configuration tells.
func (r *replicator) leads(side *ingressSide) bool { return r.running().Ingress.Hash == side.hash }

// openSide opens and starts the ingress cluster as it is configured, trying until it
// answers. The side is nil when ctx ended first, or the configuration leads back to
// the one that serves.
func (r *replicator) openSide(ctx context.Context, serving *ingressSide) (*ingressSide, error) {
	for pause := openRetry; ctx.Err() == nil && (serving == nil || !r.leads(serving)); pause = min(2*pause, openRetryLimit) {
		loaded := r.running()
		side, err := openIngress(ctx, ingressOptions{
			access: loaded.Ingress, settings: settings(&loaded.Config), source: source{r.set}, metrics: r.metrics, logger: r.logger,
		})
		if err == nil {
			side.start(ctx, func(ctx context.Context) { r.keepLeases(ctx, side) })
			return side, nil
		}
		if ctx.Err() != nil {
			break
		}
		r.noteIngress(err)
		if errors.Is(err, errNoSlices) && r.ingress.Load() == nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-r.reopen:
			pause = openRetry / 2
		case <-time.After(pause):
		}
	}
	return nil, nil
}

// listed waits until a side has listed what stands; false when it is not to be used:
// ctx is done, or the configuration leads elsewhere meanwhile.
func (r *replicator) listed(ctx context.Context, side *ingressSide) bool {
	for ctx.Err() == nil && r.leads(side) {
		look, stop := context.WithTimeout(ctx, listedLook)
		err := side.reconciler.WaitForSync(look)
		stop()
		if err == nil {
			return r.leads(side)
		}
		if err := side.reconciler.Trouble(); err != nil && r.ingress.Load() != side {
			r.noteIngress(err)
		}
	}
	return false
}

// use makes a side the one that is told what the members report and how to write. The
// caller holds applying.
func (r *replicator) use(side *ingressSide) {
	side.reconciler.SetSettings(settings(&r.running().Config))
	r.ingress.Store(side)
	r.sink.to.Store(side.reconciler)
}

// takeOver lets one side write in place of another. What the members report goes to
// the new one first, so that nothing is lost between the two; what the old one leaves
// undone is found by looking at everything.
func (r *replicator) takeOver(from, to *ingressSide) {
	r.applying.Lock()
	r.use(to)
	r.applying.Unlock()
	to.reconciler.Resync("", "resync")
	from.end()
	close(to.turn)
	r.noteIngress(nil)
	r.logger.Info("ingress cluster is reached anew", "server", to.write.Host(), "version", to.version.String(), "replicas", to.reconciler.Owned())
	r.reportKept(to.reconciler)
}

// noteIngress remembers why the ingress cluster is not reached as it is configured,
// and says it once.
func (r *replicator) noteIngress(err error) {
	if err != nil && r.begun.Load() {
		err = fmt.Errorf("the new way to the ingress cluster does not work, the former connection stays: %w", err)
	}
	r.mu.Lock()
	before := r.ingressErr
	r.ingressErr = err
	r.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		r.logger.Error("ingress cluster not reached, trying on", "error", err)
	case err == nil && before != nil:
		r.logger.Info("ingress cluster reached")
	}
}
