// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestClaimOf(t *testing.T) {
	mark := func(more ...string) map[string]string {
		labels := map[string]string{LabelManagedBy: ManagedBy, LabelSliceManagedBy: SliceManagedBy}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	sources := map[string]string{AnnotationSources: `[{"cluster":"a","service":"shop/web","created":"1970-01-01T00:01:40Z","ports":["http"]}]`}
	text := func(sources string) map[string]string { return map[string]string{AnnotationSources: sources} }
	record := func(of string) map[string]string { return map[string]string{AnnotationReplica: of} }
	for _, c := range []struct {
		name                string
		labels, annotations map[string]string
		instance            string
		// want of a Service, and of the other kinds.
		want, others Claim
	}{
		{"nothing", nil, record("shop/web"), "", ClaimNone, ClaimNone},
		{"Helm's", map[string]string{LabelManagedBy: "Helm", LabelSliceManagedBy: "x"}, record("shop/web"), "", ClaimNone, ClaimNone},
		{"the mark alone", mark(), nil, "", ClaimMarked, ClaimMarked},
		{"the mark alone, of a named installation", mark(), sources, "blue", ClaimMarked, ClaimMarked},
		{"of the version before", mark(), sources, "", ClaimRecorded, ClaimMarked},
		{"of the version before, which knew of no instances", mark(LabelInstance, "default"), sources, "", ClaimMarked, ClaimMarked},
		{"of the version before, damaged", mark(), text("[{}]"), "", ClaimMarked, ClaimMarked},
		{"of the version before, in a namespace of another name", mark(), text(`[{"cluster":"a","service":"team/web","created":"2020-01-01T00:00:00Z","ports":[]}]`), "", ClaimRecorded, ClaimMarked},
		{"the sources of another Service", mark(), text(`[{"cluster":"a","service":"other/thing","created":"2020-01-01T00:00:00Z","ports":[]}]`), "", ClaimMarked, ClaimMarked},
		{"one that is another Service", mark(), text(`[{"cluster":"a","service":"shop/web","created":"2020-01-01T00:00:00Z","ports":[]},{"cluster":"b","service":"other/thing","created":"2020-01-01T00:00:00Z","ports":[]}]`), "", ClaimMarked, ClaimMarked},
		{"sources without a time", mark(), text(`[{"cluster":"a","service":"shop/web","ports":[]}]`), "", ClaimMarked, ClaimMarked},
		{"sources without ports", mark(), text(`[{"cluster":"a","service":"shop/web","created":"2020-01-01T00:00:00Z"}]`), "", ClaimMarked, ClaimMarked},
		{"a record that fits, of no installation", mark(), record("shop/web"), "", ClaimMarked, ClaimMarked},
		{"mark and instance", mark(LabelInstance, "blue"), nil, "blue", ClaimMarked, ClaimMarked},
		{"all three", mark(LabelInstance, "blue"), record("shop/web"), "blue", ClaimRecorded, ClaimRecorded},
		{"all three, by default", mark(LabelInstance, "default"), record("shop/web"), "", ClaimRecorded, ClaimRecorded},
		{"of another installation", mark(LabelInstance, "green"), record("shop/web"), "blue", ClaimOther, ClaimOther},
		{"of another than the default", mark(LabelInstance, "green"), sources, "", ClaimOther, ClaimOther},
		{"of the default, seen by another", mark(LabelInstance, "default"), record("shop/web"), "blue", ClaimOther, ClaimOther},
		{"a copy", mark(LabelInstance, "blue"), record("shop/other"), "blue", ClaimMarked, ClaimMarked},
		{"a copy with its sources", mark(LabelInstance, "blue"), map[string]string{AnnotationReplica: "x/web", AnnotationSources: sources[AnnotationSources]}, "blue", ClaimMarked, ClaimMarked},
	} {
		if got := ClaimOf(KindService, shopWeb, c.labels, c.annotations, c.instance); got != c.want {
			t.Errorf("%s: a Service claims %d, want %d", c.name, got, c.want)
		}
		for _, kind := range []Kind{KindEndpoints, KindEndpointSlice} {
			if got := ClaimOf(kind, shopWeb, c.labels, c.annotations, c.instance); got != c.others {
				t.Errorf("%s: %s claim %d, want %d", c.name, kind, got, c.others)
			}
		}
	}
}

func TestOwn(t *testing.T) {
	named := Sources{{Cluster: "a", Service: "shop/web"}}
	for _, c := range []struct {
		name      string
		service   *CurrentService
		endpoints Claim
		slices    map[string]Claim // by cluster
		want      string
	}{
		{"a whole replica", &CurrentService{Meta: Meta{Claim: ClaimRecorded}, Record: Record{Sources: named}}, ClaimRecorded, map[string]Claim{"a": ClaimRecorded}, "service endpoints a"},
		{"of the version before", &CurrentService{Meta: Meta{Claim: ClaimRecorded}, Record: Record{Sources: named}}, ClaimMarked, map[string]Claim{"a": ClaimMarked}, "service endpoints a"},
		{"marks beside a whole replica", &CurrentService{Meta: Meta{Claim: ClaimRecorded, Annotations: map[string]string{AnnotationReplica: "shop/web"}}, Record: Record{Sources: named}}, ClaimMarked, map[string]Claim{"a": ClaimMarked}, "service"},
		{"a slice that nobody owns", &CurrentService{Meta: Meta{Claim: ClaimRecorded, UID: "s"}, Record: Record{Sources: Sources{{Cluster: "free", Service: "shop/web"}}}}, ClaimMarked, map[string]Claim{"free": ClaimMarked}, "service endpoints"},
		{"a slice of an unknown cluster", &CurrentService{Meta: Meta{Claim: ClaimRecorded}, Record: Record{Sources: named}}, ClaimMarked, map[string]Claim{"a": ClaimRecorded, "ghost": ClaimMarked}, "service endpoints a"},
		{"a Service with the mark alone", &CurrentService{Meta: Meta{Claim: ClaimMarked}, Record: Record{Sources: named}}, ClaimMarked, map[string]Claim{"a": ClaimMarked}, ""},
		{"under a Service that lost its label", &CurrentService{}, ClaimRecorded, map[string]Claim{"a": ClaimRecorded, "b": ClaimMarked}, "endpoints a"},
		{"under another installation's Service", &CurrentService{Meta: Meta{Claim: ClaimOther}}, ClaimOther, map[string]Claim{"a": ClaimOther}, ""},
		{"without a Service", nil, ClaimRecorded, map[string]Claim{"a": ClaimRecorded, "b": ClaimMarked}, "endpoints a"},
		{"a record that is lost", &CurrentService{Meta: Meta{Claim: ClaimRecorded}}, ClaimMarked, map[string]Claim{"a": ClaimRecorded, "b": ClaimMarked}, "service endpoints a"},
	} {
		o := Current{Key: shopWeb, Service: c.service, Endpoints: &CurrentEndpoints{Meta: Meta{Claim: c.endpoints}}}
		for _, cluster := range slices.Sorted(maps.Keys(c.slices)) {
			o.Slices = append(o.Slices, CurrentSlice{Meta: Meta{Name: cluster, Claim: c.slices[cluster]}, Cluster: cluster})
			if c.service != nil && cluster != "free" {
				c.service.UID, o.Slices[len(o.Slices)-1].OwnerUID = "s", "s"
			}
		}
		o.Own()
		var got []string
		if o.Service != nil && o.Service.Owned {
			got = append(got, "service")
		}
		if o.Endpoints.Owned {
			got = append(got, "endpoints")
		}
		for _, s := range o.Slices {
			if s.Owned {
				got = append(got, s.Cluster)
			}
		}
		if text := strings.Join(got, " "); text != c.want || o.Ours() != (text != "") {
			t.Errorf("%s: ours are %q, want %q", c.name, text, c.want)
		}
	}
}

// What the version before wrote is the default installation's as it stands, and gets
// the name and the record with the next write of each object: one for each.
func TestWhatTheVersionBeforeWroteIsAdopted(t *testing.T) {
	w, contributions := stand(t)
	before := func(kind Kind, m *Meta) {
		m.Labels, m.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
		delete(m.Labels, LabelInstance)
		delete(m.Annotations, AnnotationReplica)
		m.Claim = ClaimOf(kind, shopWeb, m.Labels, m.Annotations, "")
	}
	before(KindService, &w.current.Service.Meta)
	before(KindEndpoints, &w.current.Endpoints.Meta)
	for i := range w.current.Slices {
		before(KindEndpointSlice, &w.current.Slices[i].Meta)
	}
	w.current.Own()
	if got := w.current.Clusters(); len(got) != 2 {
		t.Errorf("shares of %v", got)
	}
	w.writes = 0
	objects := 2 + len(w.current.Slices)
	desired := Merge(shopWeb, contributions, w.current, bothKinds)
	p := Diff(w.current, &desired, bothKinds)
	if last := p.Stages[len(p.Stages)-1]; len(last) != 1 || last[0].Kind != KindService || len(last[0].Needs) != objects-1 {
		t.Errorf("the Service, by which the others are ours, is not written after all of them: %s", textOf(t, p))
	}
	settled(t, w, contributions)
	if w.writes != objects {
		t.Errorf("%d writes for %d objects", w.writes, objects)
	}
	// To another installation it is nobody's.
	before(KindService, &w.current.Service.Meta)
	w.current.Service.Claim = ClaimOf(KindService, shopWeb, w.current.Service.Labels, w.current.Service.Annotations, "blue")
	w.current.Own()
	settings := bothKinds
	settings.Instance = "blue"
	if p := Diff(w.current, nil, settings); len(p.Stages) > 0 || len(p.Conflicts) == 0 || p.Conflicts[0].Reason != ConflictRecord {
		t.Errorf("another installation would %s", textOf(t, p))
	}
}

// A slice that says it is of a cluster that is not on record decides nothing, whatever
// it carries: the others' ports, ages and addresses are as they were.
func TestForgedSlicesDecideNothing(t *testing.T) {
	for name, claim := range map[string]Claim{"with labels alone": ClaimMarked, "with a record of its own": ClaimRecorded} {
		w, contributions := stand(t)
		away := func(cluster string) []Contribution { return w.current.Share(cluster) }
		before := Merge(shopWeb, slices.Concat(away("idc-a"), away("idc-b")), w.current, bothKinds)
		forged := CurrentSlice{Meta: Meta{Name: "web-forged", UID: "f", ResourceVersion: "1", Claim: claim, Labels: map[string]string{LabelSliceManagedBy: SliceManagedBy}}, Cluster: "ghost"}
		forged.Slice = syncer.Slice{Name: "web-forged", Family: syncer.IPv4, Ports: []syncer.Port{{Name: "other", Protocol: syncer.TCP, Number: 1}},
			Endpoints: []syncer.Endpoint{{Addr: contributions[0].Endpoints[0].Addr, Ready: true, Serving: true}}}
		w.current.Slices = append(w.current.Slices, forged)
		w.current.Own()
		if w.current.Vouched("ghost") || !w.current.Vouched("idc-a") {
			t.Errorf("%s: the record vouches for the wrong ones", name)
		}
		after := Merge(shopWeb, slices.Concat(away("idc-a"), away("idc-b")), w.current, bothKinds)
		if servedText(&before) != servedText(&after) || portsText(&before) != portsText(&after) || before.Service.Annotations[AnnotationSources] != after.Service.Annotations[AnnotationSources] {
			t.Errorf("%s: served %s, ports %s; before %s, %s", name, servedText(&after), portsText(&after), servedText(&before), portsText(&before))
		}
		p := Diff(w.current, &after, bothKinds)
		if claim == ClaimMarked && (!p.Empty() || len(p.Conflicts) != 1 || p.Conflicts[0].Reason != ConflictRecord) {
			t.Errorf("%s: %s", name, textOf(t, p))
		}
		if claim == ClaimRecorded && len(p.Removals)+len(p.Stages) == 0 {
			t.Errorf("%s: it stays", name)
		}
	}
}

// A replica outside of the bounds is told where anything of it is ours, and left alone.
func TestOutOfBounds(t *testing.T) {
	for _, c := range []struct {
		name            string
		claim           Claim
		told, contested bool
	}{
		{"nobody's", ClaimNone, false, false},
		{"another installation's", ClaimOther, false, false},
		{"marked alone", ClaimMarked, false, true},
		{"ours", ClaimRecorded, true, false},
	} {
		o := Current{Key: shopWeb, Endpoints: &CurrentEndpoints{Meta: Meta{Claim: c.claim}},
			Slices: []CurrentSlice{{Meta: Meta{Name: "web-1", Claim: c.claim}}}}
		o.Own()
		p := OutOfBounds(o)
		if told := len(p.Conflicts) == 1 && p.Conflicts[0].Reason == ConflictNamespace; told != c.told || !p.Empty() {
			t.Errorf("%s: %+v", c.name, p)
		}
		if o.Disputed() != c.contested {
			t.Errorf("%s: disputed %t", c.name, o.Disputed())
		}
	}
}
