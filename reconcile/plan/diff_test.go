// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

// stand returns a world in which the replica of two members stands, and the wish.
func stand(t testing.TB) (*world, []Contribution) {
	t.Helper()
	w := newWorld(t, shopWeb)
	contributions := []Contribution{
		from("idc-a", 100, "http:80>8080 admin:81>9000", "10.0.0.1", "10.0.0.2", "10.0.0.3!", "10.0.0.4"),
		from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2"),
	}
	w.settle(mergeOrNil(contributions, w.current, bothKinds), bothKinds, nil)
	w.writes = 0
	return w, contributions
}

// Whatever is done to our objects by hand is put back, and only that is written.
func TestRepairs(t *testing.T) {
	tests := []struct {
		name   string
		damage func(*Current)
		writes int
		reason ConflictReason
	}{
		{"nothing", func(*Current) {}, 0, ""},
		{"foreign annotations", func(o *Current) {
			o.Service.Annotations = with(o.Service.Annotations, "field.cattle.io/publicEndpoints", "x")
			o.Endpoints.Annotations = with(o.Endpoints.Annotations, AnnotationTrigger, "2020-01-01T00:00:00Z")
		}, 0, ""},
		{"a label on each", func(o *Current) {
			o.Service.Labels = with(o.Service.Labels, "by", "hand")
			o.Endpoints.Labels = with(o.Endpoints.Labels, "by", "hand")
			o.Slices[0].Labels = with(o.Slices[0].Labels, "by", "hand")
		}, 3, ""},
		{"skip-mirror is taken off", func(o *Current) {
			o.Endpoints.Labels = without(o.Endpoints.Labels, LabelSkipMirror)
		}, 1, ""},
		{"our annotations are taken off", func(o *Current) { o.Service.Annotations = nil }, 1, ""},
		{"a selector", func(o *Current) { o.Service.Selector = map[string]string{"app": "web"} }, 1, ConflictSelector},
		{"a port of the Service", func(o *Current) {
			o.Service.Ports = slices.Clone(o.Service.Ports)
			o.Service.Ports[0].Target = syncer.TargetPort{Number: 1}
		}, 1, ""},
		{"a field that no replica has", func(o *Current) { o.Service.Stray = []string{"externalIPs"} }, 1, ""},
		{"what servers default", func(o *Current) {
			o.Service.Ports = slices.Clone(o.Service.Ports)
			for i := range o.Service.Ports {
				o.Service.Ports[i].Protocol = ""
			}
		}, 0, ""},
		{"Service deleted", func(o *Current) { *o = Current{Key: o.Key, Namespace: NamespaceActive} }, 5, ""},
		{"Service recreated, slices of the old one left", func(o *Current) { o.Service.UID = "new" }, 3, ""},
		{"Service with a clusterIP", func(o *Current) { o.Service.Headless = false }, 6, ""},
		{"Endpoints deleted", func(o *Current) { o.Endpoints = nil }, 1, ""},
		{"Endpoints in another order", func(o *Current) {
			slices.Reverse(o.Endpoints.Subsets)
			slices.Reverse(o.Endpoints.Subsets[0].Ready)
		}, 0, ""},
		{"Endpoints emptied", func(o *Current) { o.Endpoints.Subsets = nil }, 1, ""},
		{"over-capacity claimed", func(o *Current) {
			o.Endpoints.Annotations = with(o.Endpoints.Annotations, AnnotationOverCapacity, OverCapacity)
		}, 1, ""},
		{"slice deleted", func(o *Current) { o.Slices = o.Slices[1:] }, 1, ""},
		{"slice of ours added", func(o *Current) {
			extra := o.Slices[0]
			extra.Meta.Name, extra.Slice.Name = "web-zzz", "web-zzz"
			o.Slices = append(o.Slices, extra)
		}, 1, ""},
		{"endpoint marked not ready", func(o *Current) {
			o.Slices[0].Endpoints = slices.Clone(o.Slices[0].Endpoints)
			o.Slices[0].Endpoints[0].Ready = false
		}, 1, ""},
		{"ports of a slice", func(o *Current) {
			o.Slices[0].Ports = []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 1}}
		}, 2, ""},
		{"slice with what only others write", func(o *Current) { o.Slices[0].Malformed = true }, 1, ""},
		{"slice of no cluster", func(o *Current) { o.Slices[0].Cluster = "" }, 2, ""},
		{"foreign slice beside ours", func(o *Current) {
			o.Slices = append(o.Slices, CurrentSlice{Meta: Meta{Name: "web-zzz"}, Slice: syncer.Slice{Name: "web-zzz"}})
		}, 0, ""},
		{"foreign slice that has endpoints", func(o *Current) {
			o.Slices = append(o.Slices, CurrentSlice{Meta: Meta{Name: "web-zzz"}, Slice: syncer.Slice{Name: "web-zzz"}, Serves: true})
		}, 0, ConflictForeign},
		{"foreign Endpoints", func(o *Current) { o.Endpoints.strip() }, 0, ConflictForeign},
		{"foreign Endpoints and a clusterIP", func(o *Current) { o.Endpoints.strip(); o.Service.Headless = false }, 0, ConflictForeign},
		{"foreign Service", func(o *Current) { o.Service.strip(); o.Endpoints = nil }, 0, ConflictForeign},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, contributions := stand(t)
			tt.damage(&w.current)
			foreign := w.foreignSnapshot()
			first := Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds)
			if !first.Empty() || tt.writes > 0 {
				settled(t, w, contributions)
			}
			if w.writes != tt.writes {
				t.Errorf("%d writes, want %d: %s", w.writes, tt.writes, textOf(t, first))
			}
			reason := ConflictReason("")
			if len(first.Conflicts) > 0 {
				reason = first.Conflicts[0].Reason
			}
			if reason != tt.reason {
				t.Errorf("conflict %q, want %q", reason, tt.reason)
			}
			if w.foreignSnapshot() != foreign {
				t.Error("a foreign object changed")
			}
		})
	}
}

// settled writes, with a new merge for each pass as the loop does, until there
// is nothing to do.
func settled(t *testing.T, w *world, contributions []Contribution) {
	t.Helper()
	for range 3 {
		w.execute(Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds), nil)
	}
	if p := Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds); !p.Empty() {
		t.Errorf("not settled: %s", textOf(t, p))
	}
}

func with(in map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range in {
		if k != key {
			out[k] = v
		}
	}
	return out
}

func without(in map[string]string, key string) map[string]string {
	out := maps.Clone(in)
	delete(out, key)
	return out
}

// A foreign object that appears where a replica is to be made stays as it is.
func TestForeignObjectsStandInTheWay(t *testing.T) {
	contributions := []Contribution{from("idc-a", 1, "http:80", "10.0.0.1")}
	w := newWorld(t, shopWeb)
	fresh := Merge(shopWeb, contributions, w.current, bothKinds)
	w.current.Slices = []CurrentSlice{{Meta: Meta{Name: fresh.Slices[0].Name}, Slice: syncer.Slice{Name: fresh.Slices[0].Name}}}
	w.current.Endpoints = &CurrentEndpoints{Meta: Meta{Name: "web"}}
	settled(t, w, contributions)
	if len(w.current.Slices) != 2 || w.current.Endpoints.Owned {
		t.Errorf("slices %+v", w.current.Slices)
	}
	// An API server deletes the Endpoints along with their Service, whosever they are.
	w.execute(Diff(w.current, nil, bothKinds), nil)
	if len(w.current.Slices) != 1 || w.current.Endpoints == nil || w.current.Service == nil {
		t.Errorf("after the removal: %+v", w.current)
	}
	p := Diff(w.current, nil, bothKinds)
	if !p.Empty() || len(p.Conflicts) != 1 {
		t.Errorf("plan %s", textOf(t, p))
	}
	w.current.Endpoints = nil
	w.execute(Diff(w.current, nil, bothKinds), nil)
	if len(w.current.Slices) != 1 || w.current.Service != nil {
		t.Errorf("after the way was clear: %+v", w.current)
	}
}

func TestWaits(t *testing.T) {
	deleting := func(w *world) { w.current.Service.Deleting = true }
	tests := []struct {
		name     string
		set      func(w *world)
		create   bool
		waiting  WaitReason
		stages   int
		unwanted bool
	}{
		{"namespace missing", func(w *world) { w.current = Current{Key: shopWeb} }, false, WaitNamespaceMissing, 0, false},
		{"namespace to be created", func(w *world) { w.current = Current{Key: shopWeb} }, true, "", 4, false},
		{"namespace terminating", func(w *world) { w.current.Namespace = NamespaceTerminating }, true, WaitNamespaceTerminating, 0, false},
		{"Service being deleted", deleting, true, WaitObjectDeleting, 0, false},
		{"Endpoints being deleted", func(w *world) { w.current.Endpoints.Deleting = true }, true, WaitObjectDeleting, 0, false},
		{"slice being deleted", func(w *world) { w.current.Slices[0].Deleting = true }, true, WaitObjectDeleting, 0, false},
		{"unwanted Service being deleted", deleting, true, WaitObjectDeleting, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, contributions := stand(t)
			tt.set(w)
			settings := bothKinds
			settings.CreateNamespaces = tt.create
			desired := mergeOrNil(contributions, w.current, settings)
			if tt.unwanted {
				desired = nil
			}
			p := Diff(w.current, desired, settings)
			if p.Waiting != tt.waiting || len(p.Sequence()) != tt.stages {
				t.Errorf("waiting %q with %d stages, want %q with %d: %s", p.Waiting, len(p.Sequence()), tt.waiting, tt.stages, textOf(t, p))
			}
		})
	}
}

// The usual change costs one stage: both kinds are written at once.
func TestStages(t *testing.T) {
	verbs := func(p Plan) (out []string) {
		for i, stage := range p.Sequence() {
			for _, a := range stage {
				out = append(out, string('1'+rune(i))+" "+string(a.Verb)+" "+string(a.Kind))
			}
		}
		return out
	}
	tests := []struct {
		name string
		edit func([]Contribution) []Contribution
		want []string
	}{
		{"pod leaves", func(c []Contribution) []Contribution {
			return []Contribution{c[0], from("idc-b", 200, "http:80>8080", "10.1.0.1")}
		}, []string{"1 update Endpoints", "1 update EndpointSlice"}},
		{"pods overflow a slice", func(c []Contribution) []Contribution {
			return []Contribution{c[0], from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4")}
		}, []string{"1 create EndpointSlice", "2 update Endpoints"}},
		{"target ports change", func(c []Contribution) []Contribution {
			return []Contribution{c[0], from("idc-b", 200, "http:80>8081", "10.1.0.1", "10.1.0.2")}
		}, []string{"1 update Service", "2 create EndpointSlice", "3 update Endpoints", "4 delete EndpointSlice"}},
		{"member leaves", func(c []Contribution) []Contribution { return c[:1] },
			[]string{"1 update Endpoints", "1 delete EndpointSlice", "2 update Service"}},
		{"a pod is replaced", func(c []Contribution) []Contribution {
			return []Contribution{c[0], from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.3")}
		}, []string{"1 update Endpoints", "1 update EndpointSlice"}},
		{"a pod leaves and the labels change", func(c []Contribution) []Contribution {
			return []Contribution{c[0], labelled(from("idc-b", 200, "http:80>8080", "10.1.0.1"))}
		}, []string{"1 update Endpoints", "1 update EndpointSlice"}},
		{"a pod leaves and others overflow a slice", func(c []Contribution) []Contribution {
			return []Contribution{c[0], from("idc-b", 200, "http:80>8080", "10.1.0.1", "10.1.0.3", "10.1.0.4", "10.1.0.5")}
		}, []string{"1 update Endpoints", "1 update EndpointSlice", "2 create EndpointSlice", "3 update Endpoints"}},
		{"a pod leaves and the ports change", func(c []Contribution) []Contribution {
			return []Contribution{c[0], from("idc-b", 200, "http:80>8081", "10.1.0.1")}
		}, []string{"1 update Endpoints", "1 update EndpointSlice", "2 update Service", "3 create EndpointSlice", "4 update Endpoints", "5 delete EndpointSlice"}},
		{"one is drained", func(c []Contribution) []Contribution {
			c[1].Drain = true
			return c
		}, []string{"1 update Endpoints", "1 update EndpointSlice"}},
		{"another takes over", func(c []Contribution) []Contribution {
			c[0].Failover, c[1].Failover = 2, 1
			return c
		}, []string{"1 update Endpoints", "1 update EndpointSlice", "1 delete EndpointSlice"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, contributions := stand(t)
			p := Diff(w.current, mergeOrNil(tt.edit(contributions), w.current, bothKinds), bothKinds)
			if got := verbs(p); !slices.Equal(got, tt.want) {
				t.Errorf("stages %q, want %q", got, tt.want)
			}
		})
	}
}

func labelled(c Contribution) Contribution {
	c.Service.Labels = map[string]string{"team": "blue"}
	return c
}

// Who takes over gets its slices before the other loses them, and only if it got them.
func TestTakingOverComesBeforeLeaving(t *testing.T) {
	w, contributions := stand(t)
	contributions[0].Failover, contributions[1].Failover = 1, 2
	settled(t, w, contributions)
	contributions[0].Failover, contributions[1].Failover = 2, 1
	p := Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds)
	last := p.Stages[len(p.Stages)-1]
	if len(p.Removals) > 0 || len(last) == 0 {
		t.Fatalf("plan %s", textOf(t, p))
	}
	for _, a := range last {
		if a.Kind == KindEndpointSlice && len(a.Needs) == 0 {
			t.Errorf("%s %s needs nothing: %s", a.Verb, a.Name, textOf(t, p))
		}
	}
}

// Switching a kind off removes it, and on again writes it.
func TestKindsSwitched(t *testing.T) {
	w, contributions := stand(t)
	for _, s := range []Settings{
		{WriteEndpoints: true, MaxEndpointsPerSlice: 3}, {WriteSlices: true, MaxEndpointsPerSlice: 3},
		{MaxEndpointsPerSlice: 3}, {WriteEndpoints: true, WriteSlices: true, MaxEndpointsPerSlice: 3},
	} {
		w.settle(mergeOrNil(contributions, w.current, s), s, nil)
		if (w.current.Endpoints != nil) != s.WriteEndpoints || (len(w.current.Slices) > 0) != s.WriteSlices {
			t.Errorf("%+v: %+v", s, w.current)
		}
	}
}

func TestRecords(t *testing.T) {
	w, contributions := stand(t)
	if got := w.current.Clusters(); !slices.Equal(got, []string{"idc-a", "idc-b"}) {
		t.Errorf("shares of %v", got)
	}
	const sources = `[{"cluster":"idc-a","service":"shop/web","created":"1970-01-01T00:01:40Z","ports":["http","admin"],"family":"IPv4"},` +
		`{"cluster":"idc-b","service":"shop/web","created":"1970-01-01T00:03:20Z","ports":["http"],"family":"IPv4"}]`
	if got := w.current.Service.Annotations[AnnotationSources]; got != sources {
		t.Errorf("sources %s", got)
	}
	if got := w.current.Endpoints.Annotations[AnnotationAddresses]; got != "" {
		t.Errorf("addresses recorded twice: %s", got)
	}
	only := Settings{WriteEndpoints: true}
	w.settle(mergeOrNil(contributions, w.current, only), only, nil)
	if got := w.current.Endpoints.Annotations[AnnotationAddresses]; got != "idc-a=*;idc-b=10.1.0.1,10.1.0.2" {
		t.Errorf("addresses %s", got)
	}
	w.current.Service.Annotations = nil
	if got := w.current.Clusters(); !slices.Equal(got, []string{"idc-a", "idc-b"}) {
		t.Errorf("shares of %v without sources", got)
	}
}

// TestRecordOfPublishing: the record says which Services publish all their pods, and whose
// endpoints are written by hand, once, and nothing of others. It outlasts a restart while the member is away.
func TestRecordOfPublishing(t *testing.T) {
	w, contributions := stand(t)
	contributions[0].HandWritten, contributions[1].Publishes = true, true
	contributions[0].WrittenIn = []string{"Endpoints", "web-x"}
	w.settle(mergeOrNil(contributions, w.current, bothKinds), bothKinds, nil)
	if w.writes != 1 {
		t.Errorf("%d writes for a word on record", w.writes)
	}
	text := w.current.Service.Annotations[AnnotationSources]
	if first, second, _ := strings.Cut(text, "},{"); strings.Contains(first, "publishes") || !strings.HasSuffix(first, `,"handWritten":true,"writtenIn":["Endpoints","web-x"]`) || !strings.HasSuffix(second, `,"publishes":true}]`) {
		t.Errorf("sources %s", text)
	}
	for cluster, want := range map[string][]syncer.Key{"idc-a": nil, "idc-b": {shopWeb}} {
		if got := w.current.Standing(cluster).Publishing; !slices.Equal(got, want) {
			t.Errorf("%s publishes %v, want %v", cluster, got, want)
		}
		if got := w.current.Standing(cluster).HandWritten; len(got) > 0 != (cluster == "idc-a") || len(got) > 0 && !slices.Equal(got[shopWeb], contributions[0].WrittenIn) {
			t.Errorf("%s is written by hand for %v", cluster, got)
		}
	}
	away := slices.Concat(w.current.Share("idc-a"), w.current.Share("idc-b"))
	if p := Diff(w.current, mergeOrNil(away, w.current, bothKinds), bothKinds); !p.Empty() {
		t.Errorf("while all are away: %+v", p)
	}
	contributions[0].HandWritten, contributions[1].Publishes = false, false
	contributions[0].WrittenIn = nil
	w.settle(mergeOrNil(contributions, w.current, bothKinds), bothKinds, nil)
	if text := w.current.Service.Annotations[AnnotationSources]; strings.Contains(text, "publishes") {
		t.Errorf("sources %s", text)
	}
}

// TestRecordOfTargets: where a cluster gives a replica both hand-written endpoints and computed
// ones, the record says which of them name a pod by hand, also while the member is away.
func TestRecordOfTargets(t *testing.T) {
	for name, mixed := range map[string]bool{"mixed": true, "by hand alone": false} {
		t.Run(name, func(t *testing.T) {
			w, contributions := stand(t)
			for i := range contributions {
				contributions[i].Cluster, contributions[i].Source = "idc-a", syncer.Key{Namespace: []string{"shop-1", "shop-2"}[i], Name: shopWeb.Name}
				contributions[i].HandWritten = i == 0 || !mixed
			}
			of := []netip.Addr{contributions[0].Endpoints[0].Addr}
			contributions[0].WrittenOf = of
			w.settle(mergeOrNil(contributions, w.current, bothKinds), bothKinds, nil)
			if got := w.current.Standing("idc-a").WrittenOf; slices.Equal(got, of) != mixed {
				t.Errorf("by hand are %v of %v", got, of)
			}
			if p := Diff(w.current, mergeOrNil(w.current.Share("idc-a"), w.current, bothKinds), bothKinds); !p.Empty() {
				t.Errorf("while it is away: %+v", p)
			}
		})
	}
}

// A change was written to one kind, and the process ended before the other. Both stay
// as they are until the member is seen: neither is taken for more than it says.
func TestHalfWrittenChangesOutliveARestart(t *testing.T) {
	for name, changed := range map[string][]string{
		"added":     {"10.1.0.1", "10.1.0.2", "10.1.0.3"},
		"removed":   {"10.1.0.1"},
		"unready":   {"10.1.0.1", "10.1.0.2!"},
		"exchanged": {"10.1.0.1!", "10.1.0.3"},
		"ports":     {"10.1.0.1", "10.1.0.2"},
	} {
		for _, kind := range []Kind{KindEndpoints, KindEndpointSlice} {
			t.Run(name+" in "+string(kind), func(t *testing.T) {
				w, contributions := stand(t)
				ports := "http:80>8080"
				if name == "ports" {
					ports += " admin:81>9000"
				}
				contributions[1] = from("idc-b", 200, ports, changed...)
				p := Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds)
				w.made = map[Object]string{}
				for _, stage := range p.Sequence() {
					for i := range stage {
						if stage[i].Kind == kind {
							w.apply(&stage[i])
						}
					}
				}
				a, b := expected("idc-a", w), expected("idc-b", w)
				for seen, shares := range map[string][]Contribution{
					"nobody": append(slices.Clone(a), b...), "the other": append(contributions[:1:1], b...),
				} {
					if p := Diff(w.current, mergeOrNil(shares, w.current, bothKinds), bothKinds); !p.Empty() {
						t.Errorf("%s is seen yet: writes %s", seen, textOf(t, p))
					}
				}
			})
		}
	}
}

// expected is the share of a member that has not been seen yet.
func expected(cluster string, w *world) []Contribution {
	share := w.current.Share(cluster)
	for i := range share {
		share[i].Expected = true
	}
	return share
}

// An address in Endpoints that nobody claims is kept while a member may claim it; one
// that no pod has was not written by us, and goes.
func TestUnclaimedAddresses(t *testing.T) {
	w, contributions := stand(t)
	first := &w.current.Endpoints.Subsets[0]
	theirs := syncer.Address{Addr: netip.MustParseAddr("203.0.113.7")}
	ours := syncer.Address{Addr: netip.MustParseAddr("10.1.0.3"), Target: first.Ready[0].Target}
	first.Ready = append(slices.Clone(first.Ready), ours, theirs)
	w.settle(mergeOrNil(append(contributions[:1:1], expected("idc-b", w)...), w.current, bothKinds), bothKinds, nil)
	if got, want := readyAddresses(w), []string{"10.0.0.1", "10.0.0.2", "10.0.0.4", "10.1.0.1", "10.1.0.2", "10.1.0.3"}; !slices.Equal(got, want) {
		t.Errorf("serves %v, want %v", got, want)
	}
	w.settle(mergeOrNil(contributions, w.current, bothKinds), bothKinds, nil)
	if got, want := readyAddresses(w), []string{"10.0.0.1", "10.0.0.2", "10.0.0.4", "10.1.0.1", "10.1.0.2"}; !slices.Equal(got, want) {
		t.Errorf("when all are seen, serves %v, want %v", got, want)
	}
}

// Records may be edited by hand: nothing that they say can do more harm than
// their absence.
func FuzzRecords(f *testing.F) {
	f.Add(`[{"cluster":"idc-a","service":"shop/web","created":"2020-01-01T00:00:00Z","ports":["http"]}]`, "idc-a=*;idc-b=10.0.0.1")
	f.Add("null", "only:=;;*=,")
	f.Add(`[{"cluster":"idc-a","service":"shop/web","created":"9999-12-31T23:59:59Z","ports":null,"agedReady":["10.0.0.1"]}]`, "only:idc-a=10.0.0.1;x=*")
	f.Add(`[{"cluster":"idc-a","service":"shop/web","created":"99999-01-01T00:00:00Z"}]`, "=;=*;idc-a")
	f.Add(strings.Repeat("[", 20_000), strings.Repeat("idc-a=*;", 2_000))
	f.Add(`[{"cluster":"ghost","service":"/"},{"cluster":"A","service":"x/y"},null,{"cluster":"idc-b","service":"x/y","family":"IPv9","annotations":{"tributary.dev/mode":"\u0000"}}]`, "idc-a=10.0.0.1,,,10.0.0.999")
	f.Fuzz(func(t *testing.T, sources, addresses string) {
		w, contributions := stand(t)
		w.current.Service.Annotations = map[string]string{AnnotationSources: sources}
		w.current.Service.Record = ReadRecord(w.current.Service.Annotations)
		w.current.Endpoints.Annotations = map[string]string{AnnotationAddresses: addresses}
		w.current.Endpoints.Owners = ReadOwners(w.current.Endpoints.Annotations)
		var recovered []Contribution
		for _, cluster := range w.current.Clusters() {
			recovered = append(recovered, w.current.Share(cluster)...)
		}
		r := Merge(shopWeb, recovered, w.current, bothKinds)
		if got, want := servedText(&r), mergeOrNil(contributions, w.current, bothKinds); got != servedText(want) {
			t.Errorf("served %q, want %q", got, servedText(want))
		}
	})
}

// Without any record what stands is kept all the same.
func TestRecoverWithoutRecords(t *testing.T) {
	for _, s := range []Settings{bothKinds, {WriteSlices: true}, {WriteEndpoints: true}} {
		w, contributions := stand(t)
		contributions = contributions[:1]
		w.settle(mergeOrNil(contributions, w.current, s), s, nil)
		w.current.Service.Annotations, w.current.Service.Record = nil, Record{}
		before := w.dumbStates()
		w.settle(mergeOrNil(w.current.Share("idc-a"), w.current, s), s, nil)
		if s.WriteSlices != (len(w.current.Slices) > 0) || !maps.Equal(w.dumbStates(), before) {
			t.Errorf("%+v: %v, want %v", s, w.dumbStates(), before)
		}
	}
	w, _ := stand(t)
	w.current.Service = nil
	r := Merge(shopWeb, w.current.Share("idc-a"), w.current, bothKinds)
	if got := portsText(&r); got != "admin:9000/TCP→9000 http:8080/TCP→8080" {
		t.Errorf("ports of a Service that is gone: %s", got)
	}
	if got := w.current.Share("idc-c"); got != nil {
		t.Errorf("a share of a stranger: %+v", got)
	}
}
