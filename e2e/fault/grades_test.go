// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// These tests are about doubt: it turns flags where somebody else serves, takes no address
// away, and leaves no replica without a ready endpoint. The history is judged for that at
// every moment; see history.Doubt.

// doubted is a world with three Services: shared is of both members, only is of idc-a.
type doubted struct {
	*world
	a, b, alone []*corev1.Pod
}

// newDoubted runs tributary over it, with what may be used of idc-a doubted from now on.
func newDoubted(t *testing.T, name string, configure func(*world)) *doubted {
	t.Helper()
	w := newWorld(t, name)
	d := &doubted{world: w}
	d.a, d.b = w.service("shared", 3, w.a), w.service("shared", 2, w.b)
	d.alone = w.service("only", 2, w.a)
	if configure != nil {
		configure(w)
	}
	w.record()
	w.doubt(w.a)
	w.start()
	return d
}

// flags are the addresses of a replica by its slices: true where ready.
func (w *world) flags(ctx context.Context, service string) (map[string]bool, error) {
	list, err := w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			for _, ip := range e.Addresses {
				out[ip] = e.Conditions.Ready != nil && *e.Conditions.Ready && e.Conditions.Serving != nil && *e.Conditions.Serving
			}
		}
	}
	return out, nil
}

// serve waits until of a replica's pods, all of which are in its slices, exactly these serve, by
// both kinds.
func (w *world) serve(service string, limit time.Duration, serving, others []*corev1.Pod) time.Duration {
	w.Helper()
	want := map[string]bool{}
	var ready []string
	for _, p := range others {
		want[p.Status.PodIP] = false
	}
	for _, p := range serving {
		want[p.Status.PodIP] = true
		ready = append(ready, p.Status.PodIP)
	}
	slices.Sort(ready)
	return w.eventually(limit, func(ctx context.Context) error {
		got, err := w.flags(ctx, service)
		if err != nil {
			return err
		}
		inEndpoints, _, err := w.readyAddresses(ctx, service)
		if err == nil && (!maps.Equal(got, want) || !slices.Equal(inEndpoints, ready)) {
			err = fmt.Errorf("%s has %v in slices and %q in Endpoints, want %v", service, got, inEndpoints, want)
		}
		return err
	})
}

// configure changes the configuration of a member.
func (w *world) configure(s *fleet.Site, change func(*memberConfig)) {
	w.Helper()
	change(w.config.set(s.Name(), w.config.kubeconfig(s.Name())))
	w.must(w.config.write())
}

// TestDrain takes a member off wherever another serves, over a restart, and the other too:
// then all serve.
func TestDrain(t *testing.T) {
	d := newDoubted(t, "drain", nil)
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	d.configure(d.world.a, func(m *memberConfig) { m.Drain = true })
	d.serve("shared", 10*time.Second, d.b, d.a)
	d.serve("only", time.Second, d.alone, nil)
	d.reports(d.world.a.Name(), 5*time.Second, "drained", func(c clusterStatus) bool { return c.has("Drained") })
	d.unchanged()

	// The last that serves for sure goes: the reserve serves.
	doubt := d.doubt(d.world.b)
	for _, p := range d.b {
		d.must(d.world.b.MarkNotReady(t.Context(), d.ns, p.Name))
	}
	d.serve("shared", 3*time.Second, d.a, d.b)
	for _, p := range d.b {
		d.must(d.world.b.MarkReady(t.Context(), d.ns, p.Name))
	}
	d.serve("shared", 3*time.Second, d.b, d.a)
	d.configure(d.world.b, func(m *memberConfig) { m.Drain = true })
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	d.configure(d.world.a, func(m *memberConfig) { m.Drain = false })
	d.serve("shared", 10*time.Second, d.a, d.b)
	d.configure(d.world.b, func(m *memberConfig) { m.Drain = false })
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	doubt.End()
	d.judge()
}

// TestFailover lets the members serve in an order: the first while it can, then the other; and
// a restart changes nothing.
func TestFailover(t *testing.T) {
	d := newDoubted(t, "failover", func(w *world) {
		w.config.replicas = map[string]any{"failover": []map[string]any{{"namespaces": []string{w.ns}, "order": []string{w.b.Name(), w.a.Name()}}}}
	})
	d.doubt(d.world.b)
	d.serve("shared", 10*time.Second, d.b, d.a)
	d.serve("only", time.Second, d.alone, nil)
	for _, p := range d.b {
		d.must(d.world.b.MarkNotReady(t.Context(), d.ns, p.Name))
	}
	over := d.serve("shared", 3*time.Second, d.a, d.b)
	d.unchanged()
	d.must(d.world.b.MarkReady(t.Context(), d.ns, d.b[0].Name))
	back := d.serve("shared", 3*time.Second, d.b[:1], slices.Concat(d.a, d.b[1:]))
	t.Logf("the second served after %s, the first again after %s", over, back)
	d.judge()
}

// TestStaleAfter: a member that is out of sight for long gives way to others, keeps what only
// it has, and serves again when it is back.
func TestStaleAfter(t *testing.T) {
	var proxy *Proxy
	d := newDoubted(t, "stale", func(w *world) {
		proxy = w.proxyTo(w.a)
		w.config.members[0].StaleAfter = "3s"
	})
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	proxy.Set(&Fault{CutBefore: true})
	proxy.EndWatches()
	stale := d.serve("shared", 20*time.Second, d.b, d.a)
	d.serve("only", time.Second, d.alone, nil)
	d.reports(d.world.a.Name(), 5*time.Second, "stale", func(c clusterStatus) bool { return c.has("Stale") })
	proxy.Set()
	back := d.serve("shared", 20*time.Second, slices.Concat(d.a, d.b), nil)
	t.Logf("a reserve after %s, back %s after it was seen again", stale, back)
	d.judge()
}

// TestR24RemovedFromConfiguration takes a member out of the configuration. What it gave stays
// as a reserve, over a restart and whatever happens in the member. Put back, it is followed again.
func TestR24RemovedFromConfiguration(t *testing.T) {
	d := newDoubted(t, "r24", nil)
	blind := d.blind(d.world.a)
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	members := slices.Clone(d.config.members)
	d.config.drop(d.world.a.Name())
	d.must(d.config.write())
	d.follows(d.world.b.Name())
	d.serve("shared", 5*time.Second, d.b, d.a)
	d.must(d.world.a.Remove(t.Context(), d.ns, d.a[0].Name))
	d.unchanged()
	d.serve("shared", time.Second, d.b, d.a)
	d.serve("only", time.Second, d.alone, nil)
	for _, p := range d.b { // nobody else serves
		d.must(d.world.b.MarkNotReady(t.Context(), d.ns, p.Name))
	}
	d.serve("shared", 3*time.Second, d.a, d.b)
	for _, p := range d.b {
		d.must(d.world.b.MarkReady(t.Context(), d.ns, p.Name))
	}

	d.config.members = members
	d.must(d.config.write())
	took := d.serve("shared", 10*time.Second, slices.Concat(d.a[1:], d.b), nil)
	blind.End()
	t.Logf("as it was %s after it was put back", took)
	d.judge()
}

// TestR11SilentNodes: all pods of a member turn not ready as the node controller marks them.
// They serve on for holdSilentNodes, and after that where nobody else does; what a kubelet
// says counts at once.
func TestR11SilentNodes(t *testing.T) {
	const hold = 6 * time.Second
	d := newDoubted(t, "r11", func(w *world) { w.config.members[0].HoldSilentNodes = hold.String() })
	all := slices.Concat(d.a, d.b)
	d.serve("shared", 10*time.Second, all, nil)
	silent := time.Now()
	// Those of only fall silent first: once the last of shared are reserves, so are these, and
	// no hold ends after the restart below.
	for _, p := range slices.Concat(d.alone, d.a) {
		d.must(d.world.a.MarkSilent(t.Context(), d.ns, p.Name))
	}
	last := time.Now()
	d.serve("shared", hold+5*time.Second, d.b, d.a)
	if took := time.Since(silent); took < hold-time.Second { // times of conditions are whole seconds
		t.Errorf("reserves %s after the first fell silent, want %s", took, hold)
	}
	t.Logf("reserves %s after the last fell silent", time.Since(last))
	d.serve("only", 2*time.Second, d.alone, nil)
	d.must(d.world.a.MarkNotReady(t.Context(), d.ns, d.alone[0].Name))
	d.serve("only", 2*time.Second, d.alone[1:], d.alone[:1])
	d.unchanged()
	for _, p := range slices.Concat(d.a, d.alone) {
		d.must(d.world.a.MarkReady(t.Context(), d.ns, p.Name))
	}
	d.serve("shared", 3*time.Second, all, nil)
	d.serve("only", 3*time.Second, d.alone, nil)
	d.judge()
}

// TestStableFor: a pod that flaps is a reserve until it has been ready for a while; new pods
// serve at once.
func TestStableFor(t *testing.T) {
	const stable = 6 * time.Second
	d := newDoubted(t, "stable", func(w *world) { w.config.members[0].StableFor = stable.String() })
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	flapping := d.a[0]
	d.must(d.world.a.MarkNotReady(t.Context(), d.ns, flapping.Name))
	rest := slices.Concat(d.a[1:], d.b)
	d.serve("shared", 3*time.Second, rest, d.a[:1])
	d.must(d.world.a.MarkReady(t.Context(), d.ns, flapping.Name))
	ready := time.Now()
	fresh := d.pods(d.world.a, "shared", 100, 1)
	d.serve("shared", 3*time.Second, slices.Concat(rest, fresh), d.a[:1])
	d.serve("shared", stable+3*time.Second, slices.Concat(d.a, d.b, fresh), nil)
	if took := time.Since(ready); took < stable-time.Second { // times of conditions are whole seconds
		t.Errorf("it served again after %s, want %s", took, stable)
	}
	// One that is the last that could serve does.
	for _, p := range d.alone {
		d.must(d.world.a.MarkNotReady(t.Context(), d.ns, p.Name))
	}
	d.must(d.world.a.MarkReady(t.Context(), d.ns, d.alone[0].Name))
	d.serve("only", 3*time.Second, d.alone[:1], d.alone[1:])
	d.judge()
}

// TestRuleThatMatchesAll: a rule says NotReady of every pod of a member. Others serve; where
// there is no other the Service is not emptied.
func TestRuleThatMatchesAll(t *testing.T) {
	d := newDoubted(t, "rule", nil)
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	d.config.rules = []map[string]any{{"name": "all", "clusters": []string{d.world.a.Name()}, "when": "true", "then": "NotReady"}}
	d.must(d.config.write())
	d.serve("shared", 10*time.Second, d.b, d.a)
	d.serve("only", time.Second, d.alone, nil)
	d.unchanged()
	d.config.rules = nil
	d.must(d.config.write())
	d.serve("shared", 10*time.Second, slices.Concat(d.a, d.b), nil)
	d.judge()
}
