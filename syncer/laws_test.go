// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
)

// What must hold whatever the rules say: laws over random Services and pods.

// edited is a pod after one random change, or another pod in its place.
func (s *source) edited(p *Pod) *Pod {
	e := *p
	switch s.n(15) {
	case 0:
		e.Ready = !e.Ready
	case 1:
		e.Terminating = !e.Terminating
	case 2:
		e.Terminal = !e.Terminal
	case 3:
		e.UID = fmt.Sprint(s.n(4))
	case 4:
		e.NodeName = chooseFrom(s, "node-1", "node-2", "", "No/Node")
	case 5:
		e.IPs = slices.Clone(e.IPs)
		if len(e.IPs) > 0 && s.yes() {
			e.IPs = e.IPs[1:]
		} else {
			e.IPs = append(e.IPs, PodIP{Addr: s.addr()})
		}
	case 6:
		e.Ports = append(slices.Clone(e.Ports), ContainerPort{"http", TCP, int32(80 + s.n(3))})
		slices.Reverse(e.Ports)
	case 7:
		e.ReadySince++
	case 8:
		e.Hostname, e.Subdomain = chooseFrom(s, "h", "i", ""), chooseFrom(s, "web", "")
	case 9:
		inZone(fmt.Sprint(s.n(3)))(&e)
	case 10:
		e.Matches = uint64(s.n(16))
	case 11:
		e.NodeSilent = !e.NodeSilent
	case 12:
		e.WasReady = true
	case 13:
		return s.pod(0)
	}
	return &e
}

// taking lists what traffic may be sent to: address and port that are ready, in
// Endpoints or in slices, each with the pod behind it.
func taking(c Contribution) map[string]bool {
	at := map[string]bool{}
	for _, e := range c.Endpoints {
		for _, p := range append([]Port{{}}, e.Ports...) {
			if e.Ready {
				at[fmt.Sprint(e.Addr, p, e.Target.UID, " ready")] = true
			}
			if e.Serving {
				at[fmt.Sprint(e.Addr, p, e.Target.UID, " serving")] = true
			}
		}
	}
	return at
}

// TestEffectIsNeverTooWeak: a change that takes an address from traffic is a removal,
// and one that changes anything that is written is not none. So no key is put into a
// slower lane than it needs, nor left out.
func TestEffectIsNeverTooWeak(t *testing.T) {
	seen := map[Effect]int{}
	for seed := range dice.Seeds(t, 20_000) {
		s := throw(dice.From(seed, 3), 200)
		svc, opts := s.anyService(), s.options()
		old := s.pod(0)
		updated := s.edited(old)
		pods := func(p *Pod) []*Pod {
			if p == nil {
				return nil
			}
			return []*Pod{p}
		}
		switch s.n(10) {
		case 0:
			old = nil
		case 1:
			updated = nil
		}
		effect := PodEffect(old, updated, opts.Rules)
		seen[effect]++
		before, after := Compute(svc, slices.Values(pods(old)), opts), Compute(svc, slices.Values(pods(updated)), opts)
		if effect == None && !reflect.DeepEqual(before.Endpoints, after.Endpoints) {
			t.Fatalf("seed %d: no effect, but\n%q\nbecomes\n%q", seed, showEndpoints(before.Endpoints), showEndpoints(after.Endpoints))
		}
		is := taking(after)
		for at := range taking(before) {
			if !is[at] && effect != Removal {
				t.Fatalf("seed %d: %s is lost by a change of effect %v", seed, at, effect)
			}
		}
	}
	for _, e := range []Effect{None, Addition, Removal} {
		if seen[e] < 1000 {
			t.Errorf("effect %v was seen %d times", e, seen[e])
		}
	}
}

// TestPodsDoNotDisturbEachOther: a contribution is the sum of what each pod contributes.
func TestPodsDoNotDisturbEachOther(t *testing.T) {
	for seed := range dice.Seeds(t, 2000) {
		s := throw(dice.From(seed, 4), 400)
		svc, pods, opts := s.anyService(), s.pods(12), s.options()
		whole := func(c Contribution) (list []string) {
			for _, e := range c.Endpoints {
				list = append(list, fmt.Sprintf("%+v", e))
			}
			return list
		}
		all := whole(Compute(svc, slices.Values(pods), opts))
		var sum []string
		for _, p := range pods {
			sum = append(sum, whole(Compute(svc, slices.Values([]*Pod{p}), opts))...)
		}
		slices.Sort(all)
		slices.Sort(sum)
		if !slices.Equal(all, sum) {
			t.Fatalf("seed %d: together\n%q\nalone\n%q", seed, all, sum)
		}
	}
}

// TestInputsAreNeverChanged: the inputs of the rules are shared by others.
func TestInputsAreNeverChanged(t *testing.T) {
	for seed := range dice.Seeds(t, 1000) {
		inputs := func() (*Service, []*Pod, Options, *source) {
			s := throw(dice.From(seed, 5), 600)
			svc, pods := s.anyService(), s.pods(12)
			return svc, pods, s.options(), s
		}
		svc, pods, opts, s := inputs()
		c := Compute(svc, slices.Values(pods), opts)
		subsets := Subsets(c.Endpoints)
		before := fmt.Sprintf("%+v", subsets)
		Repack(subsets)
		Truncate(subsets, s.n(6))
		hand := handService()
		HandWritten(hand, subsets, Pack(nil, c.Endpoints, c.Families, PackOptions{Service: svc.Key, Cluster: "c", MaxEndpoints: 2}), s.yes(), opts)
		again, same, settings, _ := inputs()
		if !reflect.DeepEqual(svc, again) || !reflect.DeepEqual(pods, same) || !reflect.DeepEqual(opts, settings) || !reflect.DeepEqual(hand, handService()) {
			t.Fatalf("seed %d: an input was changed", seed)
		}
		if fmt.Sprintf("%+v", subsets) != before {
			t.Fatalf("seed %d: subsets were changed", seed)
		}
	}
}

// TestRepackConservesWhatIsSaid: the canonical form says for each address and port
// what the subsets say, not ready before ready; it does not depend on the order of
// the subsets, and bringing it into canonical form changes nothing.
func TestRepackConservesWhatIsSaid(t *testing.T) {
	for seed := range dice.Seeds(t, 5000) {
		r := dice.From(seed, 6)
		subsets := someSubsets(r)
		said := map[string]bool{}
		for _, s := range subsets {
			for _, p := range s.Ports {
				for _, a := range s.Ready {
					at := fmt.Sprint(a.Addr, a.Target.UID, p)
					ready, known := said[at]
					said[at] = ready || !known
				}
				for _, a := range s.NotReady {
					said[fmt.Sprint(a.Addr, a.Target.UID, p)] = false
				}
			}
		}
		packed := Repack(subsets)
		if got := factsOf(t, packed); !maps.Equal(got, said) {
			t.Fatalf("seed %d: %q says\n%v\nnot\n%v", seed, showSubsets(packed), got, said)
		}
		if again := Repack(packed); !reflect.DeepEqual(again, packed) {
			t.Fatalf("seed %d: not canonical:\n%q\n%q", seed, showSubsets(packed), showSubsets(again))
		}
		r.Shuffle(len(subsets), func(i, j int) { subsets[i], subsets[j] = subsets[j], subsets[i] })
		if other := Repack(subsets); !reflect.DeepEqual(other, packed) {
			t.Fatalf("seed %d: order of subsets matters:\n%q\n%q", seed, showSubsets(packed), showSubsets(other))
		}
	}
}

// someSubsets repeat few addresses and ports.
func someSubsets(r *rand.Rand) []Subset {
	subsets := make([]Subset, 1+r.IntN(4))
	for i := range subsets {
		s := &subsets[i]
		for range 1 + r.IntN(4) {
			s.Ready = append(s.Ready, Address{Addr: addr(fmt.Sprint("10.0.0.", r.IntN(6)))})
		}
		for range r.IntN(3) {
			s.NotReady = append(s.NotReady, Address{Addr: addr(fmt.Sprint("10.0.0.", r.IntN(6)))})
		}
		for _, n := range r.Perm(4)[:1+r.IntN(3)] {
			s.Ports = append(s.Ports, Port{Name: fmt.Sprint("p", n), Protocol: TCP, Number: int32(80 + n)})
		}
	}
	return subsets
}

// TestTruncateTakesNoMoreThanItMust: no place stays free that an address was cut for,
// no address that is not ready is preferred to a ready one, each subset retains its first.
func TestTruncateTakesNoMoreThanItMust(t *testing.T) {
	for seed := range dice.Seeds(t, 5000) {
		r := dice.From(seed, 7)
		var counts [][2]int
		for range 1 + r.IntN(6) {
			counts = append(counts, [2]int{r.IntN(30), r.IntN(30)})
		}
		in, capacity := sized(counts...), 1+r.IntN(120)
		out, truncated := Truncate(in, capacity)
		var before, after [2]int
		retained := map[string][2]int{}
		for _, s := range in {
			before[0], before[1] = before[0]+len(s.Ready), before[1]+len(s.NotReady)
		}
		for _, s := range out {
			after[0], after[1] = after[0]+len(s.Ready), after[1]+len(s.NotReady)
			retained[s.Ports[0].String()] = [2]int{len(s.Ready), len(s.NotReady)}
		}
		if want := min(before[0]+before[1], capacity); after[0]+after[1] != want {
			t.Fatalf("seed %d: %v of %v in %d places", seed, after, before, capacity)
		}
		if after[0] < before[0] && after[1] > 0 || truncated != (after != before) {
			t.Fatalf("seed %d: %v of %v in %d places, truncated: %v", seed, after, before, capacity, truncated)
		}
		for _, s := range in {
			n := retained[s.Ports[0].String()]
			for _, o := range out {
				if o.Ports[0] == s.Ports[0] && (!slices.Equal(o.Ready, s.Ready[:n[0]]) || !slices.Equal(o.NotReady, s.NotReady[:n[1]])) {
					t.Fatalf("seed %d: subset %v does not retain its first addresses", seed, s.Ports)
				}
			}
		}
	}
}

// TestTimeAloneChangesNothingBeforeNext: a contribution that is computed again has the same
// grades until the moment that it names, and others at that moment.
func TestTimeAloneChangesNothingBeforeNext(t *testing.T) {
	due := 0
	for seed := range dice.Seeds(t, 3000) {
		s := throw(dice.From(seed, 17), 400)
		svc, pods, opts := s.anyService(), s.pods(8), s.options()
		at := func(now time.Time) Contribution {
			opts.Now = now
			return Compute(svc, slices.Values(pods), opts)
		}
		now := at(opts.Now)
		if now.Next.IsZero() {
			if later := at(opts.Now.Add(time.Hour)); !reflect.DeepEqual(now, later) {
				t.Fatalf("seed %d: %q becomes %q, and nothing said so", seed, showEndpoints(now.Endpoints), showEndpoints(later.Endpoints))
			}
			continue
		}
		due++
		if before := at(now.Next.Add(-1)); !reflect.DeepEqual(now, before) {
			t.Fatalf("seed %d: %q becomes %q before %v", seed, showEndpoints(now.Endpoints), showEndpoints(before.Endpoints), now.Next)
		}
		if after := at(now.Next); reflect.DeepEqual(now.Endpoints, after.Endpoints) {
			t.Fatalf("seed %d: %q stays at %v", seed, showEndpoints(now.Endpoints), now.Next)
		}
	}
	if due < 40 {
		t.Errorf("only %d contributions change with time", due)
	}
}

// TestNoDoubtTakesAnEndpointOut: whatever settings and rules say, but for a rule that says
// absent, has an endpoint that upstream publishes as ready in one of the two classes.
func TestNoDoubtTakesAnEndpointOut(t *testing.T) {
	for seed := range dice.Seeds(t, 3000) {
		s := throw(dice.From(seed, 18), 400)
		svc, pods, opts := s.anyService(), s.pods(8), s.options()
		opts.Rules.Then = slices.DeleteFunc(opts.Rules.Then, func(then Then) bool { return then == ThenAbsent })
		plain := Compute(svc, slices.Values(pods), Options{AllowedCIDRs: opts.AllowedCIDRs})
		doubted := Compute(svc, slices.Values(pods), opts)
		if len(plain.Endpoints) != len(doubted.Endpoints) {
			t.Fatalf("seed %d: %q of %q", seed, showEndpoints(doubted.Endpoints), showEndpoints(plain.Endpoints))
		}
		for i := range plain.Endpoints {
			if p, d := &plain.Endpoints[i], &doubted.Endpoints[i]; p.Ready && !d.Ready || p.Grade != NotReady && d.Grade == NotReady || p.Terminating && d.Grade != NotReady {
				t.Fatalf("seed %d: %+v of %+v", seed, d, p)
			}
		}
	}
}

// TestSlicesHoldWhatIsWantedWhateverExisted: after any history the slices hold exactly the
// endpoints that a first packing yields.
func TestSlicesHoldWhatIsWantedWhateverExisted(t *testing.T) {
	for seed := range dice.Seeds(t, 1500) {
		s := throw(dice.From(seed, 9), 800)
		options := PackOptions{Service: Key{"ns", "svc"}, Cluster: "c", MaxEndpoints: 1 + s.n(8)}
		var current []Slice
		for range 5 {
			desired := s.endpoints()
			current = Pack(current, desired, []Family{IPv4}, options)
			if got, want := contents(current), contents(Pack(nil, desired, []Family{IPv4}, options)); !slices.Equal(got, want) {
				t.Fatalf("seed %d:\n got %s\nwant %s", seed, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
		}
	}
}

func contents(list []Slice) (out []string) {
	for _, s := range list {
		for _, e := range s.Endpoints {
			e.Ports = nil
			out = append(out, fmt.Sprintf("%v %s %+v", s.Family, portsKey(s.Ports), e))
		}
	}
	slices.Sort(out)
	return out
}

// TestEveryPodIsExplained: who is no ready endpoint has a reason, who is one has none, and
// the reason says what the pod is.
func TestEveryPodIsExplained(t *testing.T) {
	why := map[string]int{}
	for seed := range dice.Seeds(t, 3000) {
		s := throw(dice.From(seed, 16), 400)
		svc, pods, opts := s.anyService(), s.pods(8), s.options()
		published := map[string]*Endpoint{}
		c := Compute(svc, slices.Values(pods), opts)
		for i := range c.Endpoints {
			if e := &c.Endpoints[i]; published[e.Target.UID+e.Target.Name] == nil {
				published[e.Target.UID+e.Target.Name] = e
			}
		}
		for _, p := range pods {
			v, e := Explain(svc, p, opts), published[p.UID+p.Name]
			if v.Endpoint != (e != nil) || e != nil && v.Grade != e.Grade || (v.Why == "") != (v.Endpoint && v.Grade == Ready) {
				t.Fatalf("seed %d: %+v of %+v, which becomes %v", seed, v, p, e)
			}
			reason, _, _ := strings.Cut(v.Why, ":")
			if why[reason]++; reason == "has finished" != (e == nil && p.Terminal && svc.Selector != nil && !svc.ExternalName) {
				t.Fatalf("seed %d: %q of %+v", seed, v.Why, p)
			}
		}
	}
	for _, reason := range []string{"", "has finished", "has no address yet", "is being deleted", "not ready", "in reserve", "a rule says that it is absent", "no such port", "its address is rejected"} {
		if why[reason] == 0 {
			t.Errorf("nobody was told %q: %v", reason, why)
		}
	}
}
