// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import "testing"

// TestPodEffect is upstream's pod-changed filter with our additions (D1).
func TestPodEffect(t *testing.T) {
	rules := Rules{Applies: 7, Then: []Then{ThenReady, ThenNotReady, ThenAbsent, ThenAbsent}}
	with := func(options ...podOption) *Pod { return newPod("a", "10.0.0.1", options...) }
	for _, c := range []struct {
		name    string
		old, is *Pod
		want    Effect
	}{
		{"nothing before or after", nil, nil, None},
		{"appears ready", nil, with(), Addition},
		{"appears not ready", nil, with(notReady), Addition},
		{"appears without address", nil, with(withIPs()), None},
		{"appears finished", nil, with(terminal), None},
		{"gets its first address", with(withIPs()), with(), Addition},
		{"is deleted", with(), nil, Removal},
		{"is deleted while not ready", with(notReady), nil, Removal},
		{"is deleted when finished", with(terminal), nil, None},
		{"no change", with(), with(), None},
		{"annotations or resourceVersion only", with(), with(), None},
		{"labels, both selected", with(), with(func(p *Pod) { p.Labels = "v=2" }), None},
		{"becomes ready", with(notReady), with(), Addition},
		{"becomes not ready", with(), with(notReady), Removal},
		{"deletion begins", with(), with(terminating), Removal},
		{"deletion begins while not ready", with(notReady), with(terminating, notReady), Removal},
		{"becomes not ready while terminating", with(terminating), with(terminating, notReady), Removal},
		{"fails without ever being ready (D1)", with(notReady), with(notReady, terminal), Removal},
		{"fails while ready", with(), with(terminal), Removal},
		{"was recreated within a relist", with(), with(withUID("uid-2")), Removal},
		{"address modified", with(), with(withIPs("10.0.0.2")), Removal},
		{"secondary address added", with(), with(withIPs("10.0.0.1", "fd00::1")), Removal},
		{"secondary address removed", with(withIPs("10.0.0.1", "fd00::1")), with(), Removal},
		{"address spelt otherwise", with(), with(func(p *Pod) { p.IPs = []PodIP{{Addr: addr("10.0.0.1"), Raw: "010.0.0.1"}} }), None},
		{"node assigned", with(onNode("")), with(), Addition},
		{"container ports modified", with(), with(withPorts(ContainerPort{"http", TCP, 1})), Removal},
		{"lastTransitionTime only", with(), with(func(p *Pod) { p.ReadySince = 7 }), None},
		{"node silent", with(), with(notReady, func(p *Pod) { p.NodeSilent = true }), Removal},
		{"silent pod found unready by its kubelet", with(notReady, func(p *Pod) { p.NodeSilent = true }), with(notReady), Removal},
		{"silent pod recovers", with(notReady, func(p *Pod) { p.NodeSilent = true }), with(), Addition},
		{"zone known", with(), with(inZone("a")), Addition},
		{"comes back", with(notReady), with(wasReady), Addition},
		{"comes back again", with(wasReady), with(wasReady, since(7)), Addition},
		{"silent anew", with(silent), with(silent, since(7)), Addition},
		{"matched by a rule that says ready", with(notReady), with(notReady, matching(1)), Addition},
		{"matched by it no longer", with(notReady, matching(1)), with(notReady), Removal},
		{"matched by a rule that says not ready", with(), with(matching(2)), Removal},
		{"matched by a rule that says absent", with(), with(matching(4)), Removal},
		{"matched by it no longer, absent before", with(matching(4)), with(), Addition},
		{"matched by a rule that does not apply", with(), with(matching(8)), None},
	} {
		if got := PodEffect(c.old, c.is, rules); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
