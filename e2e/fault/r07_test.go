// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// TestR07MemberRestored puts a member's store back to an older state, as an operator does
// who restores a backup: with the revisions that it had, and with higher ones than tributary
// has seen. It is read anew; what is missing then stays published for a while, for kubelets bring
// back what lives, and leaves without anybody's help. No replica is empty meanwhile.
func TestR07MemberRestored(t *testing.T) {
	for name, bumped := range map[string]bool{"r07": false, "r07-bumped": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, name)
			ctx := t.Context()
			proxy := w.proxyTo(w.a)
			w.service("web", 10, w.a)
			w.service("api", 3, w.a, w.b)
			w.laws.Serving = []history.Key{{Namespace: w.ns, Name: "web"}, {Namespace: w.ns, Name: "api"}, {Namespace: w.ns, Name: "late"}}
			w.start()
			w.converges(10 * time.Second)
			before, err := w.a.Snapshot(ctx)
			w.must(err)
			late := w.service("late", 4, w.a) // will not be in the backup
			w.must(w.a.Remove(ctx, w.ns, "web-0", "web-1"))
			w.must(w.a.MarkNotReady(ctx, w.ns, "web-2"))
			w.converges(10 * time.Second)
			w.advance(w.a)
			w.must(w.rec.CatchUp(ctx))
			highest, err := w.a.Revision(ctx)
			w.must(err)

			blind := w.blind(w.a)
			// Tributary sees the store that was put back after the recorder, which judges by what it has seen itself.
			proxy.Set(&Fault{CutBefore: true})
			proxy.EndWatches()
			w.must(w.a.Restore(ctx, before))
			for now := int64(0); bumped && now <= highest; {
				w.advanceAgain(w.a)
				now, err = w.a.Revision(ctx)
				w.must(err)
			}
			if bumped {
				w.must(w.a.Compact(ctx))
				w.crash(w.a)
			}
			w.must(w.rec.Reset(ctx, w.a.Name()))
			proxy.Set()
			back := time.Now()
			// What ran goes on running: their kubelets make their pods anew, by and by. Two of
			// them; the rest is not there any more.
			w.must(w.a.Create(ctx, fleet.NewService(w.ns, "late")))
			w.pods(w.a, "late", 10, 1)
			w.pods(w.b, "api", 100, 1) // the other member is served meanwhile
			w.eventually(5*time.Second, func(ctx context.Context) error {
				inEndpoints, _, err := w.readyAddresses(ctx, "api")
				if err == nil && len(inEndpoints) < 7 {
					err = fmt.Errorf("%d addresses", len(inEndpoints))
				}
				return err
			})
			took := w.gone("late", late, 100*time.Second)
			w.converges(30 * time.Second)
			blind.End()
			t.Logf("what the backup did not have was gone %s after the restore (%s after it was followed)", time.Since(back), took)
			w.reportsUp(w.a.Name(), 10*time.Second)
			w.pods(w.a, "web", 200, 1)
			w.converges(5 * time.Second)
			w.judge()
		})
	}
}

// advanceAgain goes on with what advance began.
func (w *world) advanceAgain(s *fleet.Site) {
	w.Helper()
	_ = s.Remove(w.Context(), w.ns, "advance") // the backup may not have it
	w.advance(s)
}
