// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// TestFrozenIngressWatch: a proxy that speaks HTTP/1.1 holds the streams of the ingress
// cluster back and answers everything else. Within 25 s what somebody did there is put
// right nevertheless, and what members change meanwhile is written at once.
func TestFrozenIngressWatch(t *testing.T) {
	w := newWorld(t, "icy")
	proxy, err := StartHTTP1Proxy(w.ingress.Cluster, w.seed)
	w.must(err)
	t.Cleanup(proxy.Close)
	text, err := proxy.Kubeconfig(w.ingress.Product)
	w.must(err)
	w.reach(w.ingress, text)
	w.service("web", 2, w.a, w.b)
	w.service("other", 2, w.a)
	w.start()
	w.converges(10 * time.Second)
	w.laws.Bound = w.within(30 * time.Second)
	proxy.Freeze()
	w.editEndpoints("web", func(e *corev1.Endpoints) { e.Subsets = nil })
	w.pods(w.b, "other", 100, 1)
	w.must(w.b.Create(t.Context(), fleet.NewService(w.ns, "other")))
	live := w.eventually(2*time.Second, w.counts("other", 3))
	took := w.eventually(25*time.Second, w.counts("web", 4))
	t.Logf("an edit behind frozen streams was put right after %s; a member's change was written after %s", took, live)
	w.converges(10 * time.Second)
	w.judge()
}

// TestLeaderCutOff holds everything back between the leader and the ingress cluster, both
// ways: the standby takes over, and the former leader writes nothing when the network is
// back, whatever was on its way.
func TestLeaderCutOff(t *testing.T) {
	w := newWorld(t, "cutoff")
	ctx := t.Context()
	a, b := NewChurn(w.a, w.ns, 4, 20, w.seed), NewChurn(w.b, w.ns, 4, 20, w.seed+1)
	w.must(a.Fill(ctx))
	w.must(b.Fill(ctx))
	relay, err := StartRelay(w.ingress.Cluster)
	w.must(err)
	t.Cleanup(relay.Close)
	text, err := relay.Kubeconfig(w.ingress.Product)
	w.must(err)
	direct := w.config.ingress
	w.reach(w.ingress, text)
	w.start()
	first := w.proc
	w.state(first, "leading", 5*time.Second)
	w.config.ingress = direct
	second := w.standby()
	w.state(second, "standby", 5*time.Second)
	stop := w.churn(5*time.Millisecond, a, b)
	w.pause(500 * time.Millisecond)
	w.down = w.rec.Begin(history.ProductDown, "")
	relay.Hold(Up, Down)
	cut := time.Now()
	w.state(second, "leading", 15*time.Second)
	took := time.Since(cut)
	w.down.End()
	w.state(first, "standby", 5*time.Second) // it knows without being told
	relay.Heal()
	w.pause(2 * time.Second)
	w.state(second, "leading", time.Second)
	w.state(first, "standby", time.Second)
	stop()
	w.proc = second
	t.Logf("took over %s after the cut; converged after %s", took, w.converges(5*time.Second))
	w.judge()
}

// TestSwitchedContext: somebody switches the current-context of the watched kubeconfig to
// another cluster. It is refused, told, and nothing is written there; the ingress cluster
// is served on. Nor does a start with another identity than ingress.identity says.
func TestSwitchedContext(t *testing.T) {
	w := newWorld(t, "switched")
	ctx := t.Context()
	both, err := clientcmd.LoadFromFile(w.ingress.Kubeconfig)
	w.must(err)
	theirs, err := clientcmd.LoadFromFile(w.b.Kubeconfig)
	w.must(err)
	const other = "other"
	both.Clusters[other], both.AuthInfos[other] = theirs.Clusters[theirs.Contexts[theirs.CurrentContext].Cluster], theirs.AuthInfos[theirs.Contexts[theirs.CurrentContext].AuthInfo]
	both.Contexts[other] = both.Contexts[both.CurrentContext].DeepCopy()
	both.Contexts[other].Cluster, both.Contexts[other].AuthInfo = other, other
	text, err := clientcmd.Write(*both)
	w.must(err)
	w.reach(w.ingress, text)
	w.must(w.b.Grant(ctx, fleet.ProductUser, append(fleet.MemberRules(), fleet.IngressRules()...)...)) // it could write there; giveBack takes it away
	w.service("web", 2, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	own := both.CurrentContext
	both.CurrentContext = other
	text, err = clientcmd.Write(*both)
	w.must(err)
	w.must(replace(w.config.ingress, text))
	told := w.eventually(20*time.Second, w.ingressRefused)
	w.pods(w.a, "web", 100, 1)
	w.converges(5 * time.Second)

	// Pinned, and started so.
	uid, err := w.ingress.Client.CoreV1().Namespaces().Get(ctx, "kube-system", getNow)
	w.must(err)
	w.config.identity = string(uid.UID)
	w.must(w.config.write())
	w.kill()
	w.must(w.proc.Start(ctx))
	w.eventually(20*time.Second, w.ingressRefused)
	both.CurrentContext = own
	text, err = clientcmd.Write(*both)
	w.must(err)
	w.must(replace(w.config.ingress, text))
	w.ready()
	w.pods(w.a, "web", 200, 1)
	back := w.converges(10 * time.Second)
	t.Logf("refused %s after the edit; converged %s after it was undone", told, back)
	w.judge()
}

// ingressRefused returns nil when the status tells that another cluster answers.
func (w *world) ingressRefused(ctx context.Context) error {
	s, err := w.status(ctx)
	if err == nil && !strings.Contains(s.Config.Error+s.Ingress.LastError+s.Ingress.State, "other cluster") {
		err = fmt.Errorf("nothing is told: %q, %q", s.Config.Error, s.Ingress.LastError)
	}
	return err
}

// TestEndsInTime: told to end while the ingress cluster hangs, the process has ended within ten seconds.
func TestEndsInTime(t *testing.T) {
	w := newWorld(t, "ends")
	w.service("web", 2, w.a)
	w.start()
	w.converges(10 * time.Second)
	w.state(w.proc, "leading", 5*time.Second)
	w.must(w.ingress.APIServer().Freeze())
	for i := range 20 {
		w.must(w.a.Create(t.Context(), fleet.NewService(w.ns, fmt.Sprintf("more-%d", i))))
	}
	w.pause(500 * time.Millisecond)
	ending, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	if err := w.proc.Stop(ending); err != nil {
		t.Errorf("it had not ended after %s: %v", time.Since(began), err)
	}
	t.Logf("ended after %s", time.Since(began))
	w.must(w.ingress.APIServer().Thaw())
}
