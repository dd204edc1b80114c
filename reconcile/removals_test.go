// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// quota denies every slice of a cluster that is not there yet.
func quota(cluster string) refuser {
	return func(obj apitest.Object) (field.ErrorList, error) {
		if es, ok := obj.(*discoveryv1.EndpointSlice); ok && es.UID == "" && es.Labels[plan.LabelSourceCluster] == cluster {
			return nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), es.Name, fmt.Errorf("exceeded quota: slices, used: 1, limited: 1"))
		}
		return nil, nil
	}
}

// What keeps one write from being done keeps no dead address anywhere.
func TestDeadAddressesGoWhateverIsRefused(t *testing.T) {
	services := func(r apitest.Request) bool { return r.Resource == "services" }
	tests := []struct {
		name string
		// refuse and fault stand from before the change.
		refuse refuser
		fault  *apitest.Fault
		match  func(apitest.Request) bool
		// told is in a conflict of the replica.
		told string
	}{
		{"a quota on slices of another member", quota("b"), nil, nil, "exceeded quota: slices"},
		{"a webhook on Services that is down", nil, &apitest.Fault{Status: http.StatusInternalServerError}, services, ""},
		{"a policy on Services", func(obj apitest.Object) (field.ErrorList, error) {
			if _, ok := obj.(*corev1.Service); ok {
				return nil, apierrors.NewForbidden(corev1.Resource("services"), obj.GetName(), fmt.Errorf("ValidatingAdmissionPolicy 'no' with binding 'no' denied request: not today"))
			}
			return nil, nil
		}, nil, nil, "not today"},
		{"no right to write Services", nil, &apitest.Fault{Status: http.StatusForbidden}, services, "cannot update"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := newGround(t, "a", "b")
			g.options.RefusalPause = time.Hour
			g.source.settings.MaxEndpointsPerSlice = 1
			g.start()
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
			g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
			g.settle()
			g.server.Refuse(test.refuse)
			if test.fault != nil {
				g.faultWrites(1<<30, *test.fault, test.match)
			}
			// Ports of the Service change, b wants another slice, and a pod of a is gone.
			svc := service(web, 1, 8080)
			svc.Ports = append(svc.Ports, syncer.ServicePort{Name: "more", Protocol: syncer.TCP, Port: 81, Target: syncer.TargetPort{Name: "none"}})
			g.source.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true), pod(web, "10.1.0.2", true))
			g.set("a", svc, pod(web, "10.0.0.2", true))
			want := []string{"10.0.0.2", "10.1.0.1", "10.1.0.2"}
			g.wait("the address of a is gone, and the rest written", func() bool {
				endpoints, sliced := g.addresses(web)
				return slices.Equal(endpoints, want) && !slices.Contains(sliced, "10.0.0.1") && slices.Contains(sliced, "10.0.0.2")
			})
			g.wait("it is told", func() bool {
				told := func(text string) bool { return strings.Contains(text, test.told) }
				for _, c := range g.seen.trouble(web).Conflicts {
					if test.told != "" && c.Reason == string(plan.ConflictRefused) && told(c.Message) {
						return true
					}
				}
				return test.told == ""
			})
			g.server.Refuse(nil)
			g.server.Intercept(nil)
			g.rec.refusals.Settle(web, nil, write.Pass{}, time.Now())
			g.rec.Dirty(web, lanes.Addition, liveCause("b", web))
			g.wait("all is written", func() bool {
				endpoints, sliced := g.addresses(web)
				svc, _ := apitest.Get[*corev1.Service](g.server, "shop", "web")
				return slices.Equal(endpoints, []string{"10.0.0.2", "10.1.0.1", "10.1.0.2"}) && slices.Equal(endpoints, sliced) && len(svc.Spec.Ports) == 2
			})
		})
	}
}

// A slice of somebody else that has the name of ours, tied to whatever Service, is
// reported; ours gets another name, and nothing waits.
func TestOccupiedSliceNameIsReportedAndLeft(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	name := g.sliceName("a")
	g.unset("a", web)
	g.settle()
	for _, labels := range []map[string]string{nil, {plan.LabelServiceName: "other"}, {plan.LabelServiceName: "web"}} {
		planted := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4}
		g.server.Create(t, planted)
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.settle()
		g.expect(web, "10.0.0.1")
		reported := func() bool {
			return slices.ContainsFunc(g.seen.trouble(web).Conflicts, func(c metrics.Conflict) bool {
				return c.Reason == string(plan.ConflictForeign) && strings.Contains(c.Message, name)
			})
		}
		if !reported() {
			t.Errorf("labels %v: conflicts %+v", labels, g.seen.trouble(web).Conflicts)
		}
		g.writes()
		g.stop()
		g.start()
		g.rec.Resync("", "resync")
		g.settle()
		g.expectWrites()
		if !reported() {
			t.Error("not reported after a restart")
		}
		if es, ok := apitest.Get[*discoveryv1.EndpointSlice](g.server, "shop", name); !ok || len(es.Endpoints) > 0 {
			t.Error("the planted slice was touched")
		}
		apitest.Remove[*discoveryv1.EndpointSlice](t, g.server, "shop", name)
		g.wait("the conflict is over", func() bool { return !reported() })
		g.unset("a", web)
		g.settle()
	}
}

// However many replicas need a namespace at once, it is made once.
func TestNamespaceIsMadeOnce(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	t.Cleanup(end)
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent == product && r.Resource == "namespaces" && r.Verb == "create" {
			<-release
		}
		return nil
	})
	for i := range 4 {
		g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true))
	}
	working := func() (n int) {
		for _, state := range g.rec.Queue().States() {
			n += state.Working
		}
		return n
	}
	for start := time.Now(); working() < 4; runtime.Gosched() {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("%d want to make it", working())
		}
	}
	end()
	g.settle()
	for i := range 4 {
		g.expect(webKey(i), "10.0.0.1")
	}
	asked := slices.DeleteFunc(g.writes(), func(w string) bool { return !strings.HasPrefix(w, "create namespaces") })
	if !slices.Equal(asked, []string{"create namespaces shop 201"}) {
		t.Errorf("the namespace was asked for as %q", asked)
	}
}

// outage is a random choice of objects of which each kind of write is answered in its
// own way.
type outage struct {
	mu      sync.Mutex
	random  *rand.Rand
	answers map[string]*apitest.Fault
}

var answers = []*apitest.Fault{
	nil, nil, nil,
	{Status: http.StatusBadRequest}, {Status: http.StatusForbidden}, {Status: http.StatusUnprocessableEntity},
	{Status: http.StatusRequestEntityTooLarge}, {Status: http.StatusInternalServerError}, {Status: http.StatusUnauthorized},
	{Status: http.StatusMethodNotAllowed}, {Status: http.StatusServiceUnavailable},
	{Status: http.StatusConflict}, {Status: http.StatusTooManyRequests}, {Cut: true}, {Do: true, Cut: true}, {Hang: true},
}

// ills are what may be wrong with a replica beside refused writes. What befalls it is there
// when the change comes, and mended afterwards.
var ills = []struct {
	name          string
	befalls, ends func(g *ground)
}{
	{"nothing", func(*ground) {}, func(*ground) {}},
	{"its namespace ends", func(g *ground) { g.namespacePhase(corev1.NamespaceTerminating) }, func(g *ground) { g.namespacePhase(corev1.NamespaceActive) }},
	{"its Service is gone", func(g *ground) { apitest.Remove[*corev1.Service](g.t, g.server, "shop", "web") }, func(*ground) {}},
	{
		"somebody has taken its Service",
		func(g *ground) {
			apitest.Edit(g.t, g.server, "shop", "web", func(svc *corev1.Service) { delete(svc.Labels, plan.LabelManagedBy) })
		},
		func(g *ground) { apitest.Remove[*corev1.Service](g.t, g.server, "shop", "web") },
	},
	{"slices of others have its next names", (*ground).occupy, func(*ground) {}},
	{
		"the server refuses addresses, and names them",
		func(g *ground) { g.server.Refuse(refuseAddress("10.0.0.1", "10.0.0.2", "10.1.0.3")) }, func(g *ground) { g.server.Refuse(nil) },
	},
	{
		silently,
		func(g *ground) { g.server.Refuse(unnamed(silentlyRefused...)) }, func(g *ground) { g.server.Refuse(nil) },
	},
}

const silently = "the server refuses addresses, and does not say which"

// silentlyRefused are addresses of which most have a member that wants them, and stand.
var silentlyRefused = []string{"10.0.0.1", "10.0.0.4", "10.1.0.3"}

// unnamed is a policy that refuses addresses without saying which.
func unnamed(bad ...string) refuser {
	return func(obj apitest.Object) (field.ErrorList, error) {
		if errs, _ := refuseAddress(bad...)(obj); len(errs) > 0 {
			return nil, apierrors.NewForbidden(corev1.Resource("endpoints"), obj.GetName(), fmt.Errorf("ValidatingAdmissionPolicy 'no' with binding 'no' denied request: something is wrong"))
		}
		return nil, nil
	}
}

// An address that stands is refused from now on, and the server does not say which: a dead
// one of the same object goes, and none that is taken.
func TestDeadAddressGoesThoughAnotherIsRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		refuse refuser
		serves []string
	}{
		{"an address", unnamed("10.0.0.2"), []string{"10.0.0.3", "10.1.0.1"}},
		{"all of one member", unnamed("10.0.0.2", "10.0.0.3"), []string{"10.1.0.1"}},
		{"whatever is in it", func(obj apitest.Object) (field.ErrorList, error) {
			return nil, apierrors.NewForbidden(corev1.Resource("endpoints"), obj.GetName(), fmt.Errorf("ValidatingAdmissionPolicy 'no' with binding 'no' denied request: not now"))
		}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.1.0.1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGround(t, "a", "b")
			g.options.RefusalPause = time.Hour
			g.start()
			g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
			g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})...)
			g.settle()
			g.server.Refuse(test.refuse)
			g.set("a", service(web, 1, 8080), podsOf([]string{"10.0.0.2", "10.0.0.3"})...)
			g.settle()
			if endpoints, _ := g.addresses(web); !slices.Equal(endpoints, test.serves) {
				t.Errorf("Endpoints %v, want %v", endpoints, test.serves)
			}
			if c := g.seen.trouble(web).Conflicts; len(c) == 0 || c[0].Reason != string(plan.ConflictRefused) || !strings.Contains(c[0].Message, "denied request") {
				t.Errorf("conflicts %+v", c)
			}
			g.server.Refuse(nil)
			g.refusalDue()
			g.rec.Dirty(web, lanes.Addition, liveCause("a", web))
			g.settle()
			g.expect(web, "10.0.0.2", "10.0.0.3", "10.1.0.1")
		})
	}
}

func (g *ground) namespacePhase(phase corev1.NamespacePhase) {
	apitest.Edit(g.t, g.server, "", "shop", func(ns *corev1.Namespace) { ns.Status.Phase = phase })
}

// occupy plants slices of somebody else under the names that the replica's next would have.
func (g *ground) occupy() {
	for _, es := range apitest.List[*discoveryv1.EndpointSlice](g.server, "shop") {
		at := strings.LastIndexByte(es.Name, '-')
		for n := range 8 {
			name := fmt.Sprintf("%s-%d", es.Name[:at], n)
			if _, taken := apitest.Get[*discoveryv1.EndpointSlice](g.server, "shop", name); !taken && es.Labels[plan.LabelSliceManagedBy] != "" {
				g.server.Create(g.t, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, AddressType: discoveryv1.AddressTypeIPv4})
			}
		}
	}
}

// answer is what a write of an object is answered with; it stays the same.
func (o *outage) answer(verb, resource, name string) *apitest.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := verb + " " + resource + " " + name
	fault, decided := o.answers[key]
	if !decided {
		fault = answers[o.random.IntN(len(answers))]
		o.answers[key] = fault
	}
	return fault
}

// For random changes and random refusals: after one pass no object shows an address
// that had to go, but those that take no removal; nothing foreign is touched; and when
// it is over, all is as the members demand.
func TestEveryAddressThatMustGoIsGoneAfterOnePass(t *testing.T) {
	for seed := range dice.Seeds(t, 16) {
		rng := dice.From(seed, 3)
		g := newGround(t, "a", "b")
		g.options.RefusalPause, g.options.RequestTimeout = time.Millisecond, 500*time.Millisecond
		g.source.settings.MaxEndpointsPerSlice = 2
		g.start()
		members := map[string][]int{}
		change := func() {
			for i, cluster := range []string{"a", "b"} {
				svc := service(web, int64(i+1), int32(8080+rng.IntN(2)))
				svc.Labels = map[string]string{"team": fmt.Sprint(rng.IntN(2))}
				var pods []*syncer.Pod
				members[cluster] = rng.Perm(8)[:rng.IntN(6)]
				for _, n := range members[cluster] {
					pods = append(pods, pod(web, fmt.Sprintf("10.%d.0.%d", i, n+1), true))
				}
				g.source.set(cluster, svc, pods...)
			}
			g.rec.Dirty(web, lanes.Removal, liveCause("a", web))
		}
		change()
		g.settle()
		foreign := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-theirs",
			Labels: map[string]string{plan.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4}
		g.server.Create(t, foreign)
		g.settle()
		o := &outage{random: dice.From(seed, 4), answers: map[string]*apitest.Fault{}}
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if r.UserAgent != product || r.Verb != "create" && r.Verb != "update" && r.Verb != "delete" {
				return nil
			}
			return o.answer(r.Verb, r.Resource, r.Name)
		})
		ill := ills[rng.IntN(len(ills))]
		ill.befalls(g)
		before := len(g.seen.all())
		stood, sliced := g.addresses(web)
		change()
		g.wait("one pass has ended with "+ill.name, func() bool {
			return slices.ContainsFunc(g.seen.all()[before:], func(r record.Change) bool {
				return r.Cause.Kind == "Pod" || slices.ContainsFunc(r.Causes, func(c record.Cause) bool { return c.Kind == "Pod" })
			})
		})
		alive := map[string]bool{}
		for i, cluster := range []string{"a", "b"} {
			for _, n := range members[cluster] {
				alive[fmt.Sprintf("10.%d.0.%d", i, n+1)] = true
			}
		}
		dead := func(addresses []string) (out []string) {
			return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return alive[a] })
		}
		// The last that lives does not go for being refused; and who is asked for a pause
		// searches after it.
		search := func(stood []string) bool {
			return ill.name != silently || !o.throttled() && slices.ContainsFunc(stood, func(a string) bool { return alive[a] && !slices.Contains(silentlyRefused, a) })
		}
		if ep, ok := apitest.Get[*corev1.Endpoints](g.server, "shop", "web"); ok && o.answer("update", "endpoints", "web") == nil && search(stood) {
			for _, s := range ep.Subsets {
				for _, a := range s.Addresses {
					if !alive[a.IP] {
						t.Errorf("%s: Endpoints still have %s; %s", ill.name, a.IP, o)
					}
				}
			}
		}
		for _, es := range apitest.List[*discoveryv1.EndpointSlice](g.server, "shop") {
			for _, e := range es.Endpoints {
				if d := dead(e.Addresses); len(d) > 0 && o.answer("update", "endpointslices", es.Name) == nil && search(sliced) {
					t.Errorf("%s: slice %s still has %v; %s", ill.name, es.Name, d, o)
				}
			}
		}
		g.server.Intercept(nil)
		ill.ends(g)
		g.rec.Resync("", "resync")
		want := make([]string, 0, len(alive))
		for addr := range alive {
			want = append(want, addr)
		}
		slices.Sort(want)
		g.wait("all is as the members demand after "+ill.name, func() bool {
			endpoints, sliced := g.addresses(web)
			return slices.Equal(endpoints, want) && slices.Equal(sliced, want) && len(g.rec.Queue().OldestArrivals()) == 0
		})
		if es, ok := apitest.Get[*discoveryv1.EndpointSlice](g.server, "shop", "web-theirs"); !ok || es.Generation != foreign.Generation || es.Labels[plan.LabelManagedBy] != "" {
			t.Error("a foreign slice was touched")
		}
		g.stop()
	}
}

// throttled reports whether a pause was asked for.
func (o *outage) throttled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, fault := range o.answers {
		if fault != nil && fault.Status == http.StatusTooManyRequests {
			return true
		}
	}
	return false
}

// String names the answers that were given.
func (o *outage) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for key, fault := range o.answers {
		if fault != nil {
			fmt.Fprintf(&b, "%s %+v; ", key, *fault)
		}
	}
	return b.String()
}

// A member has a new name, and neither its slices nor the Service's record can be written:
// what it says is not ready or gone leaves what stands under the former name.
func TestRenamedMemberSpeaksForItsFormerName(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroundOn(t, apitest.NewInMemory(t), "a", "b")
			g.start()
			all := podsOf([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"})
			g.set("a", service(web, 1, 8080), all...)
			g.settle()
			g.faultWrites(1<<30, apitest.Fault{Status: status}, func(r apitest.Request) bool { return r.Verb == "create" || r.Resource == "services" })
			g.source.mu.Lock()
			g.source.states = []MemberState{{Name: "new", Synced: true, Live: true}}
			g.source.given[web] = map[string]plan.Contribution{}
			g.source.mu.Unlock()
			g.source.set("new", service(web, 1, 8080), all...)
			g.rec.Resync("", "config")
			time.Sleep(10 * time.Second)
			if endpoints, sliced := g.addresses(web); len(endpoints) != 3 || len(sliced) != 3 {
				t.Errorf("%d: after the edit Endpoints %v, slices %v", status, endpoints, sliced)
			}
			g.source.set("new", service(web, 1, 8080), pod(web, "10.0.0.1", false), pod(web, "10.0.0.3", true))
			g.rec.Dirty(web, lanes.Removal, liveCause("new", web))
			time.Sleep(time.Minute)
			if endpoints, sliced := g.addresses(web); !slices.Equal(endpoints, []string{"10.0.0.3"}) || !slices.Equal(sliced, endpoints) {
				t.Errorf("%d: Endpoints %v, slices %v", status, endpoints, sliced)
			}
			g.server.Intercept(nil)
		})
	}
}
