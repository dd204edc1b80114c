// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// A removal is refused for what stands beside it: only that goes with it, if what the server
// says of writes that are not made shows it.
func TestStandingAddressIsEvicted(t *testing.T) {
	larger := func(n int) func(*Action) bool { return func(a *Action) bool { return len(a.states()) > n } }
	settings := Settings{WriteEndpoints: true, WriteSlices: true, MaxEndpointsPerSlice: 1000}
	never := func(*Action) bool { return false }
	odd := func(a *Action) bool {
		for addr := range a.states() {
			if addr.As4()[3]%2 == 1 {
				return true
			}
		}
		return false
	}
	var oddOnes []string
	for i := 1; i <= 200; i += 2 {
		oddOnes = append(oddOnes, fmt.Sprint("10.0.0.", i))
	}
	for _, tt := range []struct {
		name    string
		live    int
		refuses func(*Action) bool
		// serves are as many as live but for these; most bounds what is tried of each kind.
		lost []string
		gone bool
		most int
	}{
		{"nothing", 8, never, nil, true, 0},
		{"one of eight", 8, refuseAddresses("10.0.0.5"), []string{"10.0.0.5"}, true, 8},
		{"two of eight", 8, refuseAddresses("10.0.0.1", "10.0.0.8"), []string{"10.0.0.1", "10.0.0.8"}, true, 12},
		{"one of a hundred", 100, refuseAddresses("10.0.0.77"), []string{"10.0.0.77"}, true, 16},
		{"more than six", 8, larger(6), []string{"10.0.0.7", "10.0.0.8"}, true, 12},
		{"none at all, and one of eight", 8, func(a *Action) bool { return len(a.states()) == 0 || refuseAddresses("10.0.0.5")(a) }, []string{"10.0.0.5"}, true, 9},
		{"none at all, and one in each half", 8, func(a *Action) bool { return len(a.states()) == 0 || refuseAddresses("10.0.0.2", "10.0.0.7")(a) }, []string{"10.0.0.2", "10.0.0.7"}, true, 16},
		{"whatever is in it", 100, func(*Action) bool { return true }, nil, false, 7},
		{"each of them", 8, larger(0), nil, false, 17},
		{"the one that lives", 1, refuseAddresses("10.0.0.1"), []string{"10.0.0.1"}, true, 4},
		{"too many to find at once", 200, odd, oddOnes, true, 2 * maxTried * 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var live []string
			for i := range tt.live {
				live = append(live, fmt.Sprint("10.0.0.", i+1))
			}
			w := newWorld(t, shopWeb)
			p := policy{refuses: never, settings: settings}
			p.pass(t, w, []Contribution{from("idc-a", 1, "http:80>8080", append([]string{"10.0.0.250"}, live...)...)}, nil, nil)
			p = policy{refuses: tt.refuses, settings: settings}
			search := p.pass(t, w, []Contribution{from("idc-a", 1, "http:80>8080", live...)}, nil, nil)
			want := slices.DeleteFunc(slices.Clone(live), func(addr string) bool { return slices.Contains(tt.lost, addr) })
			if !tt.gone {
				want = append(want, "10.0.0.250")
			}
			slices.SortFunc(want, func(a, b string) int { return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b)) })
			got := readyAddresses(w)
			slices.SortFunc(got, func(a, b string) int { return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b)) })
			if !slices.Equal(got, want) {
				t.Errorf("serves %v, want %v", got, want)
			}
			if p.tried > 2*tt.most {
				t.Errorf("%d writes were tried, want %d at most", p.tried, 2*tt.most)
			}
			for _, addr := range tt.lost {
				if at := slices.IndexFunc(search.LeftOut(), Refusal{Address: netip.MustParseAddr(addr)}.Is); at < 0 || search.LeftOut()[at].Message != "no" {
					t.Errorf("%s is not told: %+v", addr, search.LeftOut())
				}
			}
		})
	}
}

// Where no write can be checked that is not made, an object is taken apart by writes that
// are: what is dead leaves, and what is not refused comes back.
func TestStandingAddressIsEvictedWithoutDryRuns(t *testing.T) {
	for _, tt := range []struct{ live, bad int }{{2, 1}, {8, 1}, {8, 2}, {8, 7}, {20, 2}, {120, 1}, {120, 9}} {
		for seed := range dice.Seeds(t, 20) {
			rng := dice.From(seed, uint64(tt.live))
			w := newWorld(t, shopWeb)
			settings := Settings{WriteEndpoints: true, WriteSlices: true, MaxEndpointsPerSlice: 1 + rng.IntN(tt.live+1)}
			var live []string
			for i := range tt.live {
				live = append(live, fmt.Sprint("10.0.0.", i+1))
			}
			p := policy{refuses: func(*Action) bool { return false }, settings: settings}
			p.pass(t, w, []Contribution{from("idc-a", 1, "http:80>8080", append(slices.Clone(live), "10.0.0.250")...)}, nil, nil)
			bad := slices.Clone(live)
			rng.Shuffle(len(bad), func(i, j int) { bad[i], bad[j] = bad[j], bad[i] })
			bad, good := bad[:tt.bad], bad[tt.bad:]
			p = policy{refuses: refuseAddresses(bad...), settings: settings, uncheckable: true,
				shuffle: func(all []netip.Addr) { rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) }}
			var left []Refusal
			for range 3 { // of which each goes on where the last one was
				search := p.pass(t, w, []Contribution{from("idc-a", 1, "http:80>8080", live...)}, slices.DeleteFunc(left, func(r Refusal) bool { return r.Untried }), left)
				left = search.LeftOut()
			}
			for kind, stood := range standing(w) {
				for _, addr := range good {
					if stood[netip.MustParseAddr(addr)] == absent {
						t.Errorf("seed %d, %d bad of %d: %s lives, and is gone from %d", seed, tt.bad, tt.live, addr, kind)
					}
				}
				if stood[netip.MustParseAddr("10.0.0.250")] != absent {
					t.Errorf("seed %d, %d bad of %d: what is dead still stands in %d", seed, tt.bad, tt.live, kind)
				}
			}
			if t.Failed() {
				t.Fatalf("left out %v", left)
			}
		}
	}
}

// What lives and is refused keeps neither what is dead nor what comes: also where nothing
// else that stands is ready.
func TestLastReadyAddressGivesWay(t *testing.T) {
	const dead, live, comes, worse = "10.0.0.3", "10.0.0.4", "10.0.0.1", "10.0.0.2"
	for _, tt := range []struct {
		name        string
		now         []string
		refuses     []string
		uncheckable bool
		want        []string
	}{
		{"nothing comes", []string{live}, []string{live}, false, nil},
		{"one comes", []string{live, comes}, []string{live}, false, []string{comes}},
		{"one comes and one that is refused", []string{live, comes, worse}, []string{live, worse}, false, []string{comes}},
		{"what is dead is refused, too", []string{live, comes}, []string{live, dead}, false, []string{comes}},
		{"each of them is refused", []string{live, comes}, []string{live, dead, comes}, false, []string{dead, live}},
		{"nothing can be checked, and one comes", []string{live, comes}, []string{live}, true, []string{comes}},
		{"nothing can be checked, and nothing comes", []string{live}, []string{live}, true, []string{dead, live}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, shopWeb)
			p := policy{refuses: func(*Action) bool { return false }, settings: bothKinds}
			p.pass(t, w, []Contribution{from("idc-a", 1, "http:80>8080", dead, live)}, nil, nil)
			p = policy{refuses: refuseAddresses(tt.refuses...), settings: bothKinds, uncheckable: tt.uncheckable}
			p.pass(t, w, []Contribution{from("idc-a", 1, "http:80>8080", tt.now...)}, nil, nil)
			if got := readyAddresses(w); !slices.Equal(got, tt.want) {
				t.Errorf("serves %v, want %v", got, tt.want)
			}
		})
	}
}

// A server that does not say whether it would accept has refused nothing.
func TestUnclearTryEvictsNothing(t *testing.T) {
	w, _ := stand(t)
	contributions := []Contribution{from("idc-a", 100, "http:80>8080 admin:81>9000", "10.0.0.1", "10.0.0.3"), from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")}
	p := policy{refuses: refuseAddresses("10.0.0.1"), settings: bothKinds}
	refused := p.carryOut(w, Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds))
	asked := 0
	search := NewIsolation(nil, nil, func(*Action) (bool, error) { asked++; return false, errors.New("timed out") })
	search.Refused(refused, contributions, w.current)
	for _, r := range search.LeftOut() {
		if r.Evict != 0 {
			t.Errorf("%s is taken away", r)
		}
	}
	if asked == 0 || asked > len(refused) {
		t.Errorf("asked %d times about %d refused writes", asked, len(refused))
	}
}

// For random members and addresses that the server takes no longer, and does not name:
// after one pass nothing that is dead stands, as long as one that lives is taken; and no
// other goes than those that are not.
func TestNoRefusalKeepsADeadAddress(t *testing.T) {
	for seed := range dice.Seeds(t, 100) {
		rng := dice.From(seed, 11)
		settings := Settings{WriteEndpoints: true, WriteSlices: true, MaxEndpointsPerSlice: 1 + rng.IntN(5)}
		w := newWorld(t, shopWeb)
		var left []Refusal
		for step := range 12 {
			var contributions []Contribution
			live := map[netip.Addr]bool{}
			for i, cluster := range []string{"idc-a", "idc-b", "idc-c"} {
				var all []string
				for _, n := range rng.Perm(9)[:rng.IntN(9)] {
					all = append(all, fmt.Sprintf("10.%d.0.%d", i, n))
					live[netip.MustParseAddr(all[len(all)-1])] = true
				}
				contributions = append(contributions, from(cluster, int64(i), "http:80>8080", all...))
			}
			bad := map[syncer.Kinds]map[netip.Addr]bool{syncer.KindEndpoints: {}, syncer.KindEndpointSlices: {}}
			for range rng.IntN(5) * min(1, step) {
				addr := netip.AddrFrom4([4]byte{10, byte(rng.IntN(3)), 0, byte(rng.IntN(9))})
				for _, kind := range [][]syncer.Kinds{{1}, {2}, {1, 2}}[rng.IntN(3)] {
					bad[kind][addr] = true
				}
			}
			p := policy{settings: settings, refuses: func(a *Action) bool {
				for addr := range a.states() {
					if bad[a.kinds()][addr] {
						return true
					}
				}
				return false
			}}
			before := standing(w)
			known, former := left, []Refusal(nil)
			if rng.IntN(2) == 0 {
				known, former = nil, left
			}
			left = p.pass(t, w, contributions, known, former).LeftOut()
			after := standing(w)
			for kind, stood := range before {
				serves := slices.ContainsFunc(slices.Collect(maps.Keys(stood)), func(addr netip.Addr) bool { return live[addr] && !bad[kind][addr] })
				for addr := range stood {
					switch {
					case after[kind][addr] != absent && !live[addr] && serves:
						t.Errorf("seed %d step %d: %s is dead, and still in %d", seed, step, addr, kind)
					case after[kind][addr] == absent && live[addr] && !bad[kind][addr] && !slices.ContainsFunc(left, Refusal{Address: addr}.Is):
						t.Errorf("seed %d step %d: %s lives, and is gone from %d", seed, step, addr, kind)
					}
				}
			}
			if t.Failed() {
				t.Fatalf("left out %v", left)
			}
		}
	}
}

// standing are the addresses that stand, by kind.
func standing(w *world) map[syncer.Kinds]states {
	sliced := states{}
	for _, s := range w.current.Slices {
		sliced.add(s.all())
	}
	return map[syncer.Kinds]states{syncer.KindEndpoints: statesOf(w.current.ours().Subsets), syncer.KindEndpointSlices: sliced}
}
