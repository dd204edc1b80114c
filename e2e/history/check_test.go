// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// foreign is a Service of somebody else.
func foreign(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// TestLaws has for each law a history that obeys it and one that breaks it.
func TestLaws(t *testing.T) {
	for _, c := range []struct {
		name  string
		story *story
		want  []Law
	}{
		{"a normal day", newStory().pods(0, "p1").shows(0, "p1").
			pods(10, "p2").shows(10.1, "p1", "p2").
			pods(20, "!p2").shows(20.1, "p1", "!p2").
			pods(30, "p2").shows(30.1, "p1", "p2").
			gone(40, "p2").shows(40.1, "p1").until(60), nil},
		{"the recorder sees the member a little later than tributary", newStory().shows(9.5, "p1").pods(10, "p1").until(30), nil},
		{"flaps that nobody could follow", newStory().pods(0, "p1").shows(0, "p1").
			pods(10, "!p1").pods(10.01, "p1").pods(10.02, "!p1").pods(10.03, "p1").until(30), nil},
		{"endpoints move between slices", newStory().pods(0, "p1").shows(0, "p1").
			slice(10, "a", "web-a-2", "p1").slice(10.1, "a", "web-a").until(30), nil},

		{"an address of no pod", newStory().pods(0, "p1").shows(0, "p1").slice(10, "a", "web-a", "p1", "x7").until(30), []Law{Converged, NoPhantom}},
		{"an address of no pod, for a moment", newStory().pods(0, "p1").shows(0, "p1").
			slice(10, "a", "web-a", "p1", "x7").slice(10.1, "a", "web-a", "p1").until(30), []Law{NoPhantom}},
		{"a removed address comes back", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			gone(10, "p2").shows(10.1, "p1").shows(25, "p1", "p2").shows(26, "p1").until(60), []Law{NoPhantom}},
		{"a removed address comes back at once", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			gone(10, "p2").shows(10.1, "p1").shows(10.2, "p1", "p2").shows(10.3, "p1").until(60), []Law{NoPhantom}},
		{"a removed address comes back with another slice, which was in flight", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			gone(10, "p2").write(10, "ingress", "create", "endpointslices", "web-a-2").
			write(10.1, "ingress", "update", "endpointslices", "web-a").shows(10.2, "p1").
			slice(10.3, "a", "web-a-2", "p2").write(10.4, "ingress", "delete", "endpointslices", "web-a-2").end(10.5, "web-a-2").until(60), nil},
		{"a removed address comes back with another slice, which was sent later", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			gone(10, "p2").write(10.1, "ingress", "update", "endpointslices", "web-a").shows(10.2, "p1").
			write(10.2, "ingress", "create", "endpointslices", "web-a-2").
			slice(10.3, "a", "web-a-2", "p2").write(10.4, "ingress", "delete", "endpointslices", "web-a-2").end(10.5, "web-a-2").until(60), []Law{NoPhantom}},
		{"another member's pod under this member's name", newStory().pods(0, "p1", "q1").shows(0, "p1", "q1").
			slice(10, "a", "web-a", "p1", "q1").slice(11, "a", "web-a", "p1").until(30), []Law{NoPhantom}},
		{"a pod unseen for long comes back by a repair", newStory().pods(0, "p1").shows(0, "p1").
			span(Blind, "a", 10, 100).gone(20, "p1").shows(30).hand(3).shows(31, "p1").shows(101).until(120), nil},

		{"a new Service is seen before the end of an old pod", newStory().pods(0, "p1").shows(0, "p1").
			gone(9.9, "p1").port(10, 9090).shows(10.1).port9090(10.2, "p1").shows(10.3).until(40), nil},
		{"a Service's new port is published for a pod that is long gone", newStory().pods(0, "p1").shows(0, "p1").
			gone(10, "p1").shows(10.1).port(30, 9090).port9090(30.1, "p1").shows(30.2).until(60), []Law{NoPhantom}},

		{"an endpoint disappears for a moment", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			shows(10, "p1").shows(10.1, "p1", "p2").until(30), []Law{NoWipe}},
		{"a member just back is forgotten for a moment", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			gone(10, "p2").shows(10.1, "p1").pods(12, "p2").shows(12.1, "p1", "p2").shows(13, "p1").shows(13.1, "p1", "p2").until(40), []Law{NoWipe}},
		{"a frozen member is emptied", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			span(Blind, "a", 10, 40).shows(20).shows(41, "p1", "p2").until(60), []Law{NoWipe}},
		{"a doubted member is demoted", newStory().pods(0, "p1", "q1").shows(0, "p1", "q1").
			span(Doubt, "a", 10, 40).shows(20, "!p1", "q1").shows(35, "p1", "q1").until(60), nil},
		{"a doubted member is demoted, and nobody else serves", newStory().pods(0, "p1", "q1").shows(0, "p1").
			span(Blind, "b", 0, 70).span(Doubt, "a", 10, 40).shows(20, "!p1").shows(35, "p1").until(60), []Law{NoWipe}},
		{"a doubted member begins as a reserve", newStory().pods(0, "q1").shows(0, "q1").
			span(Doubt, "a", 5, 40).pods(10, "p1").shows(10.1, "!p1", "q1").shows(35, "p1", "q1").until(60), nil},
		{"a write was half done when tributary ended", newStory().pods(0, "p1").shows(0, "p1").pods(9, "p2").endpoints(9.1, "p1", "p2").
			span(ProductDown, "", 10, 11).endpoints(11.1, "p1").shows(11.2, "p1", "p2").until(40), nil},
		{"the other half was written while Endpoints lost theirs", newStory().pods(0, "p1").shows(0, "p1").pods(9, "p2").endpoints(9.1, "p1", "p2").
			span(ProductDown, "", 10, 11).slices(11.05, "p1", "p2").endpoints(11.1, "p1").shows(11.2, "p1", "p2").until(40), nil},
		{"what was whole when tributary ended is lost", newStory().pods(0, "p1").shows(0, "p1").pods(9, "p2").shows(9.1, "p1", "p2").
			span(ProductDown, "", 10, 11).endpoints(11.1, "p1").shows(11.2, "p1", "p2").until(40), []Law{NoWipe}},
		{"what came to both after tributary ended is lost", newStory().pods(0, "p1").shows(0, "p1").
			span(ProductDown, "", 10, 11).pods(12, "p2").shows(12.1, "p1", "p2").endpoints(13, "p1").shows(13.1, "p1", "p2").until(40), []Law{NoWipe}},
		{"a replica was half removed when tributary ended", newStory().pods(0, "p1").shows(0, "p1").gone(9, "p1").unmade(9.1).
			span(ProductDown, "", 9.2, 10).endpoints(10.1, "p1").shows(10.2).until(40), nil},
		{"a slice is rebuilt from Endpoints after tributary ended", newStory().pods(0, "p1").shows(0, "p1").gone(9, "p1").end(9.1, "web-a").
			span(ProductDown, "", 9.2, 10).slice(10.1, "a", "web-a", "p1").shows(10.2).until(40), []Law{NoPhantom}},
		{"Endpoints are rebuilt from what is gone", newStory().pods(0, "p1").shows(0, "p1").gone(9, "p1").unmade(9.1).
			endpoints(10.1, "p1").shows(10.2).until(40), []Law{NoPhantom}},
		{"a doubted member is removed", newStory().pods(0, "p1", "q1").shows(0, "p1", "q1").
			span(Doubt, "a", 10, 40).shows(20, "q1").shows(35, "p1", "q1").until(60), []Law{NoWipe}},
		{"a member is demoted without a doubt", newStory().pods(0, "p1", "q1").shows(0, "p1", "q1").
			shows(20, "!p1", "q1").shows(21, "p1", "q1").until(60), []Law{NoPhantom, NoWipe}},
		{"of all that serve the last is really gone", newStory().pods(0, "p1", "!q1").shows(0, "p1", "!q1").
			gone(10, "p1").shows(10.1, "!q1").until(30), nil},
		{"an operator deletes what a member left", newStory().pods(0, "p1", "q1").shows(0, "p1", "q1").
			span(Free, "a", 10, 40).shows(20, "q1").shows(35, "p1", "q1").until(60), nil},
		{"somebody else deletes, tributary repairs", newStory().pods(0, "p1").shows(0, "p1").
			shows(10).hand(3).shows(10.5, "p1").until(30), nil},

		{"a healthy member waits while another is frozen", newStory().pods(0, "p1", "q1").shows(0, "p1", "q1").
			span(Blind, "a", 10, 60).pods(20, "q2").shows(61, "p1", "q1", "q2").until(80), []Law{Isolated}},
		{"a frozen member may wait", newStory().pods(0, "p1").shows(0, "p1").
			span(Blind, "a", 10, 60).pods(20, "p2").shows(61, "p1", "p2").until(80), nil},
		{"tributary is down", newStory().pods(0, "p1").shows(0, "p1").
			span(ProductDown, "", 10, 60).pods(20, "p2").shows(61, "p1", "p2").until(80), nil},
		{"a removal waits", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").
			gone(10, "p2").shows(40, "p1").until(60), []Law{Isolated}},

		{"an endpoint is missing at the end", newStory().pods(0, "p1").shows(0, "p1").pods(10, "p2").until(12), []Law{Converged}},
		{"an endpoint is left over at the end", newStory().pods(0, "p1", "p2").shows(0, "p1", "p2").gone(10, "p2").until(12), []Law{Converged}},
		{"the two kinds differ", newStory().pods(0, "p1").shows(0, "p1").pods(10, "p2").endpoints(10.1, "p1", "p2").until(15), []Law{Converged}},
	} {
		t.Run(c.name, func(t *testing.T) { breaks(t, c.story, c.want) })
	}
}

// breaks checks which laws a story breaks.
func breaks(t *testing.T, s *story, want []Law) {
	t.Helper()
	report := Check(&s.h, Settings{})
	broken := map[Law]bool{}
	for _, v := range report.Violations {
		broken[v.Law] = true
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(broken)); !slices.Equal(got, want) {
		t.Errorf("broken laws: %v, want %v\n%s", got, want, report)
	}
}

// TestAuditedLaws does the same for what only the audit log shows.
func TestAuditedLaws(t *testing.T) {
	withForeign := func() *story {
		s := newStory()
		s.event(0, "ingress", Service, "theirs", foreign("theirs"))
		return s
	}
	lost := func(at float64) *story {
		s := newStory()
		s.event(at, "ingress", Service, "web", foreign("web"))
		return s
	}
	for _, c := range []struct {
		name  string
		story *story
		want  []Law
	}{
		{"an update of its own", newStory().replica(10).write(10, "ingress", "update", "services", "web"), nil},
		{"a lease", newStory().write(10, "ingress", "update", "leases", "idc-a"), nil},
		{"an update without effect", newStory().write(10, "ingress", "update", "services", "web"), []Law{Zero}},
		{"an update in a quiet span", newStory().span(Quiet, "", 5, 15).replica(10).write(10, "ingress", "update", "services", "web"), []Law{Zero}},
		{"a lease in a quiet span", newStory().span(Quiet, "", 5, 15).write(10, "ingress", "update", "leases", "idc-a"), nil},
		{"a foreign Service is deleted", withForeign().write(10, "ingress", "delete", "services", "theirs"), []Law{Owned}},
		{"ours is deleted after it became foreign", lost(5).write(10, "ingress", "delete", "services", "web"), []Law{Owned, Converged}},
		{"ours is deleted as it becomes foreign", lost(10).write(10.1, "ingress", "delete", "services", "web"), []Law{Converged}},
		{"a write in a member", newStory().write(10, "a", "update", "services", "web"), []Law{Owned}},
		{"a collection is deleted", newStory().write(10, "ingress", "deletecollection", "endpointslices", ""), []Law{Owned}},
		{"a secret is written", newStory().write(10, "ingress", "create", "secrets", "s"), []Law{Owned}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.story.h.End = max(c.story.h.End, seconds(20))
			if slices.Contains(c.want, Converged) {
				breaks(t, c.story, slices.DeleteFunc(c.want, func(l Law) bool { return l == Converged }))
				return
			}
			breaks(t, c.story, c.want)
		})
	}
}

func TestReplicas(t *testing.T) {
	orphan := newStory()
	orphan.event(5, "a", Service, "web", nil)
	orphan.event(5, "b", Service, "web", nil)
	breaks(t, orphan.until(30), []Law{Converged})
	missing := newStory()
	missing.event(5, "ingress", Service, "web", nil)
	breaks(t, missing.until(30), []Law{Converged})
	conflict := newStory().pods(0, "p1")
	conflict.event(0, "ingress", Service, "web", foreign("web"))
	breaks(t, conflict.until(30), nil)
}

// TestInstallations judges one of two installations: it does not own what the other shows;
// what it wants and the other has is a conflict, and it writes nothing of that name.
func TestInstallations(t *testing.T) {
	of := func(name string, s *story) *story { // assigns its last object to that installation
		object := s.h.Events[len(s.h.Events)-1].Object
		labels := maps.Clone(object.GetLabels())
		labels[ofInstance] = name
		object.SetLabels(labels)
		return s
	}
	taken := func() *story {
		s := of("blue", newStory())
		s.h.Installation = "green"
		return of("blue", s.pods(0, "p1").endpoints(0, "p1"))
	}
	breaks(t, taken().until(30), nil)
	breaks(t, taken().replica(10).until(30), nil)
	breaks(t, of("green", taken().slice(10, "a", "web-a", "p1")).until(30), []Law{Owned})
	breaks(t, taken().write(10, "ingress", "delete", "endpoints", "web").until(30), []Law{Owned})

	own := func() *story {
		s := of("green", newStory())
		s.h.Installation = "green"
		return of("green", of("green", s.pods(0, "p1").endpoints(0, "p1")).slice(0, "a", "web-a", "p1"))
	}
	breaks(t, own().until(30), nil)
	breaks(t, of("blue", own().slice(10, "a", "web-a", "p1")).until(30), []Law{Converged, NoWipe})
}

func TestWorstStaleness(t *testing.T) {
	s := newStory().pods(0, "p1", "q1").shows(0, "p1", "q1").
		span(Blind, "a", 5, 20).pods(10, "p2").pods(30, "q2").shows(33.5, "p1", "p2", "q1", "q2").pods(50, "!p1").shows(50.25, "!p1", "p2", "q1", "q2")
	report := Check(s.until(80).h.clone(), Settings{})
	if report.Worst["a"] != seconds(0.25) || report.Worst["b"] != seconds(3.5) {
		t.Errorf("worst staleness %v, want 0.25 s of a (not what it could not see) and 3.5 s of b", report.Worst)
	}
	if text := report.String(); !strings.Contains(text, "worst staleness of b 3.500 s") {
		t.Errorf("report: %s", text)
	}
}

func (h History) clone() *History { return &h }

func TestTrace(t *testing.T) {
	s := newStory().pods(0, "p1").shows(0, "p1").gone(10, "p1").shows(11).hand(1).span(Blind, "a", 5, 6)
	var b strings.Builder
	n, err := s.h.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	for _, line := range []string{
		"span blind a 5.000…6.000 s",
		"   10.0000 s a Pod shop/p1 is deleted, revision 8",
		"             - Endpoints shop/web: a 10.0.0.1:8080/http/TCP ready (pod p1)",
		"   11.0000 s ingress EndpointSlice shop/web-b is, revision 11, by hand",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
}
