// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// outsider is told what replicas are, and keeps all of it.
type outsider struct {
	mu   sync.Mutex
	told map[syncer.Key][][]string // ready addresses, sorted; nil: nobody wants it
	keys []syncer.Key
}

func (o *outsider) Tell(key syncer.Key, replica *plan.Desired) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var is []string
	if replica != nil {
		is = []string{}
		for _, b := range replica.Backends() {
			if b.Ready {
				is = append(is, b.Addr.String())
			}
		}
		slices.Sort(is)
	}
	if o.told == nil {
		o.told = map[syncer.Key][][]string{}
	}
	if all := o.told[key]; len(all) == 0 || !slices.Equal(all[len(all)-1], is) || (all[len(all)-1] == nil) != (is == nil) {
		o.told[key] = append(all, is)
	}
}

func (o *outsider) Keys() []syncer.Key {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.keys)
}

// last is what was told last, and how often another thing was; told is false where nothing was.
func (o *outsider) last(key syncer.Key) (is []string, changes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if all := o.told[key]; len(all) > 0 {
		return all[len(all)-1], len(all)
	}
	return []string{"nothing"}, 0
}

// announcing is a ground that somebody outside listens to.
func announcing(t *testing.T, clusters ...string) (*ground, *outsider) {
	g, out := newGround(t, clusters...), &outsider{}
	g.options.Outside, g.options.RefusalPause = out, time.Hour
	return g, out
}

// tells compares what was told last, in that many steps.
func (g *ground) tells(out *outsider, steps int, want ...string) {
	g.t.Helper()
	if got, changes := out.last(web); !slices.Equal(got, want) || (got == nil) != (want == nil) || changes != steps {
		g.t.Errorf("told %q in %d steps, want %q in %d", got, changes, want, steps)
	}
}

// What replicas are is told as it is decided: before it is written, and once. Addresses that
// no API takes are in neither.
func TestOutsideIsToldWhatIsDecided(t *testing.T) {
	g, out := announcing(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", false), pod(web, "127.0.0.9", true), pod(web, "169.254.1.1", true))
	g.settle()
	g.tells(out, 1, "10.0.0.1")
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.tells(out, 2, "10.0.0.1", "10.1.0.1")

	// The ingress cluster takes nothing: a removal is told all the same.
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if isWrite(r) {
			return &apitest.Fault{Status: http.StatusInternalServerError}
		}
		return nil
	})
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", false))
	g.wait("it is told", func() bool { _, n := out.last(web); return n == 3 })
	g.tells(out, 3, "10.0.0.1")
	if endpoints, _ := g.addresses(web); !slices.Equal(endpoints, []string{"10.0.0.1", "10.1.0.1"}) {
		t.Errorf("Endpoints %v stand", endpoints)
	}
	g.server.Intercept(nil)
	g.settle()
	g.unset("a", web)
	g.settle()
	g.unset("b", web)
	g.settle()
	g.tells(out, 5, nil...)
}

// What nobody is certain of stays as it was told: a member that was not seen yet, a
// namespace out of bounds.
func TestOutsideKeepsWhatIsUncertain(t *testing.T) {
	g, out := announcing(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.source.setSynced("a", false)
	g.unset("a", web)
	g.settle()
	g.tells(out, 1, "10.0.0.1")
	g.source.setSynced("a", true)
	g.rec.Seen("a")
	g.settle()
	g.tells(out, 2, nil...)

	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	settings := *g.source.Settings()
	settings.MayWrite = func(string) bool { return false }
	g.source.setSettings(settings)
	g.unset("a", web)
	g.settle()
	g.tells(out, 3, "10.0.0.1")
}

// What somebody outside knows is looked at, although no member has it and nothing stands,
// and is gone when every member has been seen.
func TestOutsideKnowsWhatIsGone(t *testing.T) {
	g, out := announcing(t, "a")
	out.keys = []syncer.Key{web}
	g.source.setSynced("a", false)
	g.start()
	g.rec.Resync("", "config")
	g.settle()
	g.tells(out, 0, "nothing")
	g.source.setSynced("a", true)
	g.rec.Resync("", "config")
	g.settle()
	g.tells(out, 1, nil...)
}

// A guard that holds a removal back holds it back outside, too: a member that is drained
// keeps the last ready endpoints until another has some.
func TestGuardsApplyBeforeOutside(t *testing.T) {
	g, out := announcing(t, "a", "b")
	g.source.settings.Policy = rules{drains: map[string]bool{"a": false}}
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.tells(out, 1, "10.0.0.1")
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.tells(out, 2, "10.1.0.1")
}

// An address that replicas go without because the ingress cluster refuses it is not told
// outside either, found by name or by a search, and again when it is taken; a try of it, and
// a search, let nothing go and return.
func TestOutsideGoesWithoutRefusedAddresses(t *testing.T) {
	for name, refuse := range map[string]refuser{"named": refuseAddress("10.0.0.66"), "searched for": unnamed("10.0.0.66")} {
		t.Run(name, func(t *testing.T) {
			g, out := announcing(t, "a")
			g.start()
			g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
			g.settle()
			g.server.Refuse(refuse)
			g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.66"})...)
			g.settle()
			g.expect(web, "10.0.0.1", "10.0.0.2", "10.0.0.3")
			_, steps := out.last(web)
			if steps > 3 { // at first nobody knows
				t.Errorf("told in %d steps", steps)
			}
			g.tells(out, steps, "10.0.0.1", "10.0.0.2", "10.0.0.3")
			if r := g.seen.trouble(web).Rejected; len(r) != 1 || r[0].Address != "10.0.0.66" || r[0].Reason != string(syncer.RejectRefused) {
				t.Errorf("reported: %+v", r)
			}

			g.refusalDue()
			g.rec.Dirty(web, lanes.Addition, liveCause("a", web))
			g.settle()
			g.tells(out, steps, "10.0.0.1", "10.0.0.2", "10.0.0.3")
			g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.2", "10.0.0.3", "10.0.0.66"})...)
			g.settle()
			g.tells(out, steps+1, "10.0.0.2", "10.0.0.3")

			g.server.Refuse(nil)
			g.refusalDue()
			g.rec.Dirty(web, lanes.Addition, liveCause("a", web))
			g.settle()
			g.expect(web, "10.0.0.2", "10.0.0.3", "10.0.0.66")
			g.tells(out, steps+2, "10.0.0.2", "10.0.0.3", "10.0.0.66")
		})
	}
}

// What is refused of a replica that is no address is the ingress cluster's own matter.
func TestOutsideIsToldWhatOnlyObjectsAreRefusedFor(t *testing.T) {
	g, out := announcing(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.server.Refuse(refuseLabel)
	svc := service(web, 1, 8080)
	svc.Labels = map[string]string{"odd": "x"}
	g.set("a", svc, podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
	g.settle()
	g.expect(web, "10.0.0.1")
	g.tells(out, 2, "10.0.0.1", "10.0.0.2")
}

// A replica whose objects somebody deleted, and that may not be made again, is not gone.
func TestOutsideKeepsAReplicaThatMayNotBeMade(t *testing.T) {
	g, out := announcing(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.server.Refuse(func(obj apitest.Object) (field.ErrorList, error) {
		return nil, apierrors.NewForbidden(corev1.Resource("services"), obj.GetName(), errors.New("ValidatingAdmissionPolicy 'no' with binding 'no' denied request: not now"))
	})
	apitest.Remove[*corev1.Service](t, g.server, web.Namespace, web.Name)
	g.settle()
	g.tells(out, 1, "10.0.0.1")
}
