// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/clusters/store"
)

// documented are the rules of docs/rules.md, and more.
func documented(tb testing.TB, more ...rules.Rule) *rules.Set {
	tb.Helper()
	program, faults := rules.Compile(append([]rules.Rule{
		{Name: "image-not-yet-running", Then: store.NotReady, When: "!pod.spec.containers.all(c,\n pod.status.containerStatuses.exists(s, s.name == c.name && sameImage(s.image, c.image)))"},
		{Name: "taken-off-by-hand", Then: store.Absent, When: "'ops.example.com/off' in pod.metadata.annotations"},
		{Name: "change-not-yet-seen", Then: store.NotReady, When: "pod.metadata.generation > pod.status.observedGeneration && pod.status.observedGeneration > 0"},
	}, more...))
	if len(faults) > 0 {
		tb.Fatal(faults)
	}
	return program.For("idc-a")
}

// upgradable is a realistic pod whose image is that of its application, as spec and
// status have it.
func upgradable(app, n int) *corev1.Pod {
	p := realisticPod("shop", app, n)
	p.Generation, p.Status.ObservedGeneration = 1, 1
	p.Status.ContainerStatuses = nil
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Image = fmt.Sprintf("registry.example.com/shop/checkout-%d:v%d", app, i)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ContainerID: fmt.Sprintf("containerd://%064d", app*1000+n), Ready: true,
		})
	}
	return p
}

// ruled returns a store with apps applications of ten pods, and rules in force or none.
func ruled(tb testing.TB, set *rules.Set, apps int) (*store.Store, *Decoder) {
	return ruledPods(tb, set, apps, upgradable)
}

func ruledPods(tb testing.TB, set *rules.Set, apps int, pod func(app, n int) *corev1.Pod) (*store.Store, *Decoder) {
	s, d := store.New(store.Options{Placement: everywhere}), NewDecoder(nil)
	since := d.KeepFor(set)
	for app := range apps {
		s.SetService(d.Service(realisticService("shop", app)))
		for n := range 10 {
			s.SetPod(d.Pod(pod(app, n)))
		}
	}
	if set != nil {
		inForce(s, store.NewEdit(set, since))
	}
	return s, d
}

// TestWhatRulesCostInMemory: nothing without rules; with the three of the documentation
// at most 0.3 kB a pod, also where no pod is like another to them.
func TestWhatRulesCostInMemory(t *testing.T) {
	const apps = 400
	unlike := func(app, n int) *corev1.Pod {
		p := upgradable(app, n)
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Image += fmt.Sprint("-", n)
			p.Status.ContainerStatuses[i].Image = p.Spec.Containers[i].Image
		}
		return p
	}
	measure := func(set *rules.Set, pod func(app, n int) *corev1.Pod) float64 {
		before := heap()
		s, d := ruledPods(t, set, apps, pod)
		after := heap()
		runtime.KeepAlive(s)
		runtime.KeepAlive(d)
		return (float64(after) - float64(before)) / (apps * 10)
	}
	set := documented(t)
	measure(set, upgradable) // what is built once
	for name, pod := range map[string]func(app, n int) *corev1.Pod{"alike": upgradable, "unlike": unlike} {
		without, with := measure(nil, pod), measure(set, pod)
		t.Logf("%s: %.0f B a pod without rules, %.0f B with", name, without, with)
		if with-without > 300 {
			t.Errorf("%s: rules cost %.0f B a pod; 300 are allowed", name, with-without)
		}
	}
	d := NewDecoder(nil)
	if p, svc := d.Pod(upgradable(1, 1)), d.Service(realisticService("shop", 1)); p.Kept != (store.Kept{}) || svc.Kept != (store.Kept{}) {
		t.Error("something is kept without rules")
	}
	d.KeepFor(set)
	d.KeepFor(nil, set)
	d.KeepFor(nil)
	if p := d.Pod(upgradable(1, 1)); p.Kept != (store.Kept{}) {
		t.Error("something is kept for rules that are gone")
	}
}

// TestRulesDecideAboutWhatIsDecoded: from an event to what becomes of the pod.
func TestRulesDecideAboutWhatIsDecoded(t *testing.T) {
	s, d := ruled(t, documented(t), 2)
	rules := func() string { return fmt.Sprint(s.RuleCount()) }
	if got := rules(); got != "map[]" {
		t.Fatalf("before anything happens: %s", got)
	}
	rv := 9_000_000
	event := func(change func(*corev1.Pod)) {
		p := upgradable(0, 3)
		rv++
		p.ResourceVersion = fmt.Sprint(rv)
		change(p)
		s.SetPod(d.Pod(p))
	}
	for _, step := range []struct {
		change func(*corev1.Pod)
		want   string
	}{
		{func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Generation = "registry.example.com/shop/checkout-0:next", 2
		}, "map[image-not-yet-running:1]"},
		{func(p *corev1.Pod) { p.Annotations["ops.example.com/off"] = "" }, "map[taken-off-by-hand:1]"},
		{func(p *corev1.Pod) { p.Generation = 2 }, "map[change-not-yet-seen:1]"},
		{func(p *corev1.Pod) {}, "map[]"},
	} {
		event(step.change)
		event(step.change) // a repetition changes nothing
		if got := rules(); got != step.want {
			t.Errorf("%s, want %s", got, step.want)
		}
	}
}

// BenchmarkRuledEvent is an event of a pod from the decoded object on, without rules and
// with the three of the documentation. known is one that changes nothing that rules see:
// then they are not asked. shared is one that another pod has had before, as in an
// application that is upgraded: they are not asked again. new is what nobody has had. A
// busy machine delays, so it is the processor's time that counts. Bar: 15 µs a rule more.
func BenchmarkRuledEvent(b *testing.B) {
	without := 0.0
	for _, test := range []struct {
		name   string
		set    *rules.Set
		images int
	}{{"without", nil, 100}, {"known", documented(b), 1}, {"shared", documented(b), 100}, {"new", documented(b), 20_000}} {
		b.Run(test.name, func(b *testing.B) {
			s, d := ruled(b, test.set, 100)
			p, rv := upgradable(7, 3), 9_000_000
			b.ReportAllocs()
			began := processorTime()
			for b.Loop() {
				rv++
				p.ResourceVersion = fmt.Sprint(rv)
				p.Spec.Containers[0].Image = fmt.Sprintf("shop/checkout:%d", rv%test.images)
				p.Status.ContainerStatuses[0].Image = "docker.io/" + p.Spec.Containers[0].Image
				s.SetPod(d.Pod(p))
			}
			took := float64(processorTime()-began) / float64(b.N)
			if test.set == nil {
				without = took
			}
			b.ReportMetric(took, "cpu-ns/op")
			if without > 0 {
				b.ReportMetric(took/without, "ratio")
				b.ReportMetric((took-without)/3, "cpu-ns/rule")
			}
		})
	}
}

// processorTime is what this process has used, of user and system.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkRuleEdit is an edit of the rules of a member of 50,000 pods in 5,000 Services,
// when all is read that they need, and every pod is another to them: in the pieces in which
// pods are asked about, rules come into force, and what they would take is held. The member's
// lock is held for as long as the longest.
func BenchmarkRuleEdit(b *testing.B) {
	three, off := documented(b), documented(b, rules.Rule{Name: "all-off", When: "pod.metadata.name != ''", Then: store.Absent})
	s, d := ruled(b, three, 5000)
	since := d.KeepFor(off, three)
	for app := range 5000 {
		for n := range 10 {
			s.SetPod(d.Pod(upgradable(app, n)))
		}
	}
	var longest time.Duration
	step := func(piece func() (more bool)) {
		for more := true; more; {
			began := time.Now()
			more = piece()
			longest = max(longest, time.Since(began))
		}
	}
	for b.Loop() {
		e := store.NewEdit(off, since)
		step(func() bool { return s.Prepare(e, 60) })
		step(func() bool { s.Begin(e); return false })
		step(func() bool { _, more := s.Switch(500); return more })
		replicas := s.Replicas()
		step(func() bool {
			for _, replica := range replicas[:50] {
				s.WaitingRules(replica, func(string) bool { return false })
				s.HoldRules(replica, []string{"all-off"})
			}
			replicas = replicas[50:]
			return len(replicas) > 0
		})
		b.StopTimer()
		inForce(s, store.NewEdit(three, since))
		b.StartTimer()
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-step-us")
}

// inForce puts rules in force at once; what they take waits to be judged.
func inForce(s *store.Store, e *store.Edit) {
	s.Begin(e)
	s.Switch(1 << 30)
}
