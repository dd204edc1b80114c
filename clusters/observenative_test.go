// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what the members' controllers write

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/syncer"
)

// observed is a guarded world whose member has controllers of its own that are
// observed.
type observed struct {
	*world
	*fakeAPI
	mu    sync.Mutex
	lags  []time.Duration
	ended int
}

func inObserved(t *testing.T, tweak func(*config.Cluster), script func(o *observed)) {
	t.Helper()
	o := &observed{}
	inWorld(t, func(opts *Options) {
		opts.NativeLag = func(_ string, late time.Duration) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.lags = append(o.lags, late)
		}
		opts.NativeEnd = func(string) { o.ended++ }
	}, func(w *world) {
		w.tweak = func(c *config.Cluster) {
			c.ObserveNative = true
			if tweak != nil {
				tweak(c)
			}
		}
		o.world, o.fakeAPI = w, w.api("uid-a")
		fill(o.fakeAPI)
		o.control()
		w.reach("a", o.config(""), "1")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		script(o)
	})
}

// control does what the member's own controllers do, at once: it writes the
// Endpoints of every Service that has a selector.
func (o *observed) control() {
	for _, svc := range o.all("services") {
		svc := svc.(*corev1.Service)
		if svc.Spec.Selector == nil {
			continue
		}
		subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}}
		for _, pod := range o.all("pods") {
			pod := pod.(*corev1.Pod)
			address := corev1.EndpointAddress{IP: pod.Status.PodIP, NodeName: &pod.Spec.NodeName}
			switch {
			case pod.Namespace != svc.Namespace || pod.Labels["app"] != svc.Spec.Selector["app"] || pod.DeletionTimestamp != nil:
			case pod.Status.Conditions[0].Status == corev1.ConditionTrue || svc.Spec.PublishNotReadyAddresses:
				subset.Addresses = append(subset.Addresses, address)
			default:
				subset.NotReadyAddresses = append(subset.NotReadyAddresses, address)
			}
		}
		o.write(svc.Namespace, svc.Name, subset)
	}
}

// write makes the Endpoints of a Service be so.
func (o *observed) write(namespace, name string, subset corev1.EndpointSubset) {
	written := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if len(subset.Addresses)+len(subset.NotReadyAddresses) > 0 {
		written.Subsets = []corev1.EndpointSubset{subset}
	}
	o.fakeAPI.mu.Lock()
	stands, _ := o.find("endpoints", namespace, name).(*corev1.Endpoints)
	o.fakeAPI.mu.Unlock()
	if stands == nil || !reflect.DeepEqual(stands.Subsets, written.Subsets) {
		o.put(written)
	}
}

func (o *observed) all(resource string) []any {
	o.fakeAPI.mu.Lock()
	defer o.fakeAPI.mu.Unlock()
	var all []any
	for _, obj := range o.state(resource) {
		all = append(all, obj)
	}
	return all
}

// level checks, for a time, that nothing is said against the controllers, and how
// long after us they were said to be.
func (o *observed) level(d time.Duration) {
	o.world.t.Helper()
	for range d / time.Second {
		o.pass(time.Second)
		if n := o.status("a").Native; n == nil || n.BehindSeconds > 0 || len(n.Differing) > 0 {
			o.world.t.Fatalf("healthy controllers, yet %+v", n)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.ContainsFunc(o.lags, func(late time.Duration) bool { return late > time.Second }) {
		o.world.t.Errorf("healthy controllers, yet lags of %v were measured", o.lags)
	}
}

// wantDiffering checks which Services a status names.
func (o *observed) wantDiffering(want ...string) {
	o.world.t.Helper()
	var got []string
	for _, d := range o.status("a").Native.Differing {
		got = append(got, d.Namespace+"/"+d.Service)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		o.world.t.Errorf("differing are %q, want %q", got, want)
	}
}

func (o *observed) wantObserved(want bool, remark string) {
	o.world.t.Helper()
	s := o.status("a")
	if n := s.Native; (n != nil) != want {
		o.world.t.Errorf("want observed %t, got %+v", want, n)
	}
	if got := strings.Join(s.Remarks, "; "); !strings.HasPrefix(got, remark) || remark == "" && got != "" {
		o.world.t.Errorf("remarks %q, want %q", got, remark)
	}
}

// cut makes the API refuse a resource with a status, open watches included; the
// returned function ends it.
func (o *observed) cut(resource string, code int) (mend func()) {
	o.with(func() { o.deny[resource] = code; o.closing++ })
	return func() { o.with(func() { delete(o.deny, resource) }) }
}

func TestHealthyControllersAreNotAccused(t *testing.T) {
	allNotReady := func(o *observed) {
		for n := 1; n <= 33; n++ {
			o.put(silent(newPod("shop", appOf(n), n)))
		}
		o.control()
	}
	for _, test := range []struct {
		name   string
		tweak  func(*config.Cluster)
		script func(o *observed)
		// differing are the Services named once the controllers write nothing but nonsense.
		differing []string
	}{
		{"changes", nil, func(o *observed) {
			o.put(notReady(newPod("shop", "web", 1)), newPod("shop", "api", 99))
			o.remove("pods", "shop", "web-2")
			o.control()
			o.level(time.Minute)
		}, []string{"shop/api", "shop/db", "shop/web"}},
		{"allowedCIDRs leave addresses out", func(c *config.Cluster) { c.AllowedCIDRs = []string{"10.1.0.0/28"} }, func(o *observed) {
			o.wantAddresses("shop", "db")
			o.put(notReady(newPod("shop", "db", 33)))
			o.control()
			o.level(time.Minute)
		}, []string{"shop/api", "shop/db", "shop/web"}},
		{"a panic keeps pods ready", nil, func(o *observed) {
			allNotReady(o)
			o.level(time.Minute)
			o.wantState("a", Live, evidence.ReasonMassNotReady)
			o.set.Relist("a")
			o.level(time.Minute)
		}, []string{"shop/api", "shop/db", "shop/web"}},
		{"pods of silent nodes are kept ready", func(c *config.Cluster) { c.HoldSilentNodes = "2m" }, func(o *observed) {
			o.put(silent(newPod("shop", "web", 1)))
			o.control()
			o.level(90 * time.Second)
			o.wantHolds("a node_silent")
			o.level(time.Minute)
			o.wantHolds()
		}, []string{"shop/api", "shop/db", "shop/web"}},
		{"a list shows that a node fell silent", func(c *config.Cluster) { c.HoldSilentNodes = "2m" }, func(o *observed) {
			mend := o.cut("pods", http.StatusInternalServerError)
			o.pass(time.Second)
			o.put(silent(newPod("shop", "web", 1)))
			o.control()
			o.with(func() { o.oldest = o.rv })
			mend()
			o.level(time.Minute)
			o.wantHolds("a node_silent")
		}, []string{"shop/api", "shop/db", "shop/web"}},
		{"a list lacks pods, which are kept", nil, func(o *observed) {
			o.refuse("pods")
			o.hide("pods", func(name string) bool { return numberOf(name) != 33 })
			o.set.Relist("a")
			o.control()
			o.level(time.Minute)
			o.wantHolds("shop/api list_shrank", "shop/web list_shrank")
		}, []string{"shop/db"}},
		{"pods that a list lacked are seen again", nil, func(o *observed) {
			o.refuse("pods")
			o.hide("pods", func(name string) bool { return numberOf(name) != 33 })
			o.set.Relist("a")
			o.level(time.Second)
			o.wantHolds("shop/api list_shrank", "shop/web list_shrank")
			for n := 1; n <= 32; n++ {
				o.put(newPod("shop", appOf(n), n))
			}
			o.level(time.Minute)
			o.wantHolds()
		}, []string{"shop/api", "shop/db", "shop/web"}},
		{"a list lacks a Service, which is kept", nil, func(o *observed) {
			o.refuse("services")
			o.with(func() { o.drop("services", func(name string) bool { return name == "web" }) })
			o.set.Relist("a")
			o.remove("endpoints", "shop", "web")
			o.level(2 * time.Second)
			o.wantHolds("shop/web list_shrank")
			o.level(time.Minute)
		}, []string{"shop/api", "shop/db"}},
		{"Endpoints are written by hand", nil, func(o *observed) {
			svc := newService("shop", "web")
			svc.Spec.Selector = nil
			o.put(svc)
			o.write("shop", "web", corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}})
			o.level(time.Minute)
		}, []string{"shop/api", "shop/db"}},
		{"an annotation is honoured that new controllers ignore", func(c *config.Cluster) { c.TolerateUnreadyAnnotation = true }, func(o *observed) {
			svc := newService("shop", "web")
			svc.Annotations = map[string]string{syncer.TolerateUnreadyAnnotation: "true"}
			o.put(svc, notReady(newPod("shop", "web", 1)))
			o.control()
			o.level(time.Minute)
		}, []string{"shop/api", "shop/db"}},
		{"the API server refuses what upstream makes of an address", nil, func(o *observed) {
			o.put(newPod("shop", "web", 1), withIP(newPod("shop", "web", 2), "169.254.0.1"), notReady(newPod("shop", "web", 3)))
			o.level(time.Minute) // the Endpoints of web stay as they are
		}, []string{"shop/api", "shop/db"}},
		{"a pod failed that never was ready", nil, func(o *observed) {
			o.put(notReady(newPod("shop", "web", 34)))
			o.control()
			o.level(time.Second)
			failed := notReady(newPod("shop", "web", 34))
			failed.Status.Phase = corev1.PodFailed
			o.put(failed)
			o.level(time.Minute) // it wakes nobody
		}, []string{"shop/api", "shop/db", "shop/web"}},
		{"a namespace is replicated that was not", func(c *config.Cluster) { c.Namespaces.Include = []string{"shop"} }, func(o *observed) {
			o.put(newService("depot", "web"), newPod("depot", "web", 50))
			o.control()
			o.put(newPod("shop", "web", 40)) // a later revision, from which no watch shows the depot
			o.control()
			o.level(time.Minute)
			o.tweak = func(c *config.Cluster) { c.ObserveNative = true }
			o.apply()
			o.pass(5 * time.Second)
			o.level(time.Minute)
		}, []string{"depot/web", "shop/api", "shop/db", "shop/web"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inObserved(t, test.tweak, func(o *observed) {
				o.level(time.Second)
				test.script(o)
				for _, svc := range o.all("services") {
					svc := svc.(*corev1.Service)
					o.write(svc.Namespace, svc.Name, corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.9"}}})
				}
				o.pass(time.Minute)
				o.wantDiffering(test.differing...)
			})
		})
	}
}

func withIP(p *corev1.Pod, ip string) *corev1.Pod {
	p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	return p
}

func TestControllersThatRunBehindAreTimed(t *testing.T) {
	inObserved(t, nil, func(o *observed) {
		o.put(notReady(newPod("shop", "web", 1)))
		o.pass(40 * time.Second)
		if n := o.status("a").Native; n.BehindSeconds != 40 {
			t.Errorf("want 40s behind, got %+v", n)
		}
		o.wantDiffering("shop/web")
		o.control()
		o.pass(0)
		if !slices.Equal(o.lags, []time.Duration{40 * time.Second}) {
			t.Errorf("lags %v", o.lags)
		}
		o.lags = nil
		o.level(time.Minute)
	})
}

func TestNothingIsSaidOfControllersThatCannotBeSeen(t *testing.T) {
	forbidden, failing := http.StatusForbidden, http.StatusInternalServerError
	for name, test := range map[string]struct {
		cut    func(o *observed) (mend func())
		remark string
	}{
		"Endpoints may not be read":  {func(o *observed) func() { return o.cut("endpoints", forbidden) }, "observeNative may not list"},
		"Endpoints cannot be read":   {func(o *observed) func() { return o.cut("endpoints", failing) }, ""},
		"pods cannot be read":        {func(o *observed) func() { return o.cut("pods", failing) }, ""},
		"Services may not be read":   {func(o *observed) func() { return o.cut("services", forbidden) }, ""},
		"the member does not answer": {func(o *observed) func() { o.listener.Freeze(); return o.listener.Thaw }, ""},
		"another cluster answers":    {func(o *observed) func() { o.become("other"); return func() { o.become("uid-a") } }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inObserved(t, nil, func(o *observed) {
				o.level(time.Second)
				o.put(notReady(newPod("shop", "web", 1))) // answered out of sight
				o.pass(0)
				mend := test.cut(o)
				o.pass(20 * time.Second)
				o.wantObserved(false, test.remark)
				o.put(notReady(newPod("shop", "web", 2)))
				o.control()
				o.pass(10 * time.Minute)
				o.wantObserved(false, test.remark)
				mend()
				o.pass(15 * time.Second)
				o.wantObserved(true, "")
				o.level(time.Minute)
			})
		})
	}
}

// become makes another cluster answer.
func (o *observed) become(uid string) { o.with(func() { o.uid = uid; o.closing++ }) }

func TestMemberThatWentBackInTimeIsObservedAnew(t *testing.T) {
	inObserved(t, nil, func(o *observed) {
		o.with(func() { o.rewind(50) })
		o.put(notReady(newPod("shop", "web", 1)))
		o.control()
		o.pass(time.Minute)
		o.level(time.Minute)
	})
}

func TestObservationBeginsWithTheFirstListAndLeavesNothing(t *testing.T) {
	inWorld(t, nil, func(w *world) { // without inObserved: its member may be read
		o := &observed{world: w, fakeAPI: w.api("uid-a")}
		ended := 0
		w.set.opts.NativeEnd = func(string) { ended++ }
		w.tweak = func(c *config.Cluster) { c.ObserveNative = true }
		fill(o.fakeAPI)
		o.control()
		mend := o.cut("endpoints", http.StatusForbidden)
		w.reach("a", o.config(""), "1")
		w.pass(time.Minute)
		o.wantState("a", Live, ReasonNone)
		o.wantObserved(false, "observeNative may not list")
		mend()
		w.pass(10 * time.Second)
		o.wantObserved(true, "")
		o.level(time.Minute)
		o.cut("endpoints", http.StatusForbidden)
		w.pass(time.Minute)
		o.wantObserved(false, "observeNative may not list")

		w.tweak = nil
		w.apply()
		w.pass(time.Second)
		o.wantObserved(false, "")
		if ended != 1 {
			t.Errorf("the end was told %d times", ended)
		}
	})
}
