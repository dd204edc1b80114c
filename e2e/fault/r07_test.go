// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/history"
)

// TestR07MemberRestored puts a member's store back to an older state without a
// new revision, as an operator does who restores a backup. That is noticed
// although the watches say nothing; what seems to be missing is doubted first, and
// taken for true once another list says the same.
func TestR07MemberRestored(t *testing.T) {
	w := newWorld(t, "r07")
	ctx := t.Context()
	w.service("web", 30, w.a)
	w.service("api", 10, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	before, err := w.a.Snapshot(ctx)
	w.must(err)
	w.pods(w.a, "web", 100, 4) // will not be in the backup
	w.must(w.a.Remove(ctx, w.ns, "web-0", "web-1"))
	w.must(w.a.MarkNotReady(ctx, w.ns, "web-2"))
	w.converges(10 * time.Second)
	w.advance(w.a)
	w.must(w.rec.CatchUp(ctx))

	soft := w.rec.Begin(history.Soft, w.a.Name())
	w.must(w.a.Restore(ctx, before))
	back := time.Now()
	w.must(w.rec.Reset(ctx, w.a.Name()))
	noticed := w.reports(w.a.Name(), 20*time.Second, "known to have gone back", func(c clusterStatus) bool { return c.Reason == "RevisionRegressed" })
	// Until then nothing was believed: neither that pods are gone, nor that others
	// are back.
	w.must(w.counts("web", 31)(ctx))
	w.pods(w.b, "api", 100, 1) // the other member is served meanwhile
	w.eventually(5*time.Second, w.counts("api", 21))
	confirmed := w.converges(20 * time.Second)
	soft.End()
	w.reportsUp(w.a.Name(), 10*time.Second)
	t.Logf("noticed after %s; converged %s after the restore, %s after it was noticed", noticed, time.Since(back), confirmed)
	w.pods(w.a, "web", 200, 1)
	w.converges(5 * time.Second)
	w.judge()
}

// TestR07MemberRestoredToLittle puts back a store in which nearly all pods are
// missing: that is held until the real one returns.
func TestR07MemberRestoredToLittle(t *testing.T) {
	w := newWorld(t, "r07b")
	ctx := t.Context()
	w.service("web", 2, w.a)
	w.service("api", 1, w.a)
	w.service("api", 10, w.b)
	w.start()
	w.converges(10 * time.Second)
	little, err := w.a.Snapshot(ctx)
	w.must(err)
	w.pods(w.a, "web", 2, 38)
	w.pods(w.a, "api", 1, 9)
	w.converges(10 * time.Second)
	w.advance(w.a)
	w.must(w.rec.CatchUp(ctx))
	whole, err := w.a.Snapshot(ctx)
	w.must(err)

	soft, quiet := w.rec.Begin(history.Soft, w.a.Name()), w.quiet()
	w.must(w.a.Restore(ctx, little))
	held := w.holds(w.a.Name(), 30*time.Second)
	w.pause(time.Duration(size(4, 60)) * time.Second)
	w.must(w.counts("web", 40)(ctx))
	w.must(w.counts("api", 20)(ctx))
	w.must(w.a.Restore(ctx, whole))
	w.must(w.rec.Reset(ctx, w.a.Name()))
	released := w.holdsNothing(90 * time.Second)
	quiet.End()
	soft.End()
	t.Logf("held after %s, forgotten %s after the real store was back", held, released)
	w.pods(w.a, "web", 200, 1)
	w.converges(10 * time.Second)
	w.judge()
}

// holds waits until something of a member is reported as held.
func (w *world) holds(member string, limit time.Duration) time.Duration {
	w.Helper()
	return w.eventually(limit, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err != nil {
			return err
		}
		for _, h := range s.Held {
			if h.Cluster == member {
				if h.Reason == "" || h.Message == "" || h.Release == "" {
					return fmt.Errorf("held without a reason, a message or a way to release it: %+v", h)
				}
				return nil
			}
		}
		return fmt.Errorf("nothing of %s is held: %+v", member, s.Held)
	})
}

// holdsNothing waits until nothing is reported as held.
func (w *world) holdsNothing(limit time.Duration) time.Duration {
	w.Helper()
	return w.eventually(limit, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err == nil && s.HeldCount > 0 {
			err = fmt.Errorf("still held: %+v", s.Held)
		}
		return err
	})
}
