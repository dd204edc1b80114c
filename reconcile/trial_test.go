// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/write"
)

// A look at everything that fails for another reason has not shown that anything is
// taken by now: nothing is forgotten, and nothing told to be over.
func TestTrialThatFailsOtherwiseForgetsNothing(t *testing.T) {
	for name, fault := range map[string]apitest.Fault{
		"the server fails":      {Status: http.StatusInternalServerError},
		"the connection is cut": {Cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t, "a")
			g.options.RefusalPause = time.Minute
			g.server.Refuse(refuseLabel)
			g.start()
			svc := service(web, 1, 8080)
			svc.Labels = map[string]string{"odd": "x"}
			g.set("a", svc, pod(web, "10.0.0.1", true))
			g.settle()
			g.wantRefusal(1, time.Minute)

			g.refusalDue()
			var failed atomic.Int32
			g.server.Intercept(func(r apitest.Request) *apitest.Fault {
				if r.UserAgent != product || r.Verb != "update" && r.Verb != "create" {
					return nil
				}
				failed.Add(1)
				return &fault
			})
			g.rec.Dirty(web, lanes.Addition, liveCause("a", web))
			g.wait("it was tried again and again", func() bool { return failed.Load() >= 6 })
			g.wantRefusal(1, 0)
			g.server.Intercept(nil)
			g.settle()
			g.wantRefusal(1, 2*time.Minute) // refused once more

			g.refusalDue()
			g.server.Refuse(nil)
			g.rec.Dirty(web, lanes.Addition, liveCause("a", web))
			g.settle()
			g.wantRefusal(0, 0)
		})
	}
}

// refusalDue lets the next look at the replica leave aside what was refused of it.
func (g *ground) refusalDue() {
	now := time.Now()
	known, _ := g.rec.refusals.Known(web, true, false, now)
	g.rec.refusals.Settle(web, nil, write.Pass{}, now)
	g.rec.refusals.Settle(web, known, write.Pass{Refused: true}, now.Add(-g.options.RefusalPause))
}

// wantRefusal compares what is remembered and told of the replica: known are left out
// for so long, or until a trial that is due where pause is 0.
func (g *ground) wantRefusal(known int, pause time.Duration) {
	g.t.Helper()
	left := func(urgent bool, at time.Duration) int {
		all, _ := g.rec.refusals.Known(web, urgent, false, time.Now().Add(at))
		return len(all)
	}
	if all, told := left(true, 0), len(g.seen.trouble(web).Conflicts); all != known || told != known {
		g.t.Errorf("known %d, told %d; want %d", all, told, known)
	}
	if before, after := left(false, pause*3/4), left(false, pause); pause > 0 && before != known || after != 0 {
		g.t.Errorf("known %d until a trial, %d then; want %d for %s", before, after, known, pause)
	}
}
