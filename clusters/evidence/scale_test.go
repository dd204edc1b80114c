// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// fleet is a member with Services of as many pods each, and who asks what it is to be asked.
type fleet struct {
	*State
	now           time.Time
	services, per int
	reads         []Read
	longest       time.Duration // of all steps
}

func newFleet(services, per int) *fleet {
	f := &fleet{now: start, services: services, per: per}
	f.State = New(f.now, Config{
		Limits:    Limits{Lists: true, MinEndpoints: 10, Percent: 15, ConfirmPercent: 50, ConfirmAfter: 3 * time.Second, PanicPercent: 55},
		Placement: func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true },
	}, 1)
	return f
}

func (f *fleet) step(e Event) {
	for e != nil {
		at := time.Now()
		out := f.Step(f.now, e)
		f.longest = max(f.longest, time.Since(at))
		f.reads = append(f.reads, out.Read...)
		e = out.Next
	}
}

// answer answers all reads, also those that come of it, that the objects are gone.
func (f *fleet) answer() (n int) {
	for ; len(f.reads) > 0; n++ {
		r := f.reads[0]
		f.reads = f.reads[1:]
		f.step(Answer{Read: r, Outcome: NotFound})
	}
	return n
}

func fleetService(i int) syncer.Key {
	return syncer.Key{Namespace: []string{"shop", "bank"}[i%2], Name: fmt.Sprint("s", i)}
}

func fleetPod(service, i int) store.Versioned[syncer.Pod] {
	name := fmt.Sprintf("s%d-%d", service, i)
	return store.Versioned[syncer.Pod]{RV: 5, Object: syncer.Pod{Key: syncer.Key{Namespace: fleetService(service).Namespace, Name: name}, UID: name, Ready: true,
		Labels: map[string]string{"app": fleetService(service).Name}, IPs: []syncer.PodIP{{Addr: netip.AddrFrom4([4]byte{10, byte(service >> 8), byte(service), byte(i)})}}}}
}

// begin starts with what stands, if any, and lists all but what is left out.
func (f *fleet) begin(stands bool, without func(service, pod int) bool, lacks func(service int) bool) {
	standing := map[syncer.Key]Standing{}
	services := Listed[syncer.Service]{Revision: 10}
	for i := range f.services {
		key := fleetService(i)
		all := Standing{Sources: []syncer.Key{key}}
		for j := range f.per {
			p := fleetPod(i, j).Object
			all.Endpoints = append(all.Endpoints, syncer.Endpoint{Addr: p.IPs[0].Addr, Ready: true, Serving: true, Target: syncer.TargetRef{Kind: "Pod", Key: p.Key, UID: p.UID}})
		}
		standing[key] = all
		if !lacks(i) {
			services.Items = append(services.Items, store.Versioned[syncer.Service]{RV: 5, Object: syncer.Service{Key: key, UID: key.Name,
				Selector: map[string]string{"app": key.Name}, Ports: []syncer.ServicePort{{Name: "http", Port: 80}}}})
		}
	}
	if stands {
		f.step(Baseline{Replicas: standing})
	}
	f.step(Connected{})
	f.step(Listed[store.Node]{Revision: 9})
	f.step(services)
	f.list(11, without)
}

func (f *fleet) list(revision uint64, without func(service, pod int) bool) {
	pods := Listed[syncer.Pod]{Revision: revision}
	for i := range f.services {
		for j := range f.per {
			if !without(i, j) {
				pods.Items = append(pods.Items, fleetPod(i, j))
			}
		}
	}
	f.step(pods)
}

func (f *fleet) ready() (n int) {
	for _, replica := range f.store.Replicas() {
		n += f.store.ReadyEndpoints(replica)
	}
	return n
}

func whole(int, int) bool { return false }
func all(int, int) bool   { return true }
func noService(int) bool  { return false }

// TestASampleThatNobodyAnswered stands for nothing: what became of it was seen before the
// answers came.
func TestASampleThatNobodyAnswered(t *testing.T) {
	for name, seen := range map[string]func(store.Versioned[syncer.Pod]) Event{
		"shown":   func(v store.Versioned[syncer.Pod]) Event { return &Seen[syncer.Pod]{Versioned: v} },
		"deleted": func(v store.Versioned[syncer.Pod]) Event { return &Gone[syncer.Pod]{v} },
	} {
		f := newFleet(5, 200)
		f.begin(false, whole, noService)
		f.list(20, all)
		sample := f.reads
		f.reads = nil
		for i, r := range sample {
			v := store.Versioned[syncer.Pod]{RV: 21 + uint64(i), Object: *f.store.Pod(r.Key)}
			f.step(seen(v))
		}
		f.step(Tick{})
		if left := f.store.Stats().HeldPods; len(sample) != usualSample || left != 1000-usualSample {
			t.Errorf("%s: of 1,000 pods %d were asked for, and of the others %d are kept", name, len(sample), left)
		}
		if len(f.reads) != usualSample {
			t.Errorf("%s: %d others are asked for", name, len(f.reads))
		}
	}
}

// TestASampleThatIsRefusedInOneNamespace: the other waits for nothing.
func TestASampleThatIsRefusedInOneNamespace(t *testing.T) {
	f := newFleet(10, 100)
	f.begin(false, whole, noService)
	f.list(20, all)
	for _, r := range f.reads {
		outcome := NotFound
		if r.Key.Namespace == "bank" {
			outcome = Refused
		}
		f.step(Answer{Read: r, Outcome: outcome})
	}
	if held, n := f.Holds(), f.ready(); len(held) != 5 || n < 400 || n > 500 {
		t.Errorf("%d replicas are held, %d endpoints are left", len(held), n)
	}
}

// TestManyQuestions take long, one after the other: none is lost because others are asked
// before it.
func TestManyQuestions(t *testing.T) {
	f := newFleet(2, 100)
	f.begin(false, whole, noService)
	f.list(20, all)
	sample := f.reads
	f.reads = nil
	for _, r := range sample {
		f.now = f.now.Add(time.Second)
		f.step(Tick{})
		f.step(Answer{Read: r, Outcome: NotFound})
	}
	if n := f.ready(); n != 0 || len(f.reads) != 0 {
		t.Errorf("%d endpoints are left, %d were asked for again", n, len(f.reads))
	}
}

// TestAPlacementThatChangesWithinAList: what is lost at its source is lost, wherever it
// goes. Between any two pieces of a list that lacks a Service, all are moved; and so once it
// is kept.
func TestAPlacementThatChangesWithinAList(t *testing.T) {
	moved := syncer.Key{Namespace: "moved", Name: "s0"}
	for at := 0; ; at++ {
		f := newFleet(10, 200)
		f.begin(false, whole, noService)
		c := f.cfg
		c.Placement = func(svc *syncer.Service) (syncer.Key, bool) {
			return syncer.Key{Namespace: "moved", Name: svc.Name}, true
		}
		pods := Listed[syncer.Pod]{Revision: 20}
		for i := range f.services * f.per {
			if i >= f.per {
				pods.Items = append(pods.Items, fleetPod(i/f.per, i%f.per))
			}
		}
		next, n := Event(pods), 0
		for ; next != nil; n++ {
			out := f.Step(f.now, next)
			f.reads = append(f.reads, out.Read...)
			if next = out.Next; n == at {
				f.step(Configured{c})
			}
		}
		holds := f.Holds()
		if len(f.reads) == 0 || f.store.ReadyEndpoints(moved) != f.per || len(holds) != 1 || holds[0].Replica != moved {
			t.Fatalf("edit after piece %d of %d: %d are asked for, %d ready endpoints, held: %v", at, n, len(f.reads), f.store.ReadyEndpoints(moved), holds)
		}
		f.step(Release{&moved})
		if f.store.ReadyEndpoints(moved) != 0 {
			t.Errorf("edit after piece %d: a release of the replica lets nothing go", at)
		}
		if at >= n-1 {
			return
		}
	}
}

// TestAPodThatFlaps is remembered once, or nearly.
func TestAPodThatFlaps(t *testing.T) {
	f := newFleet(2, 10)
	f.begin(false, whole, noService)
	v := fleetPod(0, 0)
	for range 10_000 {
		v.RV++
		v.Object.Ready = !v.Object.Ready
		f.step(&Seen[syncer.Pod]{Versioned: v})
	}
	if n := len(f.readiness.recent); n > 100 {
		t.Errorf("10,000 turns of one pod are remembered as %d", n)
	}
}

// TestABadRollOut of a large Service is looked at now and then, not at each of its pods.
func TestABadRollOut(t *testing.T) {
	var r readiness
	looks, now := 0, start.Add(time.Hour)
	for n := range 4000 {
		is := downOne(fmt.Sprint("pod-", n), false)
		was := is
		was.Ready = true
		if r.note(now, Limits{MinEndpoints: 10, PanicPercent: 55}, &was, podVersion{Object: is}, true) {
			r.mass(now, Limits{MinEndpoints: 10, PanicPercent: 55}, func() world {
				looks++
				return world{ready: 100, readyIn: func(syncer.Key) int { return 0 }, serves: func(*downPod) bool { return true },
					replicasOf: func(*syncer.Pod) []syncer.Key { return []syncer.Key{replicaKey("a")} }}
			})
		}
	}
	if looks > 600 {
		t.Errorf("4,000 pods of one Service turned not ready, and were looked at %d times", looks)
	}
}

// BenchmarkGap: a list of 50,000 pods lacks 5,000, all of every tenth Service; those that are
// asked for are gone. It takes no account of the requests.
func BenchmarkGap(b *testing.B) {
	for b.Loop() {
		f := newFleet(5000, 10)
		f.begin(false, whole, noService)
		b.ReportMetric(float64(f.longest.Microseconds())/1000, "start-ms/step")
		f.longest = 0
		at := time.Now()
		f.list(20, func(service, _ int) bool { return service%10 == 0 })
		b.ReportMetric(float64(time.Since(at).Milliseconds()), "list-ms")
		at = time.Now()
		b.ReportMetric(float64(f.answer()), "reads")
		b.ReportMetric(float64(time.Since(at).Milliseconds()), "answers-ms")
		b.ReportMetric(float64(f.longest.Microseconds())/1000, "longest-ms/step")
		if n := f.ready(); n != 45_000 {
			b.Fatal(n, "endpoints are left")
		}
	}
}

// BenchmarkStartWithoutServices: 2,000 of 5,000 Services that stand were deleted while nobody
// ran, with all of their pods.
func BenchmarkStartWithoutServices(b *testing.B) {
	for b.Loop() {
		f := newFleet(5000, 10)
		gone := func(service int) bool { return service < 2000 }
		f.begin(true, func(service, _ int) bool { return gone(service) }, gone)
		at := time.Now()
		b.ReportMetric(float64(f.answer()), "reads")
		b.ReportMetric(float64(time.Since(at).Milliseconds()), "answers-ms")
		if n := len(f.BaselineReplicas()); n != 0 {
			b.Fatal(n, "replicas stand")
		}
	}
}
