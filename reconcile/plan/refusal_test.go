// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestBlame(t *testing.T) {
	subset := func(ready, notReady string) syncer.Subset {
		s := syncer.Subset{Ports: []syncer.Port{{Name: "http"}, {Name: "bad"}}}
		for text := range strings.FieldsSeq(ready) {
			s.Ready = append(s.Ready, syncer.Address{Addr: netip.MustParseAddr(text)})
		}
		for text := range strings.FieldsSeq(notReady) {
			s.NotReady = append(s.NotReady, syncer.Address{Addr: netip.MustParseAddr(text)})
		}
		return s
	}
	labels := map[string]string{"app": "web", "bad_": "x", "k": "bad value"}
	endpoints := &Action{Kind: KindEndpoints, Endpoints: &EndpointsSpec{Labels: labels, Annotations: map[string]string{"note": "y"},
		Subsets: []syncer.Subset{subset("10.0.0.1 10.0.0.2", "10.0.0.3"), subset("10.0.0.4", "")}}}
	slice := &Action{Kind: KindEndpointSlice, Slice: &SliceSpec{Labels: labels, Slice: syncer.Slice{
		Ports: []syncer.Port{{Name: "http"}}, Endpoints: []syncer.Endpoint{{Addr: netip.MustParseAddr("10.0.0.1")}, {Addr: netip.MustParseAddr("fd00::1")}}}}}
	service := &Action{Kind: KindService, Service: &ServiceSpec{Ports: []syncer.ServicePort{{Name: "http"}, {Name: "bad"}}, Labels: labels}}
	for _, tt := range []struct {
		name           string
		action         *Action
		field, message string
		want           string
	}{
		{"an address", endpoints, "subsets[0].addresses[1].ip", "", "address 10.0.0.2"},
		{"an address that is not ready", endpoints, "subsets[0].notReadyAddresses[0].ip", "", "address 10.0.0.3"},
		{"an address as a whole", endpoints, "subsets[1].addresses[0]", "", "address 10.0.0.4"},
		{"a hostname", endpoints, "subsets[1].addresses[0].hostname", "", "address 10.0.0.4"},
		{"a port of a subset", endpoints, "subsets[1].ports[1].name", "", ""},
		{"beyond the end", endpoints, "subsets[1].addresses[9].ip", "", ""},
		{"before the start", endpoints, "subsets[-1].addresses[0].ip", "", ""},
		{"no index", endpoints, "subsets", "", ""},
		{"no subset of an address", endpoints, "subsets[0]", "", ""},
		{"a label by its key", endpoints, "metadata.labels", `Invalid value: "bad_": name part must`, ""},
		{"a label by its value", endpoints, "metadata.labels", `Invalid value: "bad value": a valid label`, ""},
		{"some label", endpoints, "metadata.labels", "Too long", ""},
		{"an annotation", endpoints, "metadata.annotations", `Invalid value: "note": x`, ""},
		{"all annotations", endpoints, "metadata.annotations", "Too long: must have at most 262144 bytes", ""},
		{"the replica's name", service, "metadata.name", `Invalid value: "1web": a DNS-1035 label`, ""},
		{"an owner", slice, "metadata.ownerReferences[0].uid", "", ""},
		{"an address of a slice", slice, "endpoints[1].addresses[0]", "", "address fd00::1"},
		{"a zone", slice, "endpoints[0].zone", "", "address 10.0.0.1"},
		{"a port of a slice", slice, "ports[0].appProtocol", "", ""},
		{"too many", slice, "endpoints", "Too many: 1001: must have at most 1000 items", ""},
		{"a port of a Service", service, "spec.ports[1].nodePort", "", ""},
		{"something else of a Service", service, "spec.clusterIPs[0]", "", ""},
		{"nothing", service, "", "", ""},
		{"nonsense", slice, "endpoints[x][2]...[", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range Blame(tt.action, []Cause{{tt.field, tt.message}, {tt.field, tt.message}}) {
				got = append(got, r.String())
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("blamed %q, want %q", got, tt.want)
			}
		})
	}
	long := Blame(endpoints, []Cause{{"subsets[1].addresses[0].ip", strings.Repeat("ü", 10000)}})
	if len(long) != 1 || len(long[0].Message) > maxMessage+3 {
		t.Errorf("%d bytes of message are kept", len(long[0].Message))
	}
}

func TestWithout(t *testing.T) {
	a := from("idc-a", 100, "http:80>8080 admin:81>9000", "10.0.0.1", "10.0.0.2", "10.0.0.5")
	b := from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.9")
	addr := netip.MustParseAddr
	for _, tt := range []struct {
		name     string
		refusals []Refusal
		ports    string
		served   string
		reasons  string
		rejected string
	}{
		{"nothing", nil, "http:80/TCP→8080 admin:81/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:8080 10.0.0.2:admin:9000 10.0.0.2:http:8080 10.0.0.5:admin:9000 10.0.0.5:http:8080 10.1.0.1:http:8080 10.1.0.9:http:8080", "", ""},
		{"an address", []Refusal{{Address: addr("10.0.0.5")}, {Address: addr("10.9.9.9")}}, "http:80/TCP→8080 admin:81/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:8080 10.0.0.2:admin:9000 10.0.0.2:http:8080 10.1.0.1:http:8080 10.1.0.9:http:8080", "refused@idc-a", "10.0.0.5@idc-a"},
		{"an address that stands", []Refusal{{Address: addr("10.0.0.2")}}, "http:80/TCP→8080 admin:81/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:8080 10.0.0.2:admin:9000 10.0.0.2:http:8080 10.0.0.5:admin:9000 10.0.0.5:http:8080 10.1.0.1:http:8080 10.1.0.9:http:8080", "refused@idc-a", "10.0.0.2@idc-a"},
		{"an address that may not stand either", []Refusal{{Address: addr("10.0.0.2"), Evict: syncer.KindEndpoints | syncer.KindEndpointSlices}}, "http:80/TCP→8080 admin:81/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:8080 10.0.0.5:admin:9000 10.0.0.5:http:8080 10.1.0.1:http:8080 10.1.0.9:http:8080", "refused@idc-a", "10.0.0.2@idc-a"},
		{"a share: 10.0.0.5 is new, 10.0.0.4 has left", []Refusal{{Cluster: "idc-a"}}, "http:80/TCP→8080 admin:81/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:8080 10.0.0.2:admin:9000 10.0.0.2:http:8080 10.1.0.1:http:8080 10.1.0.9:http:8080", "refused@idc-a", ""},
		{"all shares", []Refusal{{}}, "http:80/TCP→8080 admin:81/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:8080 10.0.0.2:admin:9000 10.0.0.2:http:8080 10.1.0.1:http:8080", "refused@idc-a refused@idc-b", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := stand(t)
			left, conflicts := Without(shopWeb, []Contribution{a, b}, tt.refusals, w.current)
			r := Merge(shopWeb, left, w.current, bothKinds)
			r.Conflicts = slices.DeleteFunc(conflicts, func(c Conflict) bool { return c.Reason != ConflictRefused })
			slices.SortFunc(r.Conflicts, compareConflicts)
			if got := portsText(&r); got != tt.ports {
				t.Errorf("ports %s, want %s", got, tt.ports)
			}
			if got := servedText(&r); got != tt.served {
				t.Errorf("serves\n%s\nwant\n%s", got, tt.served)
			}
			if got := reasons(&r); got != tt.reasons {
				t.Errorf("conflicts %s, want %s", got, tt.reasons)
			}
			var rejected []string
			for _, x := range r.Rejected {
				rejected = append(rejected, x.Address+"@"+x.Cluster)
			}
			if got := strings.Join(rejected, " "); got != tt.rejected {
				t.Errorf("rejected %s, want %s", got, tt.rejected)
			}
		})
	}
}

// What was written of a share before the refusal stays in the kinds in which it
// stands: nothing is taken back, and nothing more is written.
func TestFrozenShareStaysHalfWritten(t *testing.T) {
	for _, kind := range []Kind{KindEndpoints, KindEndpointSlice} {
		t.Run(string(kind), func(t *testing.T) {
			w, contributions := stand(t)
			contributions[0] = from("idc-a", 100, "http:80>8080 admin:81>9000", "10.0.0.1", "10.0.0.9")
			refused := []Refusal{{Cluster: "idc-a"}}
			plan := func() Plan {
				left, _ := Without(shopWeb, contributions, refused, w.current)
				return Diff(w.current, mergeOrNil(left, w.current, bothKinds), bothKinds)
			}
			p := Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds)
			w.made = map[Object]string{}
			for _, stage := range p.Sequence() {
				for i := range stage {
					if stage[i].Kind != kind {
						w.apply(&stage[i])
					}
				}
			}
			w.execute(plan(), nil)
			if p := plan(); !p.Empty() {
				t.Errorf("not settled: %s", textOf(t, p))
			}
			if got, want := readyAddresses(w), []string{"10.0.0.1", "10.0.0.9", "10.1.0.1", "10.1.0.2"}; !slices.Equal(got, want) {
				t.Errorf("serves %v, want %v", got, want)
			}
			contributions[0] = from("idc-a", 100, "http:80>8080 admin:81>9000", "10.0.0.9!", "10.0.0.8")
			w.execute(plan(), nil)
			if got, want := readyAddresses(w), []string{"10.1.0.1", "10.1.0.2"}; !slices.Equal(got, want) {
				t.Errorf("after a removal serves %v, want %v", got, want)
			}
		})
	}
}

func TestNothingStandsAndNothingIsAccepted(t *testing.T) {
	left, conflicts := Without(shopWeb, []Contribution{from("idc-a", 1, "http:80", "10.0.0.1")}, []Refusal{{}}, Current{Key: shopWeb})
	if len(left) != 0 || len(conflicts) != 1 {
		t.Errorf("left %+v, conflicts %+v", left, conflicts)
	}
}

func TestSuspects(t *testing.T) {
	w, _ := stand(t)
	same := from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2")
	large := from("idc-c", 300, "http:80>8080", "10.2.0.1", "10.2.0.2", "10.2.0.3")
	changed := from("idc-a", 100, "http:80>8080", "10.0.0.1", "10.0.0.9")
	away := from("idc-d", 400, "http:80>8080", "10.3.0.1")
	away.Unseen = true
	got := Suspects([]Contribution{away, same, changed, large}, w.current)
	if want := []string{"idc-c", "idc-a", "idc-b"}; !slices.Equal(got, want) {
		t.Errorf("suspects %v, want %v", got, want)
	}
}
