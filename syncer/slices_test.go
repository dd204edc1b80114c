// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var (
	packFor  = PackOptions{Service: Key{testNamespace, "web"}, Cluster: "idc-a"}
	httpPort = Port{Name: "http", Protocol: TCP, Number: 8080}
	onlyIPv4 = []Family{IPv4}
)

// manyEndpoints returns n ready endpoints with one port list.
func manyEndpoints(n int, ports ...Port) []Endpoint {
	endpoints := make([]Endpoint, n)
	for i := range endpoints {
		name := fmt.Sprintf("pod-%d", i)
		endpoints[i] = Endpoint{Addr: addr(fmt.Sprintf("10.0.%d.%d", i/200, i%200+1)), Ports: ports,
			Ready: true, Serving: true, Target: TargetRef{Kind: "Pod", Key: Key{testNamespace, name}, UID: "uid-" + name}}
	}
	return endpoints
}

// writes counts the API calls that lead from one set of slices to another.
func writes(before, after []Slice) (creates, updates, deletes int) {
	old := map[string]Slice{}
	for _, s := range before {
		old[s.Name] = s
	}
	for _, s := range after {
		was, existed := old[s.Name]
		switch {
		case !existed:
			creates++
		case !slices.EqualFunc(was.Endpoints, s.Endpoints, func(a, b Endpoint) bool { return a.Equal(&b) }):
			updates++
		}
		delete(old, s.Name)
	}
	return creates, updates, len(old)
}

func wantWrites(t *testing.T, before, after []Slice, creates, updates, deletes int) {
	t.Helper()
	if c, u, d := writes(before, after); c != creates || u != updates || d != deletes {
		t.Errorf("creates, updates, deletes = %d, %d, %d; want %d, %d, %d", c, u, d, creates, updates, deletes)
	}
}

func sliceSizes(list []Slice) (out []int) {
	for _, s := range list {
		out = append(out, len(s.Endpoints))
	}
	return out
}

// without returns endpoints but those with the indexes.
func without(endpoints []Endpoint, indexes ...int) []Endpoint {
	var left []Endpoint
	for i, e := range endpoints {
		if !slices.Contains(indexes, i) {
			left = append(left, e)
		}
	}
	return left
}

func TestPackFillsSlices(t *testing.T) {
	endpoints := manyEndpoints(250, httpPort)
	got := Pack(nil, endpoints, onlyIPv4, packFor)
	if want := []int{100, 100, 50}; !slices.Equal(sliceSizes(got), want) {
		t.Fatalf("sizes %v, want %v", sliceSizes(got), want)
	}
	wantWrites(t, got, Pack(got, endpoints, onlyIPv4, packFor), 0, 0, 0)
}

func TestOneFlipIn5000RewritesOneSlice(t *testing.T) {
	endpoints := manyEndpoints(5000, httpPort)
	before := Pack(nil, endpoints, onlyIPv4, packFor)
	endpoints[2345].Ready, endpoints[2345].Serving = false, false
	wantWrites(t, before, Pack(before, endpoints, onlyIPv4, packFor), 0, 1, 0)
}

// TestEveryFieldOfAnEndpointIsWritten flips one after another.
func TestEveryFieldOfAnEndpointIsWritten(t *testing.T) {
	for name, change := range map[string]func(*Endpoint){
		"ready": func(e *Endpoint) { e.Ready = false }, "serving": func(e *Endpoint) { e.Serving = false },
		"terminating": func(e *Endpoint) { e.Terminating = true }, "node": func(e *Endpoint) { e.NodeName = "n" },
		"zone": func(e *Endpoint) { e.Zone = "z" }, "hostname": func(e *Endpoint) { e.Hostname = "h" },
		"target": func(e *Endpoint) { e.Target.UID = "other" },
	} {
		endpoints := manyEndpoints(10, httpPort)
		before := Pack(nil, endpoints, onlyIPv4, packFor)
		change(&endpoints[3])
		t.Run(name, func(t *testing.T) { wantWrites(t, before, Pack(before, endpoints, onlyIPv4, packFor), 0, 1, 0) })
	}
}

func TestEndpointsKeepTheirPlace(t *testing.T) {
	endpoints := manyEndpoints(5, httpPort)
	before := []Slice{{Name: "web-x", Family: IPv4, Ports: []Port{httpPort}}}
	for _, i := range []int{3, 1, 4, 0, 2} {
		before[0].Endpoints = append(before[0].Endpoints, inSlice(&endpoints[i]))
	}
	endpoints[1].Ready = false
	after := Pack(before, without(endpoints, 4), onlyIPv4, packFor)
	want := []Endpoint{inSlice(&endpoints[3]), inSlice(&endpoints[1]), inSlice(&endpoints[0]), inSlice(&endpoints[2])}
	if len(after) != 1 || !reflect.DeepEqual(after[0].Endpoints, want) {
		t.Errorf("%q", showEndpoints(after[0].Endpoints))
	}
	if len(before[0].Endpoints) != 5 || !before[0].Endpoints[1].Ready {
		t.Error("the input changed")
	}
}

// TestWhereNewEndpointsGo: where a write is due anyway, then where all of them fit, then
// into new slices.
func TestWhereNewEndpointsGo(t *testing.T) {
	all := manyEndpoints(400, httpPort)
	slice := func(name string, from, to int) Slice {
		s := Slice{Name: name, Family: IPv4, Ports: []Port{httpPort}}
		for i := from; i < to; i++ {
			s.Endpoints = append(s.Endpoints, inSlice(&all[i]))
		}
		return s
	}
	for _, c := range []struct {
		name                      string
		before                    []Slice
		desired                   []Endpoint
		sizes                     []int
		creates, updates, deletes int
	}{
		{"into the partly filled slice", []Slice{slice("a", 0, 100), slice("b", 100, 150)}, all[:160], []int{100, 60}, 0, 1, 0},
		{"into the fullest slice that takes them all", []Slice{slice("a", 0, 20), slice("b", 20, 110), slice("c", 110, 140)}, all[:145], []int{20, 95, 30}, 0, 1, 0},
		{"not spread over several slices", []Slice{slice("a", 0, 60), slice("b", 60, 120)}, all[:170], []int{60, 60, 50}, 1, 0, 0},
		{"into the slice that changes anyway", []Slice{slice("a", 0, 90), slice("b", 90, 100)}, append(without(all[:100], 95), all[100]), []int{90, 10}, 0, 1, 0},
		{"into the slice that changes, even if another is fuller", []Slice{slice("a", 0, 99), slice("b", 99, 110)}, append(without(all[:110], 100), all[110:115]...), []int{99, 15}, 0, 1, 0},
		{"a slice that lost all its endpoints is refilled before another is touched", []Slice{slice("a", 0, 50), slice("b", 50, 55)},
			append(slices.Clone(all[:50]), all[60:70]...), []int{50, 10}, 0, 1, 0},
		{"a slice that lost all its endpoints goes when others have room", []Slice{slice("a", 0, 50), slice("b", 50, 55)},
			append(without(all[:50], 0), all[60]), []int{50}, 0, 1, 1},
		{"a hundred and more into new slices", []Slice{slice("a", 0, 50)}, all[:260], []int{60, 100, 100}, 2, 1, 0},
		{"no merging for size alone", []Slice{slice("a", 0, 1), slice("b", 1, 2), slice("c", 2, 3)}, all[:3], []int{1, 1, 1}, 0, 0, 0},
		{"an overfull slice is cut", []Slice{slice("a", 0, 130)}, all[:130], []int{100, 30}, 1, 1, 0},
		{"an endpoint in two slices stays in one", []Slice{slice("a", 0, 10), slice("b", 5, 15)}, all[:15], []int{10, 5}, 0, 1, 0},
		{"an exact hundred into the empty slice", []Slice{slice("a", 0, 0)}, all[:100], []int{100}, 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := Pack(c.before, c.desired, onlyIPv4, packFor)
			if got := sliceSizes(after); !slices.Equal(got, c.sizes) {
				t.Errorf("sizes %v, want %v", got, c.sizes)
			}
			wantWrites(t, c.before, after, c.creates, c.updates, c.deletes)
			wantWrites(t, after, Pack(after, c.desired, onlyIPv4, packFor), 0, 0, 0)
		})
	}
}

// TestPortsOfASliceNeverChange (C4): ingress-nginx ignores such an update.
func TestPortsOfASliceNeverChange(t *testing.T) {
	before := Pack(nil, manyEndpoints(5, httpPort), onlyIPv4, packFor)
	other := Port{Name: "http", Protocol: TCP, Number: 9090}
	after := Pack(before, manyEndpoints(5, other), onlyIPv4, packFor)
	wantWrites(t, before, after, 1, 0, 1)
	if after[0].Name == before[0].Name || !slices.Equal(after[0].Ports, []Port{other}) {
		t.Errorf("%+v", after[0])
	}
}

func TestOrderOfPortsIsNoDifference(t *testing.T) {
	metrics := Port{Name: "metrics", Protocol: TCP, Number: 9100}
	before := Pack(nil, manyEndpoints(5, metrics, httpPort), onlyIPv4, packFor)
	wantWrites(t, before, Pack(before, manyEndpoints(5, httpPort, metrics), onlyIPv4, packFor), 0, 0, 0)
}

func TestNamedPortsSplitSlices(t *testing.T) {
	desired := append(manyEndpoints(2, httpPort), manyEndpoints(4, Port{Name: "http", Protocol: TCP, Number: 9090})[2:]...)
	got := Pack(nil, desired, onlyIPv4, packFor)
	if len(got) != 2 || len(got[0].Endpoints) != 2 || len(got[1].Endpoints) != 2 || slices.Equal(got[0].Ports, got[1].Ports) {
		t.Errorf("%+v", got)
	}
}

func TestFamiliesSplitSlices(t *testing.T) {
	desired := manyEndpoints(2, httpPort)
	six := desired[0]
	six.Addr = addr("fd00::1")
	got := Pack(nil, append(desired, six), []Family{IPv4, IPv6}, packFor)
	if len(got) != 2 || got[0].Family == got[1].Family || len(got[0].Endpoints)+len(got[1].Endpoints) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestAFamilyAlwaysHasASlice(t *testing.T) {
	dual := []Family{IPv4, IPv6}
	none := Pack(nil, nil, dual, packFor)
	if len(none) != 2 || none[0].Family == none[1].Family || len(none[0].Ports)+len(none[0].Endpoints) != 0 {
		t.Fatalf("placeholders: %+v", none)
	}
	wantWrites(t, none, Pack(none, nil, dual, packFor), 0, 0, 0)

	some := Pack(none, manyEndpoints(3, httpPort), dual, packFor)
	wantWrites(t, none, some, 1, 0, 1)
	empty := Pack(some, nil, dual, packFor)
	wantWrites(t, some, empty, 0, 1, 0)
	wantWrites(t, empty, Pack(empty, nil, dual, packFor), 0, 0, 0)
	if at := slices.IndexFunc(empty, func(s Slice) bool { return s.Family == IPv4 }); !slices.Equal(empty[at].Ports, []Port{httpPort}) {
		t.Error("the last slice was not emptied in place")
	}
	wantWrites(t, empty, Pack(empty, manyEndpoints(3, httpPort), dual, packFor), 0, 1, 0)
	wantWrites(t, empty, Pack(empty, nil, onlyIPv4, packFor), 0, 0, 1)
	wantWrites(t, empty, Pack(empty, nil, nil, packFor), 0, 0, 2)
}

func TestOfSeveralSlicesOneIsKeptWhenAllEndpointsLeave(t *testing.T) {
	before := Pack(nil, manyEndpoints(250, httpPort), onlyIPv4, packFor)
	wantWrites(t, before, Pack(before, nil, onlyIPv4, packFor), 0, 1, 2)
}

func TestEndpointsOnlyStaysOutOfSlices(t *testing.T) {
	desired := manyEndpoints(2, httpPort)
	desired[0].Only, desired[1].Only = KindEndpoints, KindEndpointSlices
	got := Pack(nil, desired, onlyIPv4, packFor)
	wantLines(t, "slice", showEndpoints(got[0].Endpoints), []string{"10.0.0.2 ready serving"})
}

func TestSameAddressOfTwoPodsStaysTwoEndpoints(t *testing.T) {
	desired := manyEndpoints(2, httpPort)
	desired[1].Addr, desired[1].Terminating, desired[1].Ready = desired[0].Addr, true, false
	before := Pack(nil, desired, onlyIPv4, packFor)
	wantLines(t, "slice", showEndpoints(before[0].Endpoints), []string{"10.0.0.1 ready serving", "10.0.0.1 serving terminating"})
	wantWrites(t, before, Pack(before, desired[:1], onlyIPv4, packFor), 0, 1, 0)
}

func TestPackDoesNotDependOnOrder(t *testing.T) {
	desired := manyEndpoints(300, httpPort)
	before := Pack(nil, desired[:120], onlyIPv4, packFor)
	want := Pack(before, desired[20:], onlyIPv4, packFor)
	shuffled := slices.Clone(desired[20:])
	slices.Reverse(shuffled)
	slices.Reverse(before)
	if got := Pack(before, shuffled, onlyIPv4, packFor); !reflect.DeepEqual(got, want) {
		t.Errorf("sizes %v, want %v", sliceSizes(got), sliceSizes(want))
	}
}

func TestSliceNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	seen := map[string]string{}
	for _, c := range []PackOptions{
		{Service: Key{"shop", "a-b"}, Cluster: "c"}, {Service: Key{"shop", "a"}, Cluster: "b-c"}, {Service: Key{"shop", "a"}, Cluster: "b"},
		{Service: Key{"shop2", "a"}, Cluster: "b"}, {Service: Key{"shop", long}, Cluster: long}, {Service: Key{"shop", long}, Cluster: "b"},
	} {
		for _, ports := range [][]Port{nil, {httpPort}, {{Name: "http", Protocol: UDP, Number: 8080}}, {{Name: "http", Protocol: TCP, Number: 80}},
			{{Name: "http", Protocol: TCP, Number: 8080, AppProtocol: AppProtocol{"", true}}}, {{Name: "http8", Protocol: TCP, Number: 80}}} {
			for _, family := range []Family{IPv4, IPv6} {
				e := manyEndpoints(1, ports...)
				if family == IPv6 {
					e[0].Addr = addr("fd00::1")
				}
				name := Pack(nil, e, []Family{family}, c)[0].Name
				if !strings.HasPrefix(name, c.Service.Name+"-") || !isSubdomain(name) || !isLabelText(name) {
					t.Errorf("name %q of %v", name, c)
				}
				what := fmt.Sprint(c, ports, family)
				if other, taken := seen[name]; taken {
					t.Errorf("%q is the name of both %s and %s", name, what, other)
				}
				seen[name] = what
			}
		}
	}
}

// TestANameIsNotReusedWhileItsSliceExists: the new slice is created before the
// old one is deleted.
func TestANameIsNotReusedWhileItsSliceExists(t *testing.T) {
	desired := manyEndpoints(250, httpPort)
	before := Pack(nil, desired, onlyIPv4, packFor)
	middle := append(slices.Clone(before[:1]), before[2])
	after := Pack(middle, desired, onlyIPv4, packFor)
	if !reflect.DeepEqual(sliceSizes(after), []int{100, 100, 50}) || after[1].Name != before[1].Name {
		t.Errorf("%v", sliceSizes(after))
	}
	foreign := []Slice{{Name: before[0].Name, Family: IPv6, Ports: []Port{{Name: "x", Protocol: TCP, Number: 1}}}}
	if got := Pack(foreign, desired[:1], onlyIPv4, packFor); got[0].Name == foreign[0].Name {
		t.Error("name of a current slice reused")
	}
}

// TestASliceWhosePortsSomebodyChanged is repaired in its place: another one beside it would be
// changed as well.
func TestASliceWhosePortsSomebodyChanged(t *testing.T) {
	desired := manyEndpoints(1, httpPort)
	want := Pack(nil, desired, onlyIPv4, packFor)
	changed := slices.Clone(want)
	changed[0].Ports = []Port{{Name: "x", Protocol: TCP, Number: 1}}
	if got := Pack(changed, desired, onlyIPv4, packFor); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
