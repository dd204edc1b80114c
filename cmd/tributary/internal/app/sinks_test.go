// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
)

// balancer is a receiver that keeps what it is told.
type balancer struct {
	*httptest.Server
	mu sync.Mutex
	// told are the subjects of all events, tokens those of the requests.
	told, tokens []string
}

func newBalancer(t *testing.T) *balancer {
	b := &balancer{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var batch []struct{ Subject string }
		if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
			t.Errorf("told what is no batch: %v", err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.tokens = append(b.tokens, r.Header.Get("Authorization"))
		for _, event := range batch {
			b.told = append(b.told, event.Subject)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// expect waits until exactly these have been told since the last call, and returns the token
// of the last request.
func (b *balancer) expect(t *testing.T, want ...string) (token string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	until(t, fmt.Sprintf("%q is told", want), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		got = slices.Sorted(slices.Values(b.told))
		if len(got) < len(want) {
			return false
		}
		if len(b.tokens) > 0 {
			token = b.tokens[len(b.tokens)-1]
		}
		b.told, b.tokens = nil, nil
		return true
	})
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	return token
}

// Sinks are added, changed and removed while everything runs: one that is new, or whose
// receiver is another one, is told everything; one with other windows or credentials goes on
// where it was, and so does one that comes back.
func TestSinksAreReloaded(t *testing.T) {
	f := newFront(t)
	f.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tributary-system"}})
	f.left(t, "web", "gone")
	f.left(t, "api", "gone")
	slb, moved, other := newBalancer(t), newBalancer(t), newBalancer(t)
	sink := func(name, url, more string) string {
		return fmt.Sprintf("- {name: %s, url: %q, window: 0s, maxRequestsPerSecond: 100%s}\n", name, url, more)
	}
	sinks := func(all ...string) *config.Loaded {
		lines := noMembers
		if len(all) > 0 {
			lines += "sinks:\n" + strings.Join(all, "")
		}
		return loadedWith(t, f.access("good"), lines)
	}
	r := replicating(t, sinks(sink("slb", slb.URL, "")))
	settled := func() {
		t.Helper()
		until(t, "nothing is pending", func() bool {
			return !slices.ContainsFunc(r.status().Sinks, func(s metrics.SinkStatus) bool { return s.State != "live" || s.Pending > 0 })
		})
	}
	slb.expect(t, "shop/api", "shop/web")

	// Another one is added: the first is told nothing.
	r.edit(sinks(sink("slb", slb.URL, ""), sink("other", other.URL, ", namespaces: [shop]")))
	other.expect(t, "shop/api", "shop/web")
	settled()
	slb.expect(t)

	// Another window, and credentials: what was acknowledged is not told again.
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.edit(sinks(sink("slb", slb.URL, ", removalWindow: 1h, auth: {bearerTokenFile: "+file+"}"), sink("other", other.URL, ", namespaces: [shop]")))
	settled()
	f.left(t, "new", "gone")
	if token := slb.expect(t, "shop/new"); token != "Bearer one" {
		t.Errorf("the token is %q", token)
	}
	other.expect(t, "shop/new")
	if err := os.WriteFile(file, []byte("two\n"), 0o600); err != nil { // read again for each request
		t.Fatal(err)
	}
	f.left(t, "newer", "gone")
	if token := slb.expect(t, "shop/newer"); token != "Bearer two" {
		t.Errorf("the token is %q", token)
	}
	other.expect(t, "shop/newer")
	settled()

	// Another receiver knows nothing; one that is removed is told nothing, and is no more.
	r.edit(sinks(sink("slb", moved.URL, "")))
	moved.expect(t, "shop/api", "shop/new", "shop/newer", "shop/web")
	f.left(t, "last", "gone")
	moved.expect(t, "shop/last")
	settled()
	slb.expect(t)
	other.expect(t)
	if all := r.status().Sinks; len(all) != 1 || all[0].Name != "slb" {
		t.Errorf("status: %+v", all)
	}

	// It comes back, and is told what it does not know.
	r.edit(sinks(sink("other", other.URL, ", namespaces: [shop]")))
	other.expect(t, "shop/last")
	settled()
	r.edit(sinks())
	if all := r.status().Sinks; len(all) != 0 {
		t.Errorf("status: %+v", all)
	}
}

// threePods is a member with a Service of three ready pods.
func threePods(t *testing.T) *front {
	member := newFront(t)
	member.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	member.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "172.16.0.1", Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
	}})
	for i := range 3 {
		member.Create(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.0.%d", i+1),
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0))}}},
		})
	}
	return member
}

// ready counts the ready endpoints in shop.
func (f *front) ready() (n int) {
	for _, slice := range apitest.List[*discoveryv1.EndpointSlice](f.Server, "shop") {
		for _, e := range slice.Endpoints {
			if *e.Conditions.Ready {
				n++
			}
		}
	}
	return n
}

// An edit of rules and sinks together: the rules are in force before anybody waits for a
// receiver, and a new one is told by them from the first; of a rule that is held, nothing.
func TestAnEditComesToSinksLast(t *testing.T) {
	f, member := newFront(t), threePods(t)
	f.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tributary-system"}})
	hears := func(hear func(r *http.Request, ready int)) string {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var batch []struct {
				Data struct{ Endpoints []struct{ Ready bool } }
			}
			if err := json.NewDecoder(r.Body).Decode(&batch); err != nil || len(batch) != 1 {
				t.Errorf("told %d Services: %v", len(batch), err)
				return
			}
			ready := 0
			for _, e := range batch[0].Data.Endpoints {
				if e.Ready {
					ready++
				}
			}
			hear(r, ready)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	slow := make(chan struct{})
	told := sync.OnceFunc(func() { close(slow) })
	old := hears(func(r *http.Request, _ int) {
		told()
		look := time.NewTicker(2 * time.Millisecond)
		defer look.Stop()
		for f.ready() != 2 {
			select {
			case <-look.C:
			case <-r.Context().Done():
				t.Error("the edit waits for a receiver, and its rules are not in force")
				return
			}
		}
	})
	news := make(chan int, 100)
	fresh := hears(func(_ *http.Request, ready int) { news <- ready })
	loaded := func(rules, sinks string) *config.Loaded {
		l := loadedWith(t, f.access("good"), "clusters: [{name: idc-a, kubeconfig: x}]\nrules: ["+rules+"]\nsinks: ["+sinks+"]\n")
		l.Members["idc-a"] = member.access("good")
		return l
	}
	sink := func(name, url, more string) string {
		return fmt.Sprintf("{name: %s, url: %q, window: 0s, maxRequestsPerSecond: 100%s},", name, url, more)
	}
	const one, all = "{name: one, when: \"pod.metadata.name == 'web-1'\", then: NotReady},", "{name: all, when: \"pod.metadata.namespace == 'shop'\", then: NotReady}"
	r := replicating(t, loaded("", sink("slb", old, "")))
	<-slow
	r.edit(loaded(one, sink("slb", old, ", removalWindow: 1s")+sink("first", fresh, "")))
	if n := <-news; n != 2 {
		t.Errorf("a new receiver is first told of %d ready endpoints", n)
	}
	r.edit(loaded(one+all, sink("first", fresh, "")+sink("second", fresh, "")))
	if n := <-news; n != 2 {
		t.Errorf("while a rule is held a new receiver is told of %d ready endpoints", n)
	}
	until(t, "the rule is held", func() bool {
		return slices.ContainsFunc(r.status().Held, func(h metrics.HeldChange) bool { return h.Reason == "rule_would_empty" })
	})
	if n := f.ready(); n != 2 || len(news) > 0 {
		t.Errorf("%d are ready, and %d more requests", n, len(news))
	}
}

// What a leader released of a rule that is held stays released when another process comes to
// lead, which holds the same edit and has not heard of it. Nothing is written for that.
func TestANewLeaderHoldsNothingThatWasReleased(t *testing.T) {
	f, member := newFront(t), threePods(t)
	loaded := func(token, rules string) *config.Loaded {
		l := loadedWith(t, f.access(token), "clusters: [{name: idc-a, kubeconfig: x}]\n"+rules)
		l.Members["idc-a"] = member.access(token)
		return l
	}
	ready := f.ready
	holds := func(p *process) func() bool {
		return func() bool {
			return slices.ContainsFunc(p.status().Held, func(h metrics.HeldChange) bool { return h.Reason == "rule_would_empty" })
		}
	}
	first := beside(t, loaded("first", ""), "first:1")
	until(t, "all are ready", func() bool { return first.in("leading")() && ready() == 3 })
	second := beside(t, loaded("second", ""), "second:1")
	until(t, "the second stands by", func() bool { return second.in("standby")() && len(second.notReady()) == 0 })
	const rules = "rules: [{name: every-pod, when: \"pod.metadata.namespace == 'shop'\", then: NotReady}]\n"
	for _, p := range []*process{first, second} {
		token := map[*process]string{first: "first", second: "second"}[p]
		p.edit(loaded(token, rules))
		until(t, token+" holds the rule", holds(p))
	}
	if n := ready(); n != 3 {
		t.Errorf("%d are ready while the rule is held", n)
	}
	answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+ReleasePath+"?cluster=idc-a", nil)
	request.RemoteAddr = "127.0.0.1:1"
	request.Header.Set(OperatorHeader, "yes")
	ReleaseHandler(first.set.Release)(answer, request)
	if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"ruled": 3`) && !strings.Contains(answer.Body.String(), `"ruled":3`) {
		t.Errorf("release: %d %s", answer.Code, answer.Body)
	}
	until(t, "none is ready", func() bool { return ready() == 0 })
	f.with(func() { f.writers = nil })
	first.end()
	until(t, "the second leads, and holds nothing", func() bool { return second.in("leading")() && !holds(second)() })
	if by := f.orphan(t, "orphan"); !slices.Equal(by, []string{"second"}) { // it is done with all before that
		t.Errorf("written with %q", by)
	}
	if n := ready(); n != 0 {
		t.Errorf("%d are ready again", n)
	}
}
