// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// rules is a Policy: an order for every replica, and the members to drain.
type rules struct {
	order  []string
	drains map[string]bool // true: by force
}

func (r rules) Order(syncer.Key, string, *syncer.Service) []string { return r.order }

func (r rules) Drain(cluster string) (drain, force bool) {
	force, drain = r.drains[cluster]
	return drain, force
}

func (r rules) Misread(*syncer.Service) string { return "" }

// steer edits the policy of a running reconciler.
func (g *ground) steer(r rules) {
	g.t.Helper()
	settings := *g.source.Settings()
	settings.Policy = r
	g.source.setSettings(settings)
	g.rec.Resync("", "config")
	g.settle()
}

func (g *ground) heldReasons(key syncer.Key) (reasons []string) {
	for _, h := range g.seen.trouble(key).Held {
		reasons = append(reasons, h.Cluster+" "+h.Reason)
	}
	return reasons
}

func TestFailoverSwitchesBothWays(t *testing.T) {
	g := newGround(t, "a", "b")
	g.source.settings.Policy = rules{order: []string{"a", "b"}}
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.expect(web, "10.0.0.1")
	if w := g.rec.Wanted(web); !w.InTurn || !w.Ready["a"]["10.0.0.1"] || len(w.Ready["b"]) > 0 {
		t.Errorf("wanted: %+v", w)
	}

	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", false))
	if w := g.rec.Wanted(web); !w.Ready["b"]["10.1.0.1"] {
		t.Errorf("wanted after the first choice went: %+v", w)
	}
	g.settle()
	g.expect(web, "10.1.0.1")
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.expect(web, "10.0.0.1")

	// A restart while the serving member is away does not switch.
	g.stop()
	g.writes()
	g.source.unset("a", web)
	g.source.setSynced("a", false)
	g.start()
	g.expectWrites()
	g.expect(web, "10.0.0.1")
	// The order is edited while it runs, though a is not seen.
	g.steer(rules{order: []string{"b", "a"}})
	g.expect(web, "10.1.0.1")
}

func TestDrainAndBack(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.steer(rules{drains: map[string]bool{"a": false}})
	g.expect(web, "10.1.0.1")

	// The last ready ones come back by themselves, and it is said.
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", false))
	g.settle()
	g.expect(web, "10.0.0.1")
	if got := g.heldReasons(web); !slices.Equal(got, []string{"a drain_last_ready"}) {
		t.Errorf("held %q", got)
	}
	g.steer(rules{drains: map[string]bool{"a": true}})
	g.expect(web)
	if got := g.heldReasons(web); len(got) != 0 {
		t.Errorf("held %q by force", got)
	}
	g.steer(rules{})
	g.expect(web, "10.0.0.1")
}

// A drain holds for what stands of a member that is away, too.
func TestDrainOfAMemberThatIsAway(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.stop()
	g.source.unset("a", web)
	g.source.setSynced("a", false)
	g.start()
	g.expect(web, "10.0.0.1", "10.1.0.1")
	g.steer(rules{drains: map[string]bool{"a": false}})
	g.expect(web, "10.1.0.1")
}

func (g *ground) forget(cluster string) {
	g.source.mu.Lock()
	defer g.source.mu.Unlock()
	g.source.states = slices.DeleteFunc(g.source.states, func(m MemberState) bool { return m.Name == cluster })
	for _, given := range g.source.given {
		delete(given, cluster)
	}
}

// A cluster that was drained before it was taken out of the file leaves nothing;
// one that was not is counted and planned.
func TestRemovedClusters(t *testing.T) {
	own := syncer.Key{Namespace: "shop", Name: "own"}
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.set("b", service(own, 2, 8080), pod(own, "10.1.0.2", true))
	g.settle()
	g.forget("b")
	g.rec.Resync("b", "config")
	g.settle()
	if stay, leave := g.rec.Kept(); len(stay) != 1 || stay["b"] != 2 || len(leave) != 0 {
		t.Errorf("%v stay and %v leave, want two replicas of b that stay", stay, leave)
	}
	for _, key := range []syncer.Key{web, own} {
		if told := g.seen.trouble(key).Orphans; !slices.Equal(told, []metrics.OrphanStatus{{Cluster: "b", Endpoints: 1}}) {
			t.Errorf("%s: orphans %+v are reported", key, told)
		}
	}
	plans, err := g.rec.PlanAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := plan.WriteText(&text, plans, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"shop/own b 1 endpoint\n", "shop/web b 1 endpoint\n", "2 kept"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the plan lacks %q:\n%s", want, &text)
		}
	}
	// Back in the file to be drained, then out again.
	g.source.mu.Lock()
	g.source.states = append(g.source.states, MemberState{Name: "b"})
	g.source.mu.Unlock()
	g.steer(rules{drains: map[string]bool{"b": true}})
	g.expect(web, "10.0.0.1")
	g.expect(own)
	g.forget("b")
	g.rec.Resync("b", "config")
	g.settle()
	if stay, leave := g.rec.Kept(); len(stay)+len(leave) != 0 {
		t.Errorf("%v stay and %v leave", stay, leave)
	}
	if told := g.seen.trouble(web).Orphans; len(told) > 0 {
		t.Errorf("orphans %+v are still reported", told)
	}
	if _, stands := apitest.Get[*corev1.Service](g.server, own.Namespace, own.Name); stands {
		t.Error("an empty replica of a drained cluster is left")
	}
	if svc, _ := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name); strings.Contains(svc.Annotations[plan.AnnotationSources], `"b"`) {
		t.Errorf("b is still on record: %s", svc.Annotations[plan.AnnotationSources])
	}
}

// The members of a failover take over from one that was taken out of the file, in one
// go: neither a record nor an emptied slice is left that a restart would take away.
func TestFailoverFromARemovedCluster(t *testing.T) {
	for _, write := range [][2]bool{{true, true}, {true, false}, {false, true}} {
		t.Run(fmt.Sprint(write), func(t *testing.T) {
			g := newGround(t, "a", "b")
			g.source.settings.WriteEndpoints, g.source.settings.WriteSlices = write[0], write[1]
			g.source.settings.Policy = rules{order: []string{"a", "b"}}
			g.start()
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
			g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", false))
			g.settle()
			g.forget("a")
			if stay, leave := g.rec.Kept(); stay["a"] != 1 || len(leave) != 0 {
				t.Errorf("%v stay and %v leave while nobody else is ready", stay, leave)
			}
			g.steer(rules{order: []string{"b"}})
			g.serves("10.0.0.1")

			g.source.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
			if stay, leave := g.rec.Kept(); len(stay) != 0 || leave["a"] != 1 {
				t.Errorf("%v stay and %v leave", stay, leave)
			}
			g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
			g.settle()
			g.serves("10.1.0.1")
			if plans, err := g.rec.PlanAll(t.Context()); err != nil || slices.ContainsFunc(plans, func(p plan.Plan) bool { return !p.Empty() || len(p.Kept) > 0 }) {
				t.Errorf("something is left to do: %+v, %v", plans, err)
			}
			g.writes()
			g.stop()
			g.start()
			g.expectWrites()
		})
	}
}

// serves fails unless exactly these addresses of web are ready, in the kinds written.
func (g *ground) serves(want ...string) {
	g.t.Helper()
	endpoints, sliced := g.addresses(web)
	if s := g.source.settings; s.WriteEndpoints && !slices.Equal(endpoints, want) || s.WriteSlices && !slices.Equal(sliced, want) {
		g.t.Errorf("Endpoints %v and slices %v, want %v", endpoints, sliced, want)
	}
}

// With orders to delete, a removed cluster still does not leave a replica without
// a ready endpoint while a member is unseen: it may have been given a new name.
func TestOrphansAreNotDeletedBeforeTheOthersAreSeen(t *testing.T) {
	g := newGround(t, "old")
	g.source.settings.DeleteRemoved = true
	g.start()
	g.set("old", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.source.mu.Lock()
	g.source.states = append(g.source.states, MemberState{Name: "new"})
	g.source.mu.Unlock()
	g.forget("old")
	g.writes()
	g.rec.Resync("old", "config")
	g.settle()
	g.expectWrites()
	g.expect(web, "10.0.0.1")
	g.source.set("new", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.source.setSynced("new", true)
	g.rec.Resync("new", "resync")
	g.settle()
	g.expect(web, "10.0.0.1")
	if stay, leave := g.rec.Kept(); len(stay)+len(leave) != 0 {
		t.Errorf("%v stay and %v leave", stay, leave)
	}
}

func (g *ground) eventLines() (lines []string) {
	for _, e := range apitest.List[*corev1.Event](g.server, web.Namespace) {
		lines = append(lines, e.Type+" "+e.Reason+" "+e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name+" "+strings.SplitN(e.Message, " ", 4)[0]+" x"+string('0'+rune(e.Count)))
	}
	slices.Sort(lines)
	return lines
}

func (g *ground) showsEvents(want ...string) {
	g.t.Helper()
	g.wait("the events are "+strings.Join(want, ", "), func() bool { return slices.Equal(g.eventLines(), want) })
}

func TestConflictsAreEvents(t *testing.T) {
	const warning, cleared = "Warning TributaryConflict Service/web port: x", "Normal TributaryConflictCleared Service/web no x"
	g := newGround(t, "a", "b")
	g.options.Events = g.server.Client(t, "events")
	g.start()
	odd := service(web, 2, 8080)
	odd.Ports[0].Port = 81
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.set("b", odd, pod(web, "10.1.0.1", true))
	g.showsEvents(warning + "1")
	// More of the same is no news.
	g.set("b", odd, pod(web, "10.1.0.2", true))
	g.settle()
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.showsEvents(cleared+"1", warning+"1")
	g.set("b", odd, pod(web, "10.1.0.1", true))
	g.showsEvents(cleared+"1", warning+"2")
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.showsEvents(cleared+"2", warning+"2")
	var posted []string
	for _, w := range g.server.Writes("events") {
		posted = append(posted, w.Verb)
	}
	if !slices.Equal(posted, []string{"create", "create", "patch", "patch"}) {
		t.Errorf("posted by %q", posted)
	}
	// Another process tells of what it finds, and not what was mended before.
	g.set("b", odd, pod(web, "10.1.0.1", true))
	g.showsEvents(cleared+"2", warning+"3")
	g.stop()
	g.start()
	g.rec.Dirty(web, lanes.Bulk, liveCause("a", web))
	g.showsEvents(cleared+"2", warning+"1", warning+"3")
}

func TestEventsThatAreRefusedMatterToNobody(t *testing.T) {
	g := newGround(t, "a", "b")
	g.options.Events = g.server.Client(t, "events")
	refused := make(chan struct{}, 10)
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.Resource != "events" {
			return nil
		}
		if r.Verb == "create" {
			refused <- struct{}{}
		}
		return &apitest.Fault{Status: 403}
	})
	g.start()
	odd := service(web, 2, 8080)
	odd.Ports[0].Port = 81
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", odd, pod(web, "10.1.0.1", true))
	<-refused
	g.settle()
	g.expect(web, "10.0.0.1")
	if c := g.seen.trouble(web).Conflicts; len(c) != 1 {
		t.Errorf("conflicts %+v", c)
	}
}

// syncsLate is members of which b becomes synced just after it was asked.
type syncsLate struct{ *members }

func (s syncsLate) Gather(key syncer.Key) Snapshot {
	g := s.members.Gather(key)
	s.setSynced("b", true)
	return g
}

// A member that is synced a moment after it was asked for its share has not said
// that it has none.
func TestMemberThatSyncsMeanwhile(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.stop()
	g.writes()
	g.source.unset("b", web)
	g.source.setSynced("b", false)
	g.options.Source = syncsLate{g.source}
	g.start()
	g.expectWrites()
	g.expect(web, "10.0.0.1", "10.1.0.1")
}

// A pod of b is gone, and nobody has written that when b is taken out of the file: of what
// stands of b, which stays, that goes.
func TestRemovedClusterLeavesWhatItLost(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true), pod(web, "10.1.0.2", true))
	g.settle()
	g.source.mu.Lock()
	g.source.gone = map[string][]netip.Addr{"b": {netip.MustParseAddr("10.1.0.1")}}
	g.source.mu.Unlock()
	g.forget("b")
	g.rec.Resync("b", "config")
	g.settle()
	g.expect(web, "10.0.0.1", "10.1.0.2")
	if told := g.seen.trouble(web).Orphans; !slices.Equal(told, []metrics.OrphanStatus{{Cluster: "b", Endpoints: 1}}) {
		t.Errorf("orphans %+v are reported", told)
	}
}
