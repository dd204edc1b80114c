// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

// port reads "name:number" or "number"; "/UDP" may follow, then ">target".
func port(text string) syncer.ServicePort {
	p := syncer.ServicePort{Protocol: syncer.TCP}
	text, target, targeted := strings.Cut(text, ">")
	text, protocol, _ := strings.Cut(text, "/")
	if protocol != "" {
		p.Protocol = protocol
	}
	if name, rest, found := strings.Cut(text, ":"); found {
		p.Name, text = name, rest
	}
	fmt.Sscan(text, &p.Port)
	p.Target.Number = p.Port
	if targeted {
		p.Target = syncer.TargetPort{Name: target}
		if n, err := fmt.Sscan(target, &p.Target.Number); n == 1 && err == nil {
			p.Target.Name = ""
		}
	}
	return p
}

// from makes the contribution of a cluster whose Service was created at the
// given second and has the ports; one ready pod for each address.
func from(cluster string, created int64, ports string, addresses ...string) Contribution {
	svc := &syncer.Service{Key: shopWeb, UID: cluster, Created: created, Selector: map[string]string{"app": "web"},
		Labels: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4}}
	for text := range strings.FieldsSeq(ports) {
		svc.Ports = append(svc.Ports, port(text))
	}
	if len(svc.Ports) == 0 {
		svc.ClusterIP = syncer.ClusterIPNone
	}
	c := Contribution{Cluster: cluster, Source: shopWeb}
	c.Contribution = syncer.Compute(svc, slices.Values(pods(cluster, addresses...)), syncer.Options{})
	return c
}

// pods makes ready pods; an address may be followed by "!" (not ready) and "~"
// (terminating).
func pods(cluster string, addresses ...string) []*syncer.Pod {
	var out []*syncer.Pod
	for i, text := range addresses {
		pod := &syncer.Pod{Key: syncer.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}, UID: fmt.Sprint(cluster, i),
			Ready: !strings.Contains(text, "!"), NodeName: "node",
			Ports: []syncer.ContainerPort{{Name: "web", Protocol: syncer.TCP, Port: 8080}}}
		if strings.Contains(text, "~") {
			pod.Deleted = 1
		}
		pod.IPs = []syncer.PodIP{{Addr: netip.MustParseAddr(strings.TrimRight(text, "!~"))}}
		out = append(out, pod)
	}
	return out
}

// portsText renders a replica's ports.
func portsText(r *Desired) string {
	var out []string
	for _, p := range r.Service.Ports {
		out = append(out, servicePortText(p))
	}
	return strings.Join(out, " ")
}

// servedText renders the ip:port pairs in a replica's slices with their port
// names, and "!" for those that are not ready.
func servedText(r *Desired) string {
	var out []string
	for _, s := range r.Slices {
		for _, e := range s.Endpoints {
			mark := ""
			if !e.Ready {
				mark = "!"
			}
			for _, p := range s.Ports {
				out = append(out, fmt.Sprintf("%s%s:%s:%d", mark, e.Addr, p.Name, p.Number))
			}
			if len(s.Ports) == 0 {
				out = append(out, mark+e.Addr.String())
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func reasons(r *Desired) string {
	var out []string
	for _, c := range r.Conflicts {
		out = append(out, string(c.Reason)+"@"+c.Cluster)
	}
	for _, h := range r.Held {
		out = append(out, string(h.Reason)+"@"+h.Cluster)
	}
	return strings.Join(out, " ")
}

func TestMergePorts(t *testing.T) {
	tests := []struct {
		name            string
		a, b            string // ports of idc-a, which is older, and of idc-b
		ports           string
		served, trouble string
	}{
		{"equal", "http:80>8080", "http:80>8080", "http:80/TCP→8080", "10.0.0.1:http:8080 10.1.0.1:http:8080", ""},
		{"disjoint", "http:80", "https:443", "http:80/TCP→80 https:443/TCP→443", "10.0.0.1:http:80 10.1.0.1:https:443", ""},
		{"same name, other number", "http:80", "http:8080", "http:80/TCP→80", "10.0.0.1:http:80", "port@idc-b"},
		{"same name, other protocol", "dns:53", "dns:53/UDP", "dns:53/TCP→53", "10.0.0.1:dns:53", "port@idc-b"},
		{"the loser keeps what fits", "http:80", "http:8080 admin:9000", "http:80/TCP→80 admin:9000/TCP→9000",
			"10.0.0.1:http:80 10.1.0.1:admin:9000", "port@idc-b"},
		{"same number, other name", "http:80", "web:80", "http:80/TCP→80", "10.0.0.1:http:80 10.1.0.1:http:80", ""},
		{"same number, other protocol", "dns:53", "dns-udp:53/UDP", "dns:53/TCP→53 dns-udp:53/UDP→53",
			"10.0.0.1:dns:53 10.1.0.1:dns-udp:53", ""},
		{"no name against a name", "http:80", "80>8080", "http:80/TCP→http", "10.0.0.1:http:80 10.1.0.1:http:8080", ""},
		{"no name fits one of several", "http:80 admin:9000", "80", "http:80/TCP→80 admin:9000/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:80 10.1.0.1:http:80", ""},
		{"no name fits none of several", "http:80 admin:9000", "81", "http:80/TCP→80 admin:9000/TCP→9000",
			"10.0.0.1:admin:9000 10.0.0.1:http:80", "port@idc-b"},
		{"no name, the only port on both sides", "http:80", "8080", "http:80/TCP→http", "10.0.0.1:http:80 10.1.0.1:http:8080", ""},
		{"no names, other number", "80", "8080", "80/TCP→80", "10.0.0.1::80", "port@idc-b"},
		{"a name against no name", "80", "http:80", "80/TCP→80", "10.0.0.1::80 10.1.0.1::80", ""},
		{"a second port beside one without a name", "80", "http:80 admin:9000", "80/TCP→80", "10.0.0.1::80 10.1.0.1::80", "port@idc-b"},
		{"targets differ", "http:80>8080", "http:80>9090", "http:80/TCP→http", "10.0.0.1:http:8080 10.1.0.1:http:9090", ""},
		{"named targets agree", "http:80>web", "http:80>web", "http:80/TCP→web", "10.0.0.1:http:8080 10.1.0.1:http:8080", ""},
		{"targets differ, no name", "80>8080", "80>9090", "80/TCP→8080", "10.0.0.1::8080 10.1.0.1::9090", ""},
		{"targets differ, the name is too long for one", "a-very-long-name-for-a-port:80>1", "a-very-long-name-for-a-port:80>2",
			"a-very-long-name-for-a-port:80/TCP→by-endpoint",
			"10.0.0.1:a-very-long-name-for-a-port:1 10.1.0.1:a-very-long-name-for-a-port:2", ""},
		{"no ports in both", "", "", "", "10.0.0.1 10.1.0.1", ""},
		{"no ports in the older", "", "http:80", "http:80/TCP→80", "10.1.0.1:http:80", "headless@idc-b port@idc-a"},
		{"no ports in the younger", "http:80", "", "http:80/TCP→80", "10.0.0.1:http:80", "headless@idc-b port@idc-b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			contributions := []Contribution{from("idc-b", 200, tt.b, "10.1.0.1"), from("idc-a", 100, tt.a, "10.0.0.1")}
			r := Merge(shopWeb, contributions, Current{}, Settings{WriteEndpoints: true, WriteSlices: true})
			if got := portsText(&r); got != tt.ports {
				t.Errorf("ports %q, want %q", got, tt.ports)
			}
			if got := servedText(&r); got != tt.served {
				t.Errorf("served %q, want %q", got, tt.served)
			}
			if got := reasons(&r); got != tt.trouble {
				t.Errorf("conflicts %q, want %q: %+v", got, tt.trouble, r.Conflicts)
			}
		})
	}
}

// The age of the Services decides, and with equal ages the clusters' names: not
// who was seen first.
func TestOlderServiceWins(t *testing.T) {
	for _, tt := range []struct {
		a, b   int64
		winner string
	}{{100, 200, "idc-a"}, {200, 100, "idc-b"}, {100, 100, "idc-a"}} {
		a, b := from("idc-a", tt.a, "http:80"), from("idc-b", tt.b, "http:81")
		a.Service.Labels, b.Service.Labels = map[string]string{"from": "idc-a"}, map[string]string{"from": "idc-b"}
		for _, contributions := range [][]Contribution{{a, b}, {b, a}} {
			r := Merge(shopWeb, contributions, Current{}, bothKinds)
			if got := r.Service.Labels["from"]; got != tt.winner || r.Endpoints.Labels["from"] != tt.winner {
				t.Errorf("created %d and %d: %s won, want %s", tt.a, tt.b, got, tt.winner)
			}
			for _, s := range r.Slices {
				if s.Labels["from"] != s.Cluster {
					t.Errorf("slice of %s has labels %v", s.Cluster, s.Labels)
				}
			}
		}
	}
}

func TestSameAddressFromTwoMembers(t *testing.T) {
	tests := []struct{ name, a, b, served, trouble string }{
		{"alive in both", "10.0.0.1", "10.0.0.1", "10.0.0.1:http:8080 10.0.0.9:http:8080", "duplicate_ip@idc-b"},
		{"ready goes before old", "10.0.0.1!", "10.0.0.1", "10.0.0.1:http:9090 10.0.0.9:http:8080", "duplicate_ip@idc-a"},
		{"moves to the younger", "10.0.0.1~", "10.0.0.1!", "!10.0.0.1:http:9090 10.0.0.9:http:8080", ""},
		{"moves to the older", "10.0.0.1!", "10.0.0.1~", "!10.0.0.1:http:8080 10.0.0.9:http:8080", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Merge(shopWeb, []Contribution{
				from("idc-a", 100, "http:80>8080", tt.a, "10.0.0.9"), from("idc-b", 200, "http:80>9090", tt.b),
			}, Current{}, bothKinds)
			if got := servedText(&r); got != tt.served {
				t.Errorf("served %q, want %q", got, tt.served)
			}
			if got := reasons(&r); got != tt.trouble {
				t.Errorf("conflicts %q, want %q", got, tt.trouble)
			}
		})
	}
}

// One member's replica is what its own controller would write.
func TestOneMemberIsVerbatim(t *testing.T) {
	c := from("idc-a", 100, "http:80>8080 web:81>web", "10.0.0.1", "10.0.0.2!", "10.0.0.3~")
	c.Trigger = time.Unix(5, 0)
	r := Merge(shopWeb, []Contribution{c}, Current{}, Settings{WriteEndpoints: true, WriteSlices: true})
	if want := syncer.Subsets(c.Endpoints, syncer.IPv4); !equalSubsets(r.Endpoints.Subsets, want) {
		t.Errorf("subsets %+v, want %+v", r.Endpoints.Subsets, want)
	}
	if !r.Endpoints.Trigger.Equal(c.Trigger) || !r.Slices[0].Trigger.Equal(c.Trigger) {
		t.Error("the trigger time is lost")
	}
	byHand := c
	byHand.Contribution = syncer.HandWritten(&syncer.Service{Key: shopWeb, Ports: c.Service.Ports}, []syncer.Subset{
		{Ready: []syncer.Address{{Addr: netip.MustParseAddr("10.0.0.9")}}, Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 1}}},
		{Ready: []syncer.Address{{Addr: netip.MustParseAddr("10.0.0.1")}}, Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 1}}},
	}, nil, false, syncer.Options{})
	r = Merge(shopWeb, []Contribution{byHand}, Current{}, Settings{WriteEndpoints: true, WriteSlices: true, Capacity: 1})
	if !equalSubsets(r.Endpoints.Subsets, byHand.Subsets) || r.Endpoints.Truncated {
		t.Errorf("hand-written subsets %+v", r.Endpoints.Subsets)
	}
	if got := portsText(&r); got != "http:80/TCP→http web:81/TCP→web" {
		t.Errorf("a target port that is not true of the endpoints: %s", got)
	}
}

func TestCapacity(t *testing.T) {
	var addresses []string
	for i := range 5000 {
		addresses = append(addresses, netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(1 + i%250)}).String())
	}
	r := Merge(shopWeb, []Contribution{from("idc-a", 1, "http:80", addresses...), from("idc-b", 2, "http:80", "10.9.0.1")},
		Current{}, Settings{WriteEndpoints: true, WriteSlices: true})
	if n := countAddresses(r.Endpoints.Subsets); n != 1000 || !r.Endpoints.Truncated || r.Endpoints.Annotations[AnnotationOverCapacity] != OverCapacity {
		t.Errorf("%d addresses, truncated %v, annotations %v", n, r.Endpoints.Truncated, r.Endpoints.Annotations)
	}
	if len(r.Slices) != 51 {
		t.Errorf("%d slices, want 51", len(r.Slices))
	}
}

func TestSteering(t *testing.T) {
	type flags struct {
		drain, force, stale bool
		failover            int
	}
	tests := []struct {
		name            string
		a, b            string // address of idc-a and of idc-b
		fa, fb          flags
		served, trouble string
	}{
		{"drained", "10.0.0.1", "10.1.0.1", flags{drain: true}, flags{}, "10.1.0.1:http:80", ""},
		{"drained, the other is not ready", "10.0.0.1", "10.1.0.1!", flags{drain: true}, flags{}, "!10.1.0.1:http:80 10.0.0.1:http:80", "drain_last_ready@idc-a"},
		{"drained by force", "10.0.0.1", "10.1.0.1!", flags{drain: true, force: true}, flags{}, "!10.1.0.1:http:80", ""},
		{"both drained", "10.0.0.1", "10.1.0.1", flags{drain: true}, flags{drain: true}, "10.0.0.1:http:80 10.1.0.1:http:80", "drain_last_ready@idc-a drain_last_ready@idc-b"},
		{"drained without ready ones", "10.0.0.1!", "10.1.0.1!", flags{drain: true}, flags{}, "!10.1.0.1:http:80", ""},
		{"first serves", "10.0.0.1", "10.1.0.1", flags{failover: 2}, flags{failover: 1}, "10.1.0.1:http:80", ""},
		{"second serves", "10.0.0.1", "10.1.0.1!", flags{failover: 2}, flags{failover: 1}, "10.0.0.1:http:80", ""},
		{"none is ready", "10.0.0.1!", "10.1.0.1!", flags{failover: 2}, flags{failover: 1}, "!10.1.0.1:http:80", ""},
		{"first is drained", "10.0.0.1", "10.1.0.1", flags{failover: 2}, flags{failover: 1, drain: true}, "10.0.0.1:http:80", ""},
		{"beside one that always serves", "10.0.0.1", "10.1.0.1", flags{}, flags{failover: 1}, "10.0.0.1:http:80 10.1.0.1:http:80", ""},
		{"stale", "10.0.0.1", "10.1.0.1", flags{stale: true}, flags{}, "!10.0.0.1:http:80 10.1.0.1:http:80", ""},
		{"stale, the other is not ready", "10.0.0.1", "10.1.0.1!", flags{stale: true}, flags{}, "!10.1.0.1:http:80 10.0.0.1:http:80", "stale_last_ready@idc-a"},
		{"both stale", "10.0.0.1", "10.1.0.1", flags{stale: true}, flags{stale: true}, "10.0.0.1:http:80 10.1.0.1:http:80", "stale_last_ready@idc-a stale_last_ready@idc-b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := from("idc-a", 100, "http:80", tt.a), from("idc-b", 200, "http:80", tt.b)
			for c, f := range map[*Contribution]flags{&a: tt.fa, &b: tt.fb} {
				c.Drain, c.DrainForce, c.Stale, c.Failover = f.drain, f.force, f.stale, f.failover
			}
			r := Merge(shopWeb, []Contribution{a, b}, Current{}, bothKinds)
			if got := servedText(&r); got != tt.served {
				t.Errorf("served %q, want %q", got, tt.served)
			}
			if got := reasons(&r); got != tt.trouble {
				t.Errorf("reported %q, want %q", got, tt.trouble)
			}
			if portsText(&r) != "http:80/TCP→80" {
				t.Errorf("the Service changed: %s", portsText(&r))
			}
		})
	}
}

// Who is out of sight is no reason to take another's last endpoints away, nor to put back what
// was taken away before.
func TestWhoIsOutOfSightReplacesNobody(t *testing.T) {
	for name, leave := range map[string]func(*Contribution){
		"drained": func(c *Contribution) { c.Drain = true },
		"stale":   func(c *Contribution) { c.Stale = true },
	} {
		w := newWorld(t, shopWeb)
		run := func(leaves, away bool, served, held string) {
			t.Helper()
			a, b := from("idc-a", 100, "http:80", "10.0.0.1"), from("idc-b", 200, "http:80", "10.1.0.1")
			if b.Away = away; leaves {
				leave(&a)
			}
			r := Merge(shopWeb, []Contribution{a, b}, w.current, bothKinds)
			if got, told := servedText(&r), len(r.Held) > 0; got != served || told != (held != "") {
				t.Errorf("%s, the other away %t: served %q, held %v", name, away, got, r.Held)
			}
			w.settle(&r, bothKinds, nil)
		}
		both, left := "10.0.0.1:http:80 10.1.0.1:http:80", "10.1.0.1:http:80"
		if name == "stale" {
			left = "!10.0.0.1:http:80 10.1.0.1:http:80"
		}
		run(false, false, both, "")
		run(true, true, both, "held")
		run(true, false, left, "")
		run(true, true, left, "")
	}
}

func TestLabels(t *testing.T) {
	c := from("idc-a", 1, "http:80", "10.0.0.1")
	c.Service.Labels = map[string]string{
		"app": "web", "example.com/team": "a_b.c", "empty": "",
		LabelManagedBy: "Helm", "tributary.dev/fenced": "x", LabelHeadless: "x", LabelEndpointsManagedBy: "endpoint-controller", LabelSliceManagedBy: "x",
		LabelServiceName: "x", LabelSourceCluster: "x", LabelSkipMirror: "false",
		"bad key": "v", "-a": "v", "a/b/c": "v", "UP.case/a": "v", "value": "bad value", "long": strings.Repeat("x", 64), "ümlaut": "v", "/a": "v", "": "v",
	}
	r := Merge(shopWeb, []Contribution{c}, Current{}, bothKinds)
	kept := map[string]string{"app": "web", "example.com/team": "a_b.c", "empty": ""}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(kept)
		maps.Copy(all, more)
		return all
	}
	for _, tt := range []struct {
		kind      Kind
		got, want map[string]string
	}{
		{KindService, r.Service.Labels, with(map[string]string{LabelManagedBy: ManagedBy, LabelInstance: "default"})},
		{KindEndpoints, r.Endpoints.Labels, with(map[string]string{LabelManagedBy: ManagedBy, LabelInstance: "default", LabelSkipMirror: "true", LabelHeadless: ""})},
		{KindEndpointSlice, r.Slices[0].Labels, with(map[string]string{LabelManagedBy: ManagedBy, LabelInstance: "default", LabelSliceManagedBy: SliceManagedBy,
			LabelServiceName: "web", LabelSourceCluster: "idc-a", LabelHeadless: ""})},
	} {
		if !maps.Equal(tt.got, tt.want) {
			t.Errorf("%s: labels %v, want %v", tt.kind, tt.got, tt.want)
		}
		if !marked(tt.kind, tt.got) {
			t.Errorf("%s: without the mark", tt.kind)
		}
	}
}

// A member that names garbage harms nobody but itself.
func TestHostilePortsAreLeftOut(t *testing.T) {
	c := from("idc-a", 1, "http:80", "10.0.0.1")
	svc := *c.Service
	bad := "not a name"
	svc.Ports = append(slices.Clone(svc.Ports), syncer.ServicePort{Name: "Bad_Name", Port: 81}, syncer.ServicePort{Name: "zero"},
		syncer.ServicePort{Name: "http", Port: 82}, syncer.ServicePort{Name: "twice", Port: 80}, syncer.ServicePort{Port: 83},
		syncer.ServicePort{Name: "proto", Port: 84, Protocol: "ICMP"}, syncer.ServicePort{Name: "app", Port: 85, AppProtocol: &bad})
	c.Service = &svc
	r := Merge(shopWeb, []Contribution{c}, Current{}, bothKinds)
	if got := portsText(&r); got != "http:80/TCP→80 app:85/TCP→85" || r.Service.Ports[1].AppProtocol != nil {
		t.Errorf("ports %s", got)
	}
}

func TestInputsAreNotChanged(t *testing.T) {
	a, b := from("idc-a", 100, "http:80", "10.0.0.1"), from("idc-b", 200, "web:80", "10.0.0.1", "10.1.0.1")
	a.Stale, b.Drain = true, true
	before := fmt.Sprintf("%+v %+v %+v", a, b, b.Endpoints[1].Ports)
	Merge(shopWeb, []Contribution{a, b}, Current{}, bothKinds)
	if after := fmt.Sprintf("%+v %+v %+v", a, b, b.Endpoints[1].Ports); after != before {
		t.Errorf("before %s\nafter  %s", before, after)
	}
}

// A Service from beyond the year 9999 has a record like any other, and the others keep
// theirs.
func TestCreationThatNoRecordHolds(t *testing.T) {
	for _, created := range []int64{1 << 60, -1 << 60, guessedAge, guessedAge + 1} {
		contributions := []Contribution{from("idc-a", created, "http:80", "10.0.0.1"), from("idc-b", 200, "http:80", "10.1.0.1")}
		w := newWorld(t, shopWeb)
		w.settle(mergeOrNil(contributions, w.current, bothKinds), bothKinds, nil)
		if got := w.current.Clusters(); len(got) != 2 || len(w.current.sources()) != 2 {
			t.Errorf("created %d: shares of %v, record %s", created, got, w.current.Service.Annotations[AnnotationSources])
		}
		if p := Diff(w.current, mergeOrNil(append(contributions[1:2:2], w.current.Share("idc-a")...), w.current, bothKinds), bothKinds); !p.Empty() {
			t.Errorf("created %d: a restart writes %s", created, textOf(t, p))
		}
	}
}
