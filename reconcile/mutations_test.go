// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
)

// onMeta, and those below, make a webhook that edits a part of what is written.
func onMeta(edit func(*metav1.ObjectMeta)) func(apitest.Object) {
	return func(o apitest.Object) {
		switch o := o.(type) {
		case *corev1.Service:
			edit(&o.ObjectMeta)
		case *corev1.Endpoints:
			edit(&o.ObjectMeta)
		case *discoveryv1.EndpointSlice:
			edit(&o.ObjectMeta)
		}
	}
}

func onSpec(edit func(*corev1.ServiceSpec)) func(apitest.Object) {
	return func(o apitest.Object) {
		if s, ok := o.(*corev1.Service); ok {
			edit(&s.Spec)
		}
	}
}

func onEndpoints(edit func(*corev1.Endpoints)) func(apitest.Object) {
	return func(o apitest.Object) {
		if e, ok := o.(*corev1.Endpoints); ok {
			edit(e)
		}
	}
}

func onSlices(edit func(*discoveryv1.EndpointSlice)) func(apitest.Object) {
	return func(o apitest.Object) {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok {
			edit(s)
		}
	}
}

func onEach(edit func(*discoveryv1.Endpoint)) func(apitest.Object) {
	return onSlices(func(s *discoveryv1.EndpointSlice) {
		for i := range s.Endpoints {
			edit(&s.Endpoints[i])
		}
	})
}

// mutated is a ground whose server edits what is written in namespace shop, as long as
// *edit is set.
func mutated(t *testing.T, edit *func(apitest.Object)) *ground {
	g := newGroundOn(t, apitest.NewInMemory(t), "a", "b")
	g.options.Queue.Backoff = lanes.Backoff{}
	g.server.Refuse(func(o apitest.Object) (field.ErrorList, error) {
		if o.GetNamespace() == web.Namespace && *edit != nil {
			(*edit)(o)
		}
		return nil, nil
	})
	g.start()
	g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
	g.set("b", service(web, 2, 8080), podsOf([]string{"10.1.0.1"})...)
	time.Sleep(time.Minute)
	return g
}

func (g *ground) mutations() (told []metrics.Conflict) {
	return slices.DeleteFunc(g.seen.trouble(web).Conflicts, func(c metrics.Conflict) bool { return c.Reason != string(plan.ConflictMutated) })
}

// looks has the replica looked at by a running process, by one that lists anew and by one
// that has just started, and expects that nothing is written.
func (g *ground) looks(when string, ips ...string) {
	g.t.Helper()
	for _, look := range []struct {
		name string
		do   func()
	}{
		{"a look", func() {}},
		{"an idle while", func() { time.Sleep(5 * time.Minute) }},
		{"a resync", func() { g.rec.Resync("", "resync") }},
		{"a start", func() { g.stop(); g.start() }},
	} {
		look.do()
		g.set("a", service(web, 1, 8080), podsOf(ips)...)
		time.Sleep(20 * time.Second)
		if w := g.writes(); len(w) > 0 {
			g.t.Errorf("%s: %s wrote %v", when, look.name, w)
		}
	}
}

// A webhook that edits what it is sent makes nothing equal to what is wished. Nothing is
// written for that again.
func TestWhatAWebhookEditsIsNotWrittenAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(apitest.Object)
		told string
	}{
		{"adds a label", onMeta(func(m *metav1.ObjectMeta) { metav1.SetMetaDataLabel(m, "policy.example.com/touched", "yes") }), ""},
		{"adds a label of a tracker", onMeta(func(m *metav1.ObjectMeta) { metav1.SetMetaDataLabel(m, "argocd.argoproj.io/instance", "x") }), ""},
		{"adds a label that differs each time", onMeta(func(m *metav1.ObjectMeta) {
			metav1.SetMetaDataLabel(m, "policy.example.com/at", fmt.Sprint(time.Now().UnixNano()))
		}), ""},
		{"adds an annotation", onMeta(func(m *metav1.ObjectMeta) {
			metav1.SetMetaDataAnnotation(m, "policy.example.com/at", fmt.Sprint(time.Now().UnixNano()))
		}), ""},
		{"takes a label off", onEndpoints(func(e *corev1.Endpoints) { delete(e.Labels, plan.LabelSkipMirror) }), "Endpoints metadata.labels[" + plan.LabelSkipMirror + "]"},
		{"overwrites a label", onSlices(func(s *discoveryv1.EndpointSlice) { s.Labels[plan.LabelHeadless] = "no" }), "EndpointSlice metadata.labels[" + plan.LabelHeadless + "]"},
		{"takes the record off", onMeta(func(m *metav1.ObjectMeta) { delete(m.Annotations, plan.AnnotationSources) }), "Service metadata.annotations[" + plan.AnnotationSources + "]"},
		{"takes the process off", onMeta(func(m *metav1.ObjectMeta) { delete(m.Annotations, plan.AnnotationProcess) }), ""},
		{"takes the owner off", onSlices(func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil }), "EndpointSlice metadata.ownerReferences"},
		{"session affinity", onSpec(func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP }), "Service spec.sessionAffinity"},
		{"traffic distribution", onSpec(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferClose") }), "Service spec.trafficDistribution"},
		{"protocol of the Service's ports", onSpec(func(s *corev1.ServiceSpec) { s.Ports[0].AppProtocol = new("http") }), "Service spec.ports"},
		{"protocol of the slices' ports", onSlices(func(s *discoveryv1.EndpointSlice) { s.Ports[0].AppProtocol = new("http") }), "EndpointSlice ports"},
		{"protocol of the Endpoints' ports", onEndpoints(func(e *corev1.Endpoints) {
			for i := range e.Subsets {
				e.Subsets[i].Ports[0].AppProtocol = new("http")
			}
		}), "Endpoints subsets.ports"},
		{"no target in Endpoints", onEndpoints(func(e *corev1.Endpoints) {
			for i := range e.Subsets {
				for j := range e.Subsets[i].Addresses {
					e.Subsets[i].Addresses[j].TargetRef = nil
				}
			}
		}), "Endpoints subsets.addresses.targetRef"},
		{"zones", onEach(func(e *discoveryv1.Endpoint) { e.Zone = new("z") }), "EndpointSlice endpoints.zone"},
		{"hints", onEach(func(e *discoveryv1.Endpoint) {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}}
		}), "EndpointSlice endpoints.hints"},
		{"no targets", onEach(func(e *discoveryv1.Endpoint) { e.TargetRef = nil }), "EndpointSlice endpoints.targetRef"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				edit := test.edit
				g := mutated(t, &edit)
				g.expect(web, "10.0.0.1", "10.0.0.2", "10.1.0.1")
				told := g.mutations()
				if test.told == "" && len(told) > 0 || test.told != "" && (len(told) != 1 || !strings.Contains(told[0].Message, "("+test.told+")")) {
					t.Errorf("told is %+v", told)
				}
				g.writes()
				g.looks("after the first fill", "10.0.0.1", "10.0.0.2")
				slice := g.sliceName("a")
				g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.2"})...)
				time.Sleep(10 * time.Second)
				g.expect(web, "10.0.0.2", "10.1.0.1")
				if w := g.writes(); len(w) != 2 || g.sliceName("a") != slice {
					t.Errorf("a pod that goes costs %v", w)
				}
				g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.2", "10.0.0.3"})...)
				time.Sleep(10 * time.Second)
				g.expect(web, "10.0.0.2", "10.0.0.3", "10.1.0.1")
				if w := g.writes(); len(w) != 2 || g.sliceName("a") != slice {
					t.Errorf("a pod that comes costs %v", w)
				}
				g.looks("after changes", "10.0.0.2", "10.0.0.3")
				// Once it is gone the next write puts all right.
				edit = nil
				g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.2"})...)
				g.set("b", service(web, 2, 8080), podsOf([]string{"10.1.0.1", "10.1.0.2"})...)
				time.Sleep(10 * time.Second)
				g.expect(web, "10.0.0.2", "10.1.0.1", "10.1.0.2")
				for kind, fields := range g.recordedMutations() {
					if kind != "services" && fields != "" {
						t.Errorf("%s still record %s", kind, fields)
					}
				}
				g.writes()
				g.looks("after the webhook", "10.0.0.2")
			})
		})
	}
}

func (g *ground) recordedMutations() map[string]string {
	out := map[string]string{}
	for _, o := range apitest.List[*corev1.Service](g.server, web.Namespace) {
		out["services"] += o.Annotations[plan.AnnotationMutated]
	}
	for _, o := range apitest.List[*corev1.Endpoints](g.server, web.Namespace) {
		out["endpoints"] += o.Annotations[plan.AnnotationMutated]
	}
	for _, o := range apitest.List[*discoveryv1.EndpointSlice](g.server, web.Namespace) {
		out["slices"] += o.Annotations[plan.AnnotationMutated]
	}
	return out
}

// A member that is away at a start is no reason to write either, nor is its return.
func TestStartWithoutAMemberWritesNothingBesideAWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edit := func(o apitest.Object) {
			onMeta(func(m *metav1.ObjectMeta) { metav1.SetMetaDataLabel(m, "policy.example.com/touched", "yes") })(o)
			onEach(func(e *discoveryv1.Endpoint) { e.Zone = new("z") })(o)
			onSlices(func(s *discoveryv1.EndpointSlice) { s.Ports[0].AppProtocol = new("http") })(o)
		}
		g := mutated(t, &edit)
		g.writes()
		g.stop()
		g.source.unset("a", web)
		g.source.setSynced("a", false)
		g.start()
		g.rec.Seen("b")
		time.Sleep(time.Minute)
		g.expectWrites()
		g.set("b", service(web, 2, 8080), podsOf([]string{"10.1.0.2"})...)
		time.Sleep(time.Minute)
		g.expect(web, "10.0.0.1", "10.0.0.2", "10.1.0.2")
		if w := g.writes(); len(w) != 2 {
			t.Errorf("a pod beside costs %v", w)
		}
		g.source.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2"})...)
		g.source.setSynced("a", true)
		g.rec.Seen("a")
		g.looks("on its return", "10.0.0.1", "10.0.0.2")
	})
}

// What others edit is put back beside a webhook, too: be it that they forge the record. Taking
// the record away is asking for another try.
func TestHandEditsBesideAWebhookArePutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edit := onSpec(func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP })
		g := mutated(t, &edit)
		g.writes()
		record := g.recordedMutations()["services"]
		if record != "+spec.sessionAffinity" {
			t.Fatalf("recorded is %q", record)
		}
		apitest.Edit(t, g.server, web.Namespace, web.Name, func(s *corev1.Service) {
			s.Spec.ExternalIPs = []string{"203.0.113.7"}
			s.Labels["by-hand"] = "yes"
			s.Annotations[plan.AnnotationMutated] += ",+spec.externalIPs,+metadata.labels[by-hand]"
		})
		time.Sleep(time.Minute)
		if s, _ := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name); len(s.Spec.ExternalIPs) > 0 || s.Labels["by-hand"] != "" || s.Annotations[plan.AnnotationMutated] != record {
			t.Errorf("stands %v, labels %v, record %q", s.Spec.ExternalIPs, s.Labels, s.Annotations[plan.AnnotationMutated])
		}
		g.expectWrites("update services shop/web 200")
		edit = nil
		apitest.Edit(t, g.server, web.Namespace, web.Name, func(s *corev1.Service) { delete(s.Annotations, plan.AnnotationMutated) })
		time.Sleep(time.Minute)
		if s, _ := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name); s.Spec.SessionAffinity != corev1.ServiceAffinityNone || len(g.mutations()) > 0 {
			t.Errorf("session affinity %s, told %v", s.Spec.SessionAffinity, g.mutations())
		}
		g.writes()
		g.looks("after another try", "10.0.0.1", "10.0.0.2")
	})
}

// A webhook that edits what is made, and not what is updated, ends by itself.
func TestWebhookOnCreationsAloneLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edit := onMeta(func(m *metav1.ObjectMeta) {
			if m.ResourceVersion == "" {
				metav1.SetMetaDataLabel(m, "policy.example.com/touched", "yes")
			}
		})
		g := mutated(t, &edit)
		for kind, fields := range g.recordedMutations() {
			if fields != "" {
				t.Errorf("%s record %s", kind, fields)
			}
		}
		g.writes()
		g.looks("after the first fill", "10.0.0.1", "10.0.0.2")
	})
}

// So is one that edits what slices say of them, or gives a Service a selector.
func TestEditedStatesAreTriedAtAPace(t *testing.T) {
	for name, edit := range map[string]func(apitest.Object){
		"serving":  onEach(func(e *discoveryv1.Endpoint) { e.Conditions.Serving = new(false) }),
		"selector": onSpec(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "web"} }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := mutated(t, &edit)
				g.writes()
				time.Sleep(20 * time.Minute)
				if n, told := len(g.writes()), g.mutations(); n > 12 || len(told) != 1 {
					t.Errorf("%d writes, told is %v", n, told)
				}
			})
		})
	}
}

// A webhook that edits the addresses themselves is told, and tried at the pace of refusals.
func TestEditedAddressesAreToldAndTriedAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		edit := onEndpoints(func(e *corev1.Endpoints) {
			for i := range e.Subsets {
				e.Subsets[i].Addresses = slices.DeleteFunc(e.Subsets[i].Addresses, func(a corev1.EndpointAddress) bool { return a.IP == "10.0.0.2" })
			}
		})
		g := mutated(t, &edit)
		if told := g.mutations(); len(told) != 1 {
			t.Errorf("told is %v", told)
		}
		g.writes()
		time.Sleep(20 * time.Minute)
		if n := len(g.writes()); n == 0 || n > 10 {
			t.Errorf("%d writes in twenty minutes", n)
		}
		g.set("b", service(web, 2, 8080), podsOf([]string{"10.1.0.2"})...)
		time.Sleep(time.Minute)
		if endpoints, sliced := g.addresses(web); slices.Contains(endpoints, "10.1.0.1") || !slices.Contains(endpoints, "10.1.0.2") || len(sliced) != 3 {
			t.Errorf("Endpoints %v, slices %v", endpoints, sliced)
		}
		edit = nil
		time.Sleep(6 * time.Minute)
		g.expect(web, "10.0.0.1", "10.0.0.2", "10.1.0.2")
		if told := g.mutations(); len(told) > 0 {
			t.Errorf("still told is %v", told)
		}
		g.writes()
		g.looks("afterwards", "10.0.0.1", "10.0.0.2")
	})
}
