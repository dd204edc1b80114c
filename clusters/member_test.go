// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink remembers what it was told.
type sink struct {
	mu    sync.Mutex
	calls []sinkCall
	// kept counts the reports of what a guard kept from having an effect, by reason.
	kept map[string]int
}

type sinkCall struct {
	cluster string
	dirty   []store.Dirty
	cause   record.Cause
	bulk    bool
}

func (s *sink) Dirty(cluster string, dirty []store.Dirty, cause record.Cause, bulk bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause.Kept != "" {
		if s.kept == nil {
			s.kept = map[string]int{}
		}
		s.kept[cause.Kept] += len(dirty)
		return
	}
	s.calls = append(s.calls, sinkCall{cluster, slices.Clone(dirty), cause, bulk})
}

// take returns what came since the last call, a line for each dirty replica.
func (s *sink) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, c := range s.calls {
		for _, d := range c.dirty {
			line := fmt.Sprintf("%s %s: %s", d.Effect, d.Replica, c.cause)
			if c.bulk {
				line = "bulk " + line
			}
			lines = append(lines, line)
		}
	}
	s.calls = nil
	return lines
}

// world is a Set in a bubble of virtual time.
type world struct {
	t    *testing.T
	set  *Set
	sink *sink
	opts Options
	// tweak, when set, edits the configuration of each cluster.
	tweak func(*config.Cluster)

	clusters []named
}

type named struct {
	name string
	rest *rest.Config
	hash string
}

// inWorld runs a script in virtual time. prepare may set options before the set
// is made.
func inWorld(t *testing.T, prepare func(*Options), script func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, sink: &sink{}}
		w.opts = Options{Sink: w.sink, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
		if prepare != nil {
			prepare(&w.opts)
		}
		w.set = NewSet(w.opts)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.set.Run(ctx)
		}()
		synctest.Wait()
		script(w)
		cancel()
		<-ended
	})
}

// api starts a cluster that is gone when the test ends.
func (w *world) api(uid string) *fakeAPI {
	f := newFakeAPI(w.t, uid)
	w.t.Cleanup(f.close)
	return f
}

// reach makes the configuration name a cluster, reached so; hash tells ways apart.
func (w *world) reach(name string, cfg *rest.Config, hash string) []string {
	w.clusters = slices.DeleteFunc(w.clusters, func(n named) bool { return n.name == name })
	w.clusters = append(w.clusters, named{name, cfg, hash})
	return w.apply()
}

func (w *world) forget(name string) []string {
	w.clusters = slices.DeleteFunc(w.clusters, func(n named) bool { return n.name == name })
	return w.apply()
}

func (w *world) apply() []string {
	loaded := &config.Loaded{Members: map[string]config.Access{}}
	for _, n := range w.clusters {
		c := config.Cluster{}
		c.SetDefaults()
		c.Name = n.name
		if w.tweak != nil {
			w.tweak(&c)
		}
		loaded.Config.Clusters = append(loaded.Config.Clusters, c)
		loaded.Members[n.name] = config.Access{REST: n.rest, Hash: n.hash}
	}
	return w.set.Apply(loaded)
}

// pass lets virtual time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) status(name string) Status {
	w.t.Helper()
	for _, s := range w.set.Status() {
		if s.Name == name {
			return s
		}
	}
	w.t.Fatalf("no member %q", name)
	return Status{}
}

// counts are those of a member's store.
func (w *world) counts(name string) store.Stats {
	w.t.Helper()
	for _, m := range w.set.applied.Load().members {
		if m.name == name {
			m.mu.RLock()
			defer m.mu.RUnlock()
			return m.state.Store().Stats()
		}
	}
	w.t.Fatalf("no member %q", name)
	return store.Stats{}
}

func (w *world) wantState(name string, state State, reason Reason) {
	w.t.Helper()
	if s := w.status(name); s.State != string(state) || s.Reason != string(reason) {
		w.t.Errorf("%s is %s %q (%v), want %s %q", name, s.State, s.Reason, s.LastError, state, reason)
	}
}

// wantKept checks how many changes were reported as kept since the last call.
func (w *world) wantKept(reason HoldReason, want int) {
	w.t.Helper()
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	if got := w.sink.kept; got[string(reason)] != want || len(got) > 1 {
		w.t.Errorf("kept were %v; want %d for %s", got, want, reason)
	}
	w.sink.kept = nil
}

func (w *world) wantDirty(want ...string) {
	w.t.Helper()
	if got := w.sink.take(); !slices.Equal(got, want) {
		w.t.Errorf("sink was told\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// addresses are the ready addresses of a replica, sorted, with their cluster.
func (w *world) addresses(namespace, name string) []string {
	var got []string
	for _, share := range w.set.Peek(syncer.Key{Namespace: namespace, Name: name}).Shares {
		if share.Pending {
			got = append(got, share.Cluster+" pending")
		}
		for _, e := range share.Endpoints {
			if e.Ready {
				got = append(got, share.Cluster+" "+e.Addr.String())
			}
		}
	}
	slices.Sort(got)
	return got
}

func (w *world) wantAddresses(namespace, name string, want ...string) {
	w.t.Helper()
	if got := w.addresses(namespace, name); !slices.Equal(got, want) {
		w.t.Errorf("%s/%s has %q, want %q", namespace, name, got, want)
	}
}

func newService(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.9", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
}

func newPod(namespace, app string, n int) *corev1.Pod {
	ip := fmt.Sprintf("10.1.0.%d", n)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", app, n), Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

func notReady(p *corev1.Pod) *corev1.Pod {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	return p
}

func TestMemberIsReadWholeThenFollowed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"), newPod("shop", "web", 1), newPod("shop", "web", 2), newService("kube-system", "dns"))
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantDirty("bulk addition shop/web: Cluster relist")
		w.wantAddresses("shop", "web", "a 10.1.0.1", "a 10.1.0.2")

		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 modified (not ready)")
		a.put(newPod("shop", "web", 3))
		w.pass(0)
		w.wantDirty("addition shop/web: Pod shop/web-3 added (ready)")
		a.remove("pods", "shop", "web-2")
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-2 deleted (gone)")
		finished := newPod("shop", "web", 3)
		finished.Status.Phase = corev1.PodSucceeded
		a.put(finished)
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-3 deleted (gone)")
		a.put(newPod("shop", "other", 9))
		w.pass(0)
		w.wantDirty()
		w.wantAddresses("shop", "web")
	})
}

// counts is an Observer.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[strings.Join(words, " ")]++
}

func (c *counts) WatchEvent(cluster, resource, event string) {
	c.add("event", cluster, resource, event)
}
func (c *counts) WatchEnded(cluster, resource, reason string) {
	c.add("end", cluster, resource, reason)
}
func (c *counts) Listed(cluster, resource, reason string, _ time.Duration) {
	c.add("list", cluster, resource, reason)
}
func (c *counts) Unreadable(cluster, resource string) { c.add("unreadable", cluster, resource) }

func TestWhatIsCounted(t *testing.T) {
	seen := &counts{}
	running(t, func(o *Options) { o.Observer = seen }, func(w *world, a *fakeAPI) {
		a.put(newPod("shop", "web", 3))
		a.remove("pods", "shop", "web-3")
		a.with(func() { a.closing++ })
		w.pass(0)
		w.set.Relist("")
		w.pass(time.Minute)
		for line, want := range map[string]int{
			"event a pods added": 1, "event a pods deleted": 1, "end a pods closed": 1,
			"list a pods first_fill": 1, "list a pods requested": 1, "list a services requested": 1,
		} {
			if got := seen.n[line]; got != want {
				t.Errorf("%q counted %d times, want %d; all: %v", line, got, want, seen.n)
			}
		}
		if restarts := seen.n["end a pods stopped"]; restarts != 0 {
			t.Errorf("%d ends of our own were counted", restarts)
		}
	})
}
