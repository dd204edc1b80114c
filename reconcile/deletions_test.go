// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// However deletions are answered for good, what they were to take away leaves by another
// write, and the replica is reported.
func TestWhatIsNotDeletedIsEmptied(t *testing.T) {
	faults := []apitest.Fault{
		{Status: 400}, {Status: 401}, {Status: 403}, {Status: 404}, {Status: 405}, {Status: 408}, {Status: 409}, {Status: 410}, {Status: 422},
		{Status: 429}, {Status: 429, RetryAfter: 30}, {Status: 500}, {Status: 503, RetryAfter: 5}, {Status: 504}, {Cut: true},
	}
	for _, fault := range faults {
		for _, whole := range []bool{true, false} {
			t.Run(fmt.Sprint(fault, " whole replica=", whole), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := slowed(t, "a")
					g.source.settings.MaxEndpointsPerSlice = 1
					g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
					g.settle()
					g.faultWrites(1<<30, fault, func(r apitest.Request) bool { return r.Verb == "delete" })
					if whole {
						g.unset("a", web)
					} else {
						g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
					}
					time.Sleep(200 * time.Millisecond)
					if endpoints, sliced := g.addresses(web); slices.Contains(endpoints, "10.0.0.1") || slices.Contains(sliced, "10.0.0.1") {
						t.Errorf("%v and %v stand", endpoints, sliced)
					}
					time.Sleep(time.Minute)
					if !g.reports(web, plan.ConflictRefused, plan.ConflictFailing) {
						t.Errorf("reported is %+v", g.seen.trouble(web).Conflicts)
					}
					g.server.Intercept(nil)
					time.Sleep(6 * time.Minute)
					g.settle()
					if g.reports(web, plan.ConflictRefused, plan.ConflictFailing) {
						t.Errorf("still reported is %+v", g.seen.trouble(web).Conflicts)
					}
				})
			})
		}
	}
}

// reports tells whether one of the reasons is reported of a replica.
func (g *ground) reports(key syncer.Key, reasons ...plan.ConflictReason) bool {
	return slices.ContainsFunc(g.seen.trouble(key).Conflicts, func(c metrics.Conflict) bool {
		return slices.Contains(reasons, plan.ConflictReason(c.Reason))
	})
}

// A webhook refuses an address that stands with a code that others use for what it is not.
// The dead one beside it goes, and the one that is refused goes with it.
func TestStandingAddressIsFoundWhateverTheCode(t *testing.T) {
	for code, reason := range map[int32]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid} {
		synctest.Test(t, func(t *testing.T) {
			g := slowed(t, "a")
			g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"})...)
			g.settle()
			g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
				if !holds(o, "10.0.0.3") {
					return nil, nil
				}
				return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "no"}}
			})
			g.lose("10.0.0.1", time.Second, true, true, service(web, 1, 8080), podsOf([]string{"10.0.0.2", "10.0.0.3", "10.0.0.4"})...)
			g.expect(web, "10.0.0.2", "10.0.0.4")
			if !g.reports(web, plan.ConflictRefused) {
				t.Errorf("%d: reported is %+v", code, g.seen.trouble(web).Conflicts)
			}
			g.server.Refuse(nil)
			time.Sleep(6 * time.Minute)
			g.expect(web, "10.0.0.2", "10.0.0.3", "10.0.0.4")
		})
	}
}

// A quota denies a slice, and its address is in Endpoints alone, which say whose it is. While
// the slice is tried again and again, Endpoints are not written.
func TestTrialsOfASliceLeaveEndpointsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowed(t, "a")
		g.source.settings.MaxEndpointsPerSlice = 2
		g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
		g.settle()
		g.server.Refuse(quota("a"))
		g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})...)
		time.Sleep(time.Minute)
		if endpoints, sliced := g.addresses(web); len(endpoints) != 3 || len(sliced) != 2 {
			t.Errorf("%v and %v stand", endpoints, sliced)
		}
		g.writes()
		time.Sleep(time.Hour)
		for _, w := range g.writes() {
			if strings.HasSuffix(w, " 200") {
				t.Errorf("written: %s", w)
			}
		}
		g.server.Refuse(nil)
		time.Sleep(10 * time.Minute)
		g.expect(web, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	})
}

// A server that asks for one pause after the other about one replica is reported, and that
// replica is no lag.
func TestPausesWithoutEndAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := slowed(t, "a")
		g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
		g.settle()
		g.faultWrites(1<<30, apitest.Fault{Status: 429, RetryAfter: 1}, of("endpoints"))
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
		if time.Sleep(10 * time.Second); g.reports(web, plan.ConflictFailing) {
			t.Error("reported at once")
		}
		if time.Sleep(5 * time.Minute); !g.reports(web, plan.ConflictFailing) {
			t.Errorf("reported is %+v", g.seen.trouble(web).Conflicts)
		}
		if lag := g.rec.Queue().OldestArrivals(); len(lag) > 0 {
			t.Errorf("lag since %v", lag)
		}
		g.server.Intercept(nil)
		time.Sleep(time.Minute)
		g.expect(web, "10.0.0.2")
		if g.reports(web, plan.ConflictFailing) {
			t.Error("still reported")
		}
	})
}
