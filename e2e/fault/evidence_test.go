// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// These tests are about how far a member is believed: what happened while nobody
// looked, what its lists lack, and what it says meanwhile. Each has a second member
// that is well, and whose endpoints stay as they are.

// gap lets a member change while tributary cannot see it, and cannot go on from where
// it was. It returns when tributary may look again.
func (w *world) gap(s *fleet.Site, p *Proxy, change func()) {
	w.Helper()
	blind := w.blind(s)
	p.Set(&Fault{CutBefore: true})
	p.EndWatches()
	change()
	expired := []*Fault{}
	for _, resource := range []string{"pods", "services", "nodes"} {
		expired = append(expired, &Fault{Match: Resumes(resource), Status: http.StatusGone, Times: 1})
	}
	p.Set(expired...)
	blind.End()
}

// gone waits until none of these pods' addresses is ready anywhere in a replica.
func (w *world) gone(service string, pods []*corev1.Pod, limit time.Duration) time.Duration {
	w.Helper()
	return w.eventually(limit, func(ctx context.Context) error {
		inEndpoints, inSlices, err := w.readyAddresses(ctx, service)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if ip := p.Status.PodIP; slices.Contains(inEndpoints, ip) || slices.Contains(inSlices, ip) {
				return fmt.Errorf("%s (%s) is still served", p.Name, ip)
			}
		}
		return nil
	})
}

// release lets pass what is held of a member.
func (w *world) release(member string) {
	w.Helper()
	binary, err := fleet.BuildTributary(w.Context(), false)
	w.must(err)
	out, err := exec.CommandContext(w.Context(), binary, "release", "--server", w.proc.URL, "--cluster", member).CombinedOutput()
	if err != nil {
		w.Fatalf("release: %v: %s", err, out)
	}
}

// names are the names of pods.
func names(pods []*corev1.Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Name
	}
	return out
}

// withoutGet are a member's rights without that to read single objects of some kinds.
func withoutGet(resources ...string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range fleet.MemberRules() {
		for _, resource := range rule.Resources {
			one := rule
			one.Resources = []string{resource}
			if slices.Contains(resources, resource) {
				one.Verbs = []string{"list", "watch"}
			}
			out = append(out, one)
		}
	}
	return out
}

// poor is a proxy to a member for an account that may not read single pods.
func (w *world) poor(s *fleet.Site) *Proxy {
	w.Helper()
	account, err := s.NewServiceAccount(w.Context(), w.ns, "poor", withoutGet("pods", "services")...)
	w.must(err)
	p, err := StartProxy(s.Cluster, w.seed)
	w.must(err)
	w.Cleanup(p.Close)
	text, err := p.Kubeconfig(account)
	w.must(err)
	w.reach(s, text)
	return p
}

// TestHeldAddressIsReused: while a list's losses are held, because nobody may ask, a
// live pod of another Service gets one of the addresses. Only the live one has it then.
func TestHeldAddressIsReused(t *testing.T) {
	w := newWorld(t, "reuse")
	proxy := w.poor(w.a)
	web := w.service("web", 30, w.a)
	w.service("api", 2, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	soft := w.rec.Begin(history.Free, w.a.Name())
	w.gap(w.a, proxy, func() { w.must(w.a.Remove(w.Context(), w.ns, names(web)...)) })
	held := w.holds(w.a.Name(), 20*time.Second)
	next := fleet.NewPod(w.ns, "api-reuse", "api")
	w.must(w.a.StartPods(w.Context(), next))
	w.must(w.a.SetPodIPs(w.Context(), w.ns, next.Name, web[7].Status.PodIP))
	w.must(w.a.MarkReady(w.Context(), w.ns, next.Name))
	took := w.gone("web", web[7:8], 2*time.Second)
	w.eventually(2*time.Second, func(ctx context.Context) error { return w.hasReady(ctx, "api", web[7].Status.PodIP) })
	w.release(w.a.Name())
	w.converges(10 * time.Second)
	soft.End()
	t.Logf("held after %s; the address that is reused left the held replica after %s", held, took)
	w.judge()
}

// TestHoldConcernsItsReplica: one Service is scaled to none in a gap, another is rolled
// meanwhile, 10 pods replaced by 9. The second is believed at once, whatever becomes of
// the first; and where single objects may be read, so is the first.
func TestHoldConcernsItsReplica(t *testing.T) {
	for _, ask := range []bool{true, false} {
		t.Run(map[bool]string{true: "asking", false: "without get"}[ask], func(t *testing.T) {
			w := newWorld(t, map[bool]string{true: "perreplica", false: "perreplicanoget"}[ask])
			var proxy *Proxy
			if ask {
				proxy = w.proxyTo(w.a)
			} else {
				proxy = w.poor(w.a)
			}
			zero := w.service("zero", 12, w.a)
			roll := w.service("roll", 10, w.a)
			w.service("both", 3, w.a, w.b)
			w.start()
			w.converges(10 * time.Second)

			free := w.rec.Begin(history.Free, w.a.Name())
			w.gap(w.a, proxy, func() {
				w.must(w.a.Remove(w.Context(), w.ns, names(zero)...))
				w.pods(w.a, "roll", 100, 9)
				w.must(w.a.Remove(w.Context(), w.ns, names(roll)...))
			})
			rolled := w.gone("roll", roll, 5*time.Second)
			w.eventually(time.Second, w.counts("roll", 9))
			if ask {
				scaled := w.gone("zero", zero, 3*time.Second)
				t.Logf("rolled after %s, scaled to none after %s", rolled, scaled)
			} else {
				w.must(w.counts("zero", 12)(w.Context()))
				w.release(w.a.Name())
				t.Logf("rolled after %s, while the other is held", rolled)
			}
			w.must(w.counts("both", 6)(w.Context()))
			w.converges(10 * time.Second)
			free.End()
			w.judge()
		})
	}
}

// TestExpiredWatchIsNoRestore: the newest pod heard of was deleted in a gap. That is an
// ordinary 410, and the member is followed again at once.
func TestExpiredWatchIsNoRestore(t *testing.T) {
	w := newWorld(t, "expired")
	proxy := w.proxyTo(w.a)
	w.service("web", 6, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	for round := range size(2, 5) {
		newest := w.pods(w.a, "web", 100+round, 1)
		w.converges(5 * time.Second)
		free := w.rec.Begin(history.Free, w.a.Name())
		w.gap(w.a, proxy, func() {
			w.must(w.a.Remove(w.Context(), w.ns, newest[0].Name))
			w.must(w.a.Compact(w.Context()))
		})
		took := w.gone("web", newest, 3*time.Second)
		free.End()
		// Nor is it doubted later, when the probe has looked again.
		deadline := time.Now().Add(w.within(time.Duration(size(15, 40)) * time.Second))
		for time.Now().Before(deadline) {
			s, err := w.status(w.Context())
			w.must(err)
			for _, c := range s.Clusters {
				if c.Reason == "RevisionRegressed" || c.State == "suspect" {
					t.Fatalf("round %d: %+v", round, c)
				}
			}
			w.pause(200 * time.Millisecond)
		}
		t.Logf("round %d: gone after %s", round, took)
	}
	w.converges(5 * time.Second)
	w.judge()
}

// TestAbsentPodsAreAskedFor: many pods are deleted in a gap. They are settled by reading
// them, or some of them, and nobody has to come.
func TestAbsentPodsAreAskedFor(t *testing.T) {
	w := newWorld(t, "absent")
	proxy := w.proxyTo(w.a)
	n := size(210, 5010)
	gone := w.service("web", n, w.a)
	w.service("api", 4, w.a, w.b)
	w.start()
	w.converges(30 * time.Second)
	free := w.rec.Begin(history.Free, w.a.Name())
	w.gap(w.a, proxy, func() { w.must(w.a.Remove(w.Context(), w.ns, names(gone[:n-10])...)) })
	took := w.gone("web", gone[:n-10], time.Duration(size(3, 30))*time.Second)
	w.must(w.counts("web", 10)(w.Context()))
	w.must(w.counts("api", 8)(w.Context()))
	free.End()
	t.Logf("%d absent pods were settled after %s", n-10, took)
	w.converges(5 * time.Second)
	w.judge()
}

// TestListThatLies: the same list, but the pods are there. Nothing that the list lacks
// is believed, across a restart too, and what is seen to be deleted goes at once.
func TestListThatLies(t *testing.T) {
	w := newWorld(t, "lies")
	proxy := w.proxyTo(w.a)
	web := w.service("web", 20, w.a)
	w.service("api", 4, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	soft := w.rec.Begin(history.Soft, w.a.Name())
	proxy.Set(&Fault{Match: Lists("pods"), Hide: w.ofThis(func(o metav1.Object) bool { return o.GetLabels()["app"] == "web" && o.GetName() != "web-0" })})
	proxy.Relist("pods")
	held := w.holds(w.a.Name(), 20*time.Second)
	w.must(w.a.Remove(w.Context(), w.ns, "web-0"))
	hard := w.gone("web", web[:1], 2*time.Second)
	w.must(w.counts("web", 19)(w.Context()))

	w.kill()
	w.restartDoubtful()
	again := w.holds(w.a.Name(), 20*time.Second)
	w.pause(time.Duration(size(8, 60)) * time.Second)
	w.must(w.counts("web", 19)(w.Context()))
	w.must(w.a.Remove(w.Context(), w.ns, "api-0"))
	w.eventually(2*time.Second, w.counts("api", 7))

	proxy.Set()
	proxy.Relist("pods")
	ended := w.holdsNothing(30 * time.Second)
	soft.End()
	t.Logf("held after %s, a deletion that was seen passed after %s; held again %s after a restart; over %s after the list told the truth", held, hard, again, ended)
	w.converges(10 * time.Second)
	w.judge()
}

// TestHoldOutlastsARestartWithoutGet: nobody may ask for pods, and a list lacks most of a
// Service. That is held, and held again after a restart, which neither releases anything
// nor freezes more: a deletion that is seen and an address that is used again pass at once,
// and an operator lets the rest go.
func TestHoldOutlastsARestartWithoutGet(t *testing.T) {
	w := newWorld(t, "restartnoget")
	proxy := w.poor(w.a)
	web := w.service("web", 30, w.a)
	w.service("api", 2, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	soft := w.rec.Begin(history.Free, w.a.Name())
	w.gap(w.a, proxy, func() { w.must(w.a.Remove(w.Context(), w.ns, names(web[:25])...)) })
	held := w.holds(w.a.Name(), 20*time.Second)
	w.kill()
	w.restart()
	again := w.holds(w.a.Name(), 20*time.Second)
	w.pause(time.Duration(size(8, 60)) * time.Second)
	w.must(w.counts("web", 30)(w.Context()))

	w.must(w.a.Remove(w.Context(), w.ns, names(web[29:])...))
	seen := w.gone("web", web[29:], 2*time.Second)
	next := fleet.NewPod(w.ns, "api-reuse", "api")
	w.must(w.a.StartPods(w.Context(), next))
	w.must(w.a.SetPodIPs(w.Context(), w.ns, next.Name, web[7].Status.PodIP))
	w.must(w.a.MarkReady(w.Context(), w.ns, next.Name))
	reused := w.gone("web", web[7:8], 2*time.Second)
	w.must(w.counts("web", 28)(w.Context()))
	w.release(w.a.Name())
	w.eventually(2*time.Second, w.counts("web", 4))
	w.converges(10 * time.Second)
	soft.End()
	t.Logf("held after %s, and %s after a restart; a deletion passed after %s, a reuse after %s", held, again, seen, reused)
	w.judge()
}

// TestStartBesideACrashLoop: at a start one Service has no ready pod any more. That is
// what its pods say, so nothing is doubted, and deletions that are seen pass at once.
func TestStartBesideACrashLoop(t *testing.T) {
	w := newWorld(t, "crashloop")
	crash := w.service("crash", 15, w.a)
	w.service("web", 5, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	w.kill()
	free := w.rec.Begin(history.Free, w.a.Name())
	for _, p := range crash {
		w.must(w.a.MarkNotReady(w.Context(), w.ns, p.Name))
	}
	w.restart()
	took := w.gone("crash", crash, 5*time.Second)
	w.must(w.a.Remove(w.Context(), w.ns, "web-0"))
	seen := w.eventually(2*time.Second, w.counts("web", 9))
	s, err := w.status(w.Context())
	w.must(err)
	for _, c := range s.Clusters {
		if c.State != "live" {
			t.Errorf("%+v", c)
		}
	}
	free.End()
	t.Logf("taken as they are %s after the start, a deletion seen then after %s", took, seen)
	w.converges(5 * time.Second)
	w.judge()
}

// TestGapOfASmallMember: a member of one namespace whose three pods were scaled to none
// in a gap gets rid of them without anybody's help; so does one whose pods were evicted,
// which the watch's selector hides.
func TestGapOfASmallMember(t *testing.T) {
	w := newWorld(t, "small")
	proxy := w.proxyTo(w.a)
	scaled := w.service("scaled", 3, w.a)
	evicted := w.service("evicted", 3, w.a)
	w.service("other", 3, w.b)
	w.start()
	w.converges(10 * time.Second)
	free := w.rec.Begin(history.Free, w.a.Name())
	w.gap(w.a, proxy, func() { w.must(w.a.Remove(w.Context(), w.ns, names(scaled)...)) })
	toNone := w.gone("scaled", scaled, 3*time.Second)
	w.gap(w.a, proxy, func() {
		for _, p := range evicted {
			w.must(w.a.SetPhase(w.Context(), w.ns, p.Name, corev1.PodFailed))
		}
	})
	failed := w.gone("evicted", evicted, 3*time.Second)
	free.End()
	t.Logf("scaled to none in a gap: gone after %s; evicted in a gap: gone after %s", toNone, failed)
	w.converges(5 * time.Second)
	w.judge()
}

// TestIdentityStaysOptional: the right to read kube-system is taken away after it was
// used. The member stays live, over new connections and a restart.
func TestIdentityStaysOptional(t *testing.T) {
	w := newWorld(t, "optional")
	ctx := t.Context()
	account, err := w.a.NewServiceAccount(ctx, w.ns, "reader", fleet.MemberRules()...)
	w.must(err)
	text, err := w.a.Cluster.Kubeconfig(account)
	w.must(err)
	w.reach(w.a, text)
	w.service("web", 3, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	w.must(w.a.Revoke(ctx, account.Name))
	w.must(w.a.Grant(ctx, account.Name, withoutGet("namespaces")...))
	live := func(when string) {
		w.reports(w.a.Name(), 20*time.Second, "live "+when, func(c clusterStatus) bool { return c.State == "live" && c.Synced })
		w.pods(w.a, "web", 100+len(when), 1)
		w.converges(5 * time.Second)
	}
	w.crash(w.a)
	live("after its server was restarted")
	w.kill()
	w.restart()
	live("after a restart")
	w.judge()
}

// TestFrozenWatchIsNotBelieved: a proxy holds the streams of a member back and answers
// everything else, pings too where there are any. Within 30 s a removal is seen
// nevertheless, over HTTP/1.1 and HTTP/2.
func TestFrozenWatchIsNotBelieved(t *testing.T) {
	for name, start := range map[string]func(*cluster.Cluster, uint64) (*Proxy, error){"http1": StartHTTP1Proxy, "http2": StartProxy} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "frozen-"+name)
			proxy, err := start(w.a.Cluster, w.seed)
			w.must(err)
			t.Cleanup(proxy.Close)
			text, err := proxy.Kubeconfig(w.a.Product)
			w.must(err)
			w.reach(w.a, text)
			web := w.service("web", 4, w.a, w.b)
			w.start()
			w.converges(10 * time.Second)
			w.laws.Bound = w.within(45 * time.Second)
			blind, free := w.blind(w.a), w.rec.Begin(history.Free, w.a.Name())
			proxy.Freeze()
			w.must(w.a.Remove(w.Context(), w.ns, web[0].Name))
			w.pods(w.b, "web", 100, 1)
			other := w.eventually(2*time.Second, w.counts("web", 9))
			took := w.gone("web", web[:1], 30*time.Second)
			blind.End()
			free.End()
			t.Logf("a removal behind frozen streams was seen after %s; the other member's change after %s", took, other)
			w.converges(15 * time.Second)
			w.judge()
		})
	}
}
