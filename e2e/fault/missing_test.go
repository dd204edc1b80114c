// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"net/http"
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

// These tests are about what is missing: what happened while nobody looked, and what
// lists lack although it is there. Each has a second member that is well, and whose
// endpoints stay as they are.

// gap lets a member change while tributary cannot see it, and cannot go on from where
// it was. It returns when tributary may look again, by what faults the proxy has then.
func (w *world) gap(s *fleet.Site, p *Proxy, change func(), then ...*Fault) {
	w.Helper()
	blind := w.blind(s)
	p.Set(&Fault{CutBefore: true})
	p.EndWatches()
	change()
	for _, resource := range []string{"pods", "services"} {
		then = append(then, &Fault{Match: Resumes(resource), Status: http.StatusGone, Times: 1})
	}
	p.Set(then...)
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

// asks waits until so many questions about what is missing in a member are open.
func (w *world) asks(member string, n int, limit time.Duration) time.Duration {
	w.Helper()
	return w.reports(member, limit, fmt.Sprintf("asked for %d", n), func(c clusterStatus) bool { return c.Missing >= n })
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

// TestMissingPodsAreAskedFor: many pods are deleted in a gap, in which others are rolled.
// All is settled at once, with the right to read single pods and without it.
func TestMissingPodsAreAskedFor(t *testing.T) {
	for name, poor := range map[string]bool{"absent": false, "absent-noget": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, name)
			proxy := func() *Proxy {
				if poor {
					return w.poor(w.a)
				}
				return w.proxyTo(w.a)
			}()
			n := size(110, 5010)
			gone := w.service("web", n, w.a)
			roll := w.service("roll", 10, w.a)
			zero := w.service("zero", 3, w.a)
			w.service("both", 3, w.a, w.b)
			w.start()
			w.converges(30 * time.Second)
			w.gap(w.a, proxy, func() {
				w.must(w.a.Remove(w.Context(), w.ns, names(gone[:n-10])...))
				w.must(w.a.Remove(w.Context(), w.ns, names(zero)...))
				w.pods(w.a, "roll", 100, 9)
				w.must(w.a.Remove(w.Context(), w.ns, names(roll)...))
				for _, p := range gone[n-3:] { // evicted, which the watch's selector hides
					w.must(w.a.SetPhase(w.Context(), w.ns, p.Name, corev1.PodFailed))
				}
			})
			took := w.gone("web", gone[:n-10], time.Duration(size(5, 30))*time.Second)
			w.gone("web", gone[n-3:], 3*time.Second)
			w.gone("zero", zero, 3*time.Second)
			w.gone("roll", roll, 3*time.Second)
			w.eventually(3*time.Second, w.counts("roll", 9))
			w.must(w.counts("both", 6)(w.Context()))
			t.Logf("%d missing pods were settled after %s", n-10, took)
			w.converges(5 * time.Second)
			w.judge()
		})
	}
}

// TestMissingAddressIsReused: pods are missing and nobody can be asked. They stay, but for
// one whose address a live pod has got; and when the member answers again, all of them go.
func TestMissingAddressIsReused(t *testing.T) {
	w := newWorld(t, "reuse")
	proxy := w.proxyTo(w.a)
	web := w.service("web", 12, w.a)
	w.service("api", 2, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	blind := w.blind(w.a)
	w.gap(w.a, proxy, func() {
		w.must(w.a.Remove(w.Context(), w.ns, names(web[:10])...))
	}, &Fault{Match: Gets("pods"), CutBefore: true})
	w.asks(w.a.Name(), 10, 20*time.Second)
	w.must(w.counts("web", 12)(w.Context()))
	next := fleet.NewPod(w.ns, "api-reuse", "api")
	w.must(w.a.StartPods(w.Context(), next))
	w.must(w.a.SetPodIPs(w.Context(), w.ns, next.Name, web[7].Status.PodIP))
	w.must(w.a.MarkReady(w.Context(), w.ns, next.Name))
	took := w.gone("web", web[7:8], 3*time.Second)
	w.eventually(3*time.Second, func(ctx context.Context) error { return w.hasReady(ctx, "api", web[7].Status.PodIP) })
	proxy.Set()
	blind.End()
	over := w.converges(40 * time.Second)
	t.Logf("the address that is reused left after %s; the others %s after the member answers again", took, over)
	w.judge()
}

// TestBlueGreenInAGap: in a gap a Service's selector goes to pods that are new, and the
// former ones go. The replica is never without a ready endpoint.
func TestBlueGreenInAGap(t *testing.T) {
	w := newWorld(t, "bluegreen")
	ctx := t.Context()
	proxy := w.proxyTo(w.a)
	blue := w.service("web", 5, w.a)
	w.laws.Serving = []history.Key{{Namespace: w.ns, Name: "web"}}
	w.start()
	w.converges(10 * time.Second)
	// Services alone say which pods are meant: whatever the order, they are read after the pods.
	for app, refused := range map[string][]*Fault{"green": nil, "red": {{Match: Lists("pods"), Times: 4, Status: http.StatusServiceUnavailable}}} {
		w.pause(time.Second) // a stream that ends as soon as it began is another matter
		w.gap(w.a, proxy, func() {
			next := w.pods(w.a, app, 0, 5)
			svc, err := w.a.Client.CoreV1().Services(w.ns).Get(ctx, "web", getNow)
			w.must(err)
			svc.Spec.Selector = map[string]string{fleet.AppLabel: app}
			_, err = w.a.Client.CoreV1().Services(w.ns).Update(ctx, svc, metav1.UpdateOptions{})
			w.must(err)
			w.must(w.a.Remove(ctx, w.ns, names(blue)...))
			blue = next
		}, refused...)
		t.Logf("%s: converged after %s", app, w.converges(40*time.Second))
	}
	w.judge()
}

// TestServiceMadeAgainInAGap: the watch that is resumed tells that a Service went, and then that it
// came again. The replica is never without a ready endpoint.
func TestServiceMadeAgainInAGap(t *testing.T) {
	w := newWorld(t, "again")
	ctx := t.Context()
	proxy := w.proxyTo(w.a)
	w.service("web", 5, w.a)
	w.laws.Serving = []history.Key{{Namespace: w.ns, Name: "web"}}
	w.start()
	w.converges(10 * time.Second)
	for range 3 {
		w.pause(time.Second) // a stream that ends as soon as it began is another matter
		blind := w.blind(w.a)
		proxy.Set(&Fault{CutBefore: true})
		proxy.EndWatches()
		services := w.a.Client.CoreV1().Services(w.ns)
		w.must(services.Delete(ctx, "web", metav1.DeleteOptions{}))
		w.must(w.a.Create(ctx, fleet.NewService(w.ns, "web")))
		w.pods(w.a, "web", 100, 1)
		proxy.Set()
		blind.End()
		w.converges(10 * time.Second)
		w.must(w.a.Remove(ctx, w.ns, "web-100"))
		w.converges(10 * time.Second)
	}
	w.judge()
}

// TestExpiredWatchIsNoRestore: the newest pod heard of was deleted in a gap. That is an
// ordinary 410, and the member is followed again at once.
func TestExpiredWatchIsNoRestore(t *testing.T) {
	w := newWorld(t, "expired")
	proxy := w.proxyTo(w.a)
	w.service("web", 6, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	newest := w.pods(w.a, "web", 100, 1)
	w.converges(5 * time.Second)
	w.gap(w.a, proxy, func() {
		w.must(w.a.Remove(w.Context(), w.ns, newest[0].Name))
		w.must(w.a.Compact(w.Context()))
	})
	t.Logf("gone after %s", w.gone("web", newest, 3*time.Second))
	w.reportsUp(w.a.Name(), 10*time.Second)                         // the other kinds' streams were cut as well
	w.staysLive(w.a.Name(), time.Duration(size(4, 13))*time.Second) // nor is it doubted later, when the probe has looked
	w.converges(5 * time.Second)
	w.judge()
}

// TestListThatLies: lists lack pods that are there. None of them goes, across a restart
// too, and what is seen to be deleted goes at once.
func TestListThatLies(t *testing.T) {
	w := newWorld(t, "lies")
	proxy := w.proxyTo(w.a)
	web := w.service("web", 20, w.a)
	w.service("api", 4, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	lie := &Fault{Match: Lists("pods"), Hide: w.ofThis(func(o metav1.Object) bool { return o.GetLabels()["app"] == "web" && o.GetName() != "web-0" })}
	proxy.Set(lie)
	proxy.Relist("pods")
	w.eventually(20*time.Second, metAtLeast(lie, 1))
	w.must(w.a.Remove(w.Context(), w.ns, "web-0"))
	hard := w.gone("web", web[:1], 3*time.Second)
	w.must(w.counts("web", 19)(w.Context()))

	w.kill()
	w.restart()
	w.must(w.counts("web", 19)(w.Context()))
	w.must(w.a.Remove(w.Context(), w.ns, "api-0", "web-1"))
	again := w.eventually(3*time.Second, w.counts("api", 7))
	w.eventually(3*time.Second, w.counts("web", 18))

	proxy.Set()
	proxy.Relist("pods")
	w.converges(10 * time.Second)
	t.Logf("a deletion that was seen passed after %s, after a restart behind the same lists after %s", hard, again)
	w.judge()
}

// TestStartWhileAMemberIsAway: it does not answer at a start. Its published endpoints remain, the
// rest follows at once; and what went meanwhile goes when it is back.
func TestStartWhileAMemberIsAway(t *testing.T) {
	w := newWorld(t, "away")
	ctx := t.Context()
	proxy := w.proxyTo(w.a)
	web := w.service("web", 4, w.a)
	w.service("web", 4, w.b)
	w.service("only", 3, w.a)
	w.start()
	w.converges(10 * time.Second)
	w.kill()
	blind := w.blind(w.a)
	proxy.Set(&Fault{CutBefore: true})
	proxy.EndWatches()
	w.must(w.a.Remove(ctx, w.ns, "web-0", "web-1"))
	w.must(w.b.Remove(ctx, w.ns, "web-0"))
	w.restartBlind()
	follows := w.eventually(10*time.Second, w.counts("web", 7))
	w.must(w.counts("only", 3)(ctx))
	proxy.Set()
	took := w.gone("web", web[:2], 20*time.Second)
	blind.End()
	t.Logf("the other member was followed after %s; what went meanwhile was gone %s after it was back", follows, took)
	w.converges(10 * time.Second)
	w.judge()
}

// TestRefusedNamespace: of two namespaces of a member one is refused, over a restart. What
// is published of it remains, the other is followed.
func TestRefusedNamespace(t *testing.T) {
	w := newWorld(t, "refusedns")
	ctx := t.Context()
	second := w.ns + "-2"
	for _, s := range w.fleet.Sites() {
		w.must(s.CreateNamespaces(ctx, second))
	}
	proxy := w.proxyTo(w.a)
	w.config.members[0].Namespaces.Include = []string{w.ns, second}
	w.must(w.a.Create(ctx, fleet.NewService(second, "shut")))
	w.must(w.a.RunPods(ctx, fleet.NewPod(second, "shut-0", "shut"), fleet.NewPod(second, "shut-1", "shut")))
	w.service("web", 3, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	shut := func(n int) func(context.Context) error {
		return func(ctx context.Context) error {
			inEndpoints, inSlices, err := w.readyIn(ctx, second, "shut")
			if err == nil && (len(inEndpoints) != n || len(inSlices) != n) {
				err = fmt.Errorf("%q and %q, want %d", inEndpoints, inSlices, n)
			}
			return err
		}
	}
	w.eventually(10*time.Second, shut(2))
	proxy.Set(&Fault{Match: func(q Request) bool { return q.Namespace == second }, Status: http.StatusForbidden})
	proxy.EndWatches()
	w.reports(w.a.Name(), 20*time.Second, "refused", func(c clusterStatus) bool { return c.has("Refused") })
	w.must(w.a.Remove(ctx, second, "shut-0"))
	w.must(w.a.Remove(ctx, w.ns, "web-0"))
	w.eventually(5*time.Second, w.counts("web", 5))
	w.kill()
	w.restartBlind()
	w.must(w.a.Remove(ctx, w.ns, "web-1"))
	w.eventually(5*time.Second, w.counts("web", 4))
	w.must(shut(2)(ctx))
	proxy.Set()
	took := w.eventually(40*time.Second, shut(1))
	t.Logf("what was gone left %s after the namespace was granted again", took)
	w.converges(10 * time.Second)
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
	for _, p := range crash {
		w.must(w.a.MarkNotReady(w.Context(), w.ns, p.Name))
	}
	w.restart()
	took := w.gone("crash", crash, 3*time.Second)
	w.must(w.a.Remove(w.Context(), w.ns, "web-0"))
	seen := w.eventually(3*time.Second, w.counts("web", 9))
	t.Logf("taken as they are %s after the start, a deletion seen then after %s", took, seen)
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

// TestFrozenWatchIsFound: a proxy holds the streams of a member back and answers
// everything else, pings too where there are any. Within 25 s a removal is seen
// nevertheless, over HTTP/1.1 and HTTP/2.
func TestFrozenWatchIsFound(t *testing.T) {
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
			blind := w.blind(w.a)
			proxy.Freeze()
			w.must(w.a.Remove(w.Context(), w.ns, web[0].Name))
			w.pods(w.b, "web", 100, 1)
			other := w.eventually(2*time.Second, w.counts("web", 9))
			took := w.gone("web", web[:1], 25*time.Second)
			blind.End()
			t.Logf("a removal behind frozen streams was seen after %s; the other member's change after %s", took, other)
			w.converges(10 * time.Second)
			w.judge()
		})
	}
}
