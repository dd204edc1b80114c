// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/history"
)

// TestSoak mixes faults at random under churn, for as long as -soak says. After
// each fault everything must converge; after each chapter of ten the whole
// history is judged, and what tributary holds must not have grown.
func TestSoak(t *testing.T) {
	w := newWorld(t, "soak")
	ctx := t.Context()
	s := newSoak(w)
	w.must(s.churn[0].Fill(ctx))
	w.must(s.churn[1].Fill(ctx))
	w.start()
	w.converges(10 * time.Second)
	began := time.Now()
	var first resources
	for chapter := 1; ; chapter++ {
		rounds := 10
		if *soakFlag == 0 {
			rounds = 3
		}
		for range rounds {
			s.round()
		}
		w.unchanged()
		now := w.resources()
		t.Logf("chapter %d, %s: %+v", chapter, time.Since(began).Round(time.Second), now)
		if chapter == 1 {
			first = now
		}
		now.notMoreThan(t, first)
		w.judge()
		if t.Failed() || time.Since(began) >= *soakFlag {
			return
		}
		w.record()
		w.down.End()
	}
}

// soak is what the faults of a soak have in hand: a member and the ingress
// cluster behind a proxy each, the other member behind a relay.
type soak struct {
	*world
	a, ingress *Proxy
	b          *Relay
	churn      []*Churn
	faults     []soakFault
	number     int
}

// soakFault is one fault: it breaks something, waits, and mends it.
type soakFault struct {
	name string
	run  func(wait func())
}

func newSoak(w *world) *soak {
	s := &soak{world: w, a: w.proxyTo(w.a), ingress: w.proxyTo(w.ingress), b: w.relayTo(w.b)}
	s.churn = []*Churn{NewChurn(w.a, w.ns, 8, 60, w.seed), NewChurn(w.b, w.ns, 8, 60, w.seed+1)}
	s.faults = append(s.processes(), append(s.networks(), s.answers()...)...)
	return s
}

// round churns, lets one fault happen, and waits until all is well again.
func (s *soak) round() {
	s.Helper()
	stop := s.world.churn(30*time.Millisecond, s.churn...)
	s.pause(500 * time.Millisecond)
	f := s.faults[s.dice.IntN(len(s.faults))]
	s.number++
	length := time.Duration(s.dice.Int64N(int64(5 * time.Second)))
	f.run(func() { s.pause(length) })
	s.pause(500 * time.Millisecond)
	stop()
	took := s.caughtUp()
	s.Logf("fault %d, %s for %s: converged after %s", s.number, f.name, length.Round(time.Millisecond), took.Round(time.Millisecond))
}

// caughtUp waits until all that the members have shown is published. The last objects of each stream tell: a stream that was
// refused may come later than the others, and what differs then may be an object without endpoints.
func (s *soak) caughtUp() time.Duration {
	s.Helper()
	const last = "last"
	s.service(last, 1, s.members...)
	took := s.converges(30 * time.Second)
	for _, m := range s.members {
		s.must(m.Client.CoreV1().Services(s.ns).Delete(s.Context(), last, metav1.DeleteOptions{}))
		s.must(m.Remove(s.Context(), s.ns, last+"-0"))
	}
	s.converges(10 * time.Second)
	return took
}

// processes are faults of processes.
func (s *soak) processes() []soakFault {
	return []soakFault{
		{"tributary killed", func(wait func()) {
			s.kill()
			wait()
			s.restart()
		}},
		{"tributary killed again and again", func(wait func()) {
			for range 4 {
				s.kill()
				s.must(s.proc.Start(s.Context()))
				s.pause(time.Duration(s.dice.Int64N(int64(400 * time.Millisecond))))
			}
			wait()
			s.ready()
		}},
		{"member crashed", func(wait func()) {
			defer s.blind(s.world.a).End()
			s.world.a.APIServer().Kill()
			wait()
			s.must(s.world.a.APIServer().Start(s.Context()))
		}},
		{"member compacted and crashed", func(wait func()) {
			defer s.blind(s.world.a).End()
			s.must(s.world.a.Compact(s.Context()))
			s.crash(s.world.a)
			wait()
		}},
		{"member frozen", func(wait func()) {
			defer s.blind(s.world.b).End()
			s.must(s.world.b.APIServer().Freeze())
			wait()
			s.must(s.world.b.APIServer().Thaw())
		}},
		{"ingress crashed", func(wait func()) {
			defer s.rec.Begin(history.IngressDown, "").End()
			s.world.ingress.APIServer().Kill()
			wait()
			s.must(s.world.ingress.APIServer().Start(s.Context()))
		}},
		{"ingress frozen", func(wait func()) {
			defer s.rec.Begin(history.IngressDown, "").End()
			s.must(s.world.ingress.APIServer().Freeze())
			wait()
			s.must(s.world.ingress.APIServer().Thaw())
		}},
	}
}

// networks are faults between processes.
func (s *soak) networks() []soakFault {
	return []soakFault{
		{"answers of a member lost", func(wait func()) {
			defer s.blind(s.world.b).End()
			s.b.Hold(Down)
			wait()
			s.b.Heal()
		}},
		{"connections to a member forgotten", func(wait func()) {
			blind := s.blind(s.world.b)
			s.b.Lose()
			wait()
			s.converges(20 * time.Second) // found out without anybody's help
			blind.End()
		}},
		{"connections to a member cut", func(wait func()) {
			defer s.blind(s.world.b).End()
			s.b.Cut()
			wait()
			s.b.Cut()
		}},
		{"member taken out and put back", func(wait func()) {
			defer s.doubt(s.world.b).End()
			members := append([]memberConfig{}, s.config.members...)
			s.config.drop(s.world.b.Name())
			s.must(s.config.write())
			s.follows(s.world.a.Name())
			wait()
			s.config.members = members
			s.must(s.config.write())
			s.follows(s.world.a.Name(), s.world.b.Name())
		}},
		{"member reached in another way", func(wait func()) {
			relayed, err := s.b.Kubeconfig(s.world.b.Product)
			s.must(err)
			direct, err := s.world.b.Cluster.Kubeconfig(s.world.b.Product)
			s.must(err)
			path := filepath.Join(s.dir, s.world.b.Name()+".kubeconfig")
			s.must(replace(path, direct))
			wait()
			s.must(replace(path, relayed))
		}},
	}
}

// answers are faults in what servers say.
func (s *soak) answers() []soakFault {
	member := func(name string, faults ...*Fault) soakFault {
		return soakFault{name, func(wait func()) {
			defer s.blind(s.world.a).End()
			s.a.Set(faults...)
			s.a.EndWatches()
			wait()
			s.a.Set()
			s.a.EndWatches()
		}}
	}
	return []soakFault{
		member("watches ended each 300 ms", &Fault{Match: Watches(), Life: 300 * time.Millisecond}),
		member("watches never resumed", &Fault{Match: Resumes(), Status: 410}),
		member("watches repeating", &Fault{Match: Watches(), Echo: true}),
		member("member refuses", &Fault{Status: 403}),
		member("member does not know the token", &Fault{Status: 401}),
		member("member overloaded", &Fault{Share: 0.7, Status: 429, RetryAfter: 1}),
		member("member fails", &Fault{Share: 0.7, Status: 500}),
		member("member lists no pods", &Fault{Match: Lists("pods"), Hide: s.ofThis(all)}, &Fault{Match: Resumes("pods"), Status: 410, Times: 1}),
		{"writes fail", func(wait func()) {
			defer s.rec.Begin(history.IngressDown, "").End()
			s.ingress.Set(
				&Fault{Match: Writes(), Share: 0.2, Status: 500}, &Fault{Match: Writes(), Share: 0.2, CutAfter: true},
				&Fault{Match: Writes(), Share: 0.2, Status: 429, RetryAfter: 1}, &Fault{Match: Writes(), Times: 2, Hang: true})
			wait()
			s.ingress.Set()
			s.converges(30 * time.Second)
		}},
		{"a replica deleted by hand", func(wait func()) {
			list, err := s.world.ingress.Client.CoreV1().Endpoints(s.ns).List(s.Context(), everything)
			s.must(err)
			if len(list.Items) > 0 {
				s.deleteByHand(history.Endpoints, list.Items[s.dice.IntN(len(list.Items))].Name)
			}
			wait()
		}},
	}
}

// resources are what a process holds.
type resources struct{ Goroutines, Files, MB int }

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

func (w *world) resources() (r resources) {
	w.Helper()
	body, err := w.proc.Get(w.Context(), "/metrics")
	w.must(err)
	match := goroutines.FindSubmatch(body)
	if match == nil {
		w.Fatal("no go_goroutines among the metrics")
	}
	r.Goroutines, err = strconv.Atoi(string(match[1]))
	w.must(err)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.proc.PID()))
	w.must(err)
	r.Files = len(files)
	r.MB = w.memory("VmRSS") >> 20
	return r
}

// notMoreThan compares with what was held before, allowing a little for what is
// under way at one moment and not at another.
func (r resources) notMoreThan(t *testing.T, first resources) {
	t.Helper()
	if r.Goroutines > first.Goroutines*21/20+10 || r.Files > first.Files*21/20+5 || r.MB > first.MB*5/4+20 {
		t.Errorf("tributary holds %+v, after the first chapter %+v", r, first)
	}
}
