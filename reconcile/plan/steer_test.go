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

// told is a Policy of fixed answers; order is what the oldest source's annotation
// lists.
type told struct{ drained, forced string }

func (p told) Order(_ syncer.Key, _ string, source *syncer.Service) []string {
	return strings.Fields(source.Annotations[AnnotationFailover])
}

func (p told) Drain(cluster string) (drain, force bool) {
	return cluster == p.drained, cluster == p.forced
}

func (p told) Misread(source *syncer.Service) string { return source.Annotations["misread"] }

func annotatedWith(c Contribution, pairs ...string) Contribution {
	svc := *c.Service
	svc.Annotations = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		svc.Annotations[pairs[i]] = pairs[i+1]
	}
	c.Service = &svc
	return c
}

func TestSteerFollowsTheOldest(t *testing.T) {
	for _, test := range []struct {
		name   string
		a, b   string // what idc-a, the older, and idc-b list
		served string
	}{
		{"no opinion", "", "", "10.0.0.1:http:80 10.1.0.1:http:80"},
		{"the older's order", "idc-b idc-a", "idc-a idc-b", "10.1.0.1:http:80"},
		{"only the younger has one", "", "idc-b idc-a", "10.0.0.1:http:80 10.1.0.1:http:80"},
		{"not in the order comes last", "idc-b", "", "10.1.0.1:http:80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			contributions := []Contribution{
				annotatedWith(from("idc-b", 200, "http:80", "10.1.0.1"), AnnotationFailover, test.b),
				annotatedWith(from("idc-a", 100, "http:80", "10.0.0.1"), AnnotationFailover, test.a),
			}
			Steer(shopWeb, contributions, told{})
			r := Merge(shopWeb, contributions, Current{}, bothKinds)
			if got := servedText(&r); got != test.served {
				t.Errorf("served %q, want %q", got, test.served)
			}
		})
	}
}

// A younger Service that asks for another mode is told that it is not heard, also while
// its member is away; one that asks for nothing else is not.
func TestOverruledModesAreReported(t *testing.T) {
	for _, test := range []struct{ name, a, b, trouble string }{
		{"neither asks", "", "", ""},
		{"both ask for the same", "idc-b idc-a", "idc-b idc-a", ""},
		{"another order", "idc-a idc-b", "idc-b idc-a", "annotation@idc-b"},
		{"only the younger asks", "", "idc-b idc-a", "annotation@idc-b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := annotatedWith(from("idc-a", 100, "http:80", "10.0.0.1"), AnnotationFailover, test.a)
			b := annotatedWith(from("idc-b", 200, "http:80", "10.1.0.1"), AnnotationFailover, test.b)
			w := newWorld(t, shopWeb)
			run := func(contributions ...Contribution) {
				t.Helper()
				Steer(shopWeb, contributions, told{})
				r := Merge(shopWeb, contributions, w.current, bothKinds)
				if got := reasons(&r); got != test.trouble {
					t.Errorf("conflicts %q, want %q: %v", got, test.trouble, r.Conflicts)
				}
				w.settle(&r, bothKinds, nil)
			}
			run(a, b)
			run(append(w.current.Share("idc-b"), a)...)
		})
	}
}

func TestSteerDrains(t *testing.T) {
	contributions := []Contribution{from("idc-a", 1, "http:80"), from("idc-b", 2, "http:80"), from("idc-c", 3, "http:80")}
	contributions[2].Drain = true
	Steer(shopWeb, contributions, told{drained: "idc-b", forced: "idc-b"})
	for i, want := range []bool{false, true, true} {
		if c := contributions[i]; c.Drain != want || c.DrainForce != (c.Cluster == "idc-b") || c.Failover != 0 {
			t.Errorf("%s: drain %v, force %v, failover %d", c.Cluster, c.Drain, c.DrainForce, c.Failover)
		}
	}
	Steer(shopWeb, contributions, nil)
	Steer(shopWeb, nil, told{})
}

// A failover that prefers a silent member would keep it for ever.
func TestFailoverLeavesTheSilent(t *testing.T) {
	a, b := from("idc-a", 1, "http:80", "10.0.0.1"), from("idc-b", 2, "http:80", "10.1.0.1")
	a.Failover, b.Failover, a.Stale = 1, 2, true
	r := Merge(shopWeb, []Contribution{a, b}, Current{}, bothKinds)
	if got := servedText(&r); got != "10.1.0.1:http:80" {
		t.Errorf("served %q", got)
	}
	b = from("idc-b", 2, "http:80", "10.1.0.1!")
	b.Failover = 2
	r = Merge(shopWeb, []Contribution{a, b}, Current{}, bothKinds)
	if got := servedText(&r); got != "10.0.0.1:http:80" {
		t.Errorf("served %q with nobody else ready", got)
	}
}

// The mode of a replica outlives a restart while the member that chose it is away.
func TestModeOfAMemberThatIsAway(t *testing.T) {
	a := annotatedWith(from("idc-a", 100, "http:80", "10.0.0.1"), AnnotationFailover, "idc-a idc-b", AnnotationMode, "failover")
	b := from("idc-b", 200, "http:80", "10.1.0.1")
	w := newWorld(t, shopWeb)
	run := func(contributions ...Contribution) *Desired {
		Steer(shopWeb, contributions, told{})
		r := Merge(shopWeb, contributions, w.current, bothKinds)
		return &r
	}
	w.settle(run(a, b), bothKinds, nil)
	for _, away := range []string{"idc-a", "idc-b"} {
		contributions := slices.DeleteFunc([]Contribution{a, b}, func(c Contribution) bool { return c.Cluster == away })
		r := run(append(contributions, w.current.Share(away)...)...)
		if p := Diff(w.current, r, bothKinds); !p.Empty() {
			t.Errorf("a restart without %s writes:\n%s", away, textOf(t, p))
		}
	}
	// The standby takes over from what stands of a, once it is gone for good.
	if got := servedText(run(b)); got != "10.1.0.1:http:80" {
		t.Errorf("served %q", got)
	}
}

func TestNamesThatRunTogether(t *testing.T) {
	key := syncer.Key{Namespace: "shop", Name: "a-b-c"}
	as := func(c Contribution, namespace, name string) Contribution {
		c.Source = syncer.Key{Namespace: namespace, Name: name}
		svc := *c.Service
		svc.Key = c.Source
		c.Service = &svc
		return c
	}
	for _, test := range []struct {
		name            string
		a, b            Contribution
		served, trouble string
	}{
		{"two members' own", as(from("c", 100, "http:80", "10.0.0.1"), "shop", "a-b"), as(from("b-c", 200, "http:80", "10.1.0.1"), "shop", "a"),
			"10.0.0.1:http:80", "name@b-c"},
		{"everybody's before one's own", as(from("idc-a", 100, "http:80", "10.0.0.1"), "shop", "a-b-c"), as(from("c", 200, "http:80", "10.1.0.1"), "shop", "a-b"),
			"10.0.0.1:http:80", "name@c"},
		{"one's own before everybody's", as(from("idc-a", 200, "http:80", "10.0.0.1"), "shop", "a-b-c"), as(from("c", 100, "http:80", "10.1.0.1"), "shop", "a-b"),
			"10.1.0.1:http:80", "name@idc-a"},
		{"two namespaces of one member", as(from("c", 100, "http:80", "10.0.0.1"), "one", "a-b"), as(from("c", 200, "http:80", "10.1.0.1"), "two", "a-b"),
			"10.0.0.1:http:80 10.1.0.1:http:80", ""},
		{"two namespaces that disagree", as(from("c", 100, "http:80", "10.0.0.1"), "one", "a-b"), as(from("c", 200, "http:81", "10.1.0.1"), "two", "a-b"),
			"10.0.0.1:http:80", "port@c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Merge(key, []Contribution{test.b, test.a}, Current{}, bothKinds)
			if got := servedText(&r); got != test.served {
				t.Errorf("served %q, want %q", got, test.served)
			}
			if got := reasons(&r); got != test.trouble {
				t.Errorf("conflicts %q, want %q: %v", got, test.trouble, r.Conflicts)
			}
		})
	}
}

func TestMisreadSettingsAreReported(t *testing.T) {
	c := annotatedWith(from("idc-a", 1, "http:80", "10.0.0.1"), "misread", "annotation x is not understood")
	contributions := []Contribution{c}
	Steer(shopWeb, contributions, told{})
	r := Merge(shopWeb, contributions, Current{}, bothKinds)
	if got := reasons(&r); got != "annotation@idc-a" || !strings.Contains(r.Conflicts[0].Message, "not understood") {
		t.Errorf("conflicts %+v", r.Conflicts)
	}
}

func TestPassedAnnotations(t *testing.T) {
	all := func(string) bool { return true }
	source := map[string]string{
		"example.com/team": "a", "UPPER.example.com/Case": "b", "plain": "c\nd", "huge": strings.Repeat("x", maxPassed), "broken": "\xff", "bad key": "v",
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "tributary.dev/mode": "failover", "endpoints.kubernetes.io/over-capacity": "truncated",
		"service.kubernetes.io/topology-mode": "Auto",
	}
	want := map[string]string{"example.com/team": "a", "UPPER.example.com/Case": "b", "plain": "c\nd"}
	if got, keys := passedAnnotations(source, all); !maps.Equal(got, want) || !slices.Equal(keys, []string{"UPPER.example.com/Case", "example.com/team", "plain"}) {
		t.Errorf("passed %v with keys %v, want %v", got, keys, want)
	}
	if got, keys := passedAnnotations(source, nil); len(got)+len(keys) != 0 {
		t.Errorf("passed %v without being asked", got)
	}
	// Many that fit alone do not fit together; which are left out does not change.
	many := map[string]string{}
	for _, c := range "abcdefghij" {
		many[string(c)] = strings.Repeat(string(c), maxPassed/5)
	}
	if _, keys := passedAnnotations(many, all); !slices.Equal(keys, []string{"a", "b", "c", "d"}) {
		t.Errorf("passed %s", keys)
	}
}

// Annotations follow the source, come back when changed by hand, and go with it;
// those of others stay.
func TestPassedAnnotationsFollowTheSource(t *testing.T) {
	settings := bothKinds
	settings.PassAnnotation = func(key string) bool { return strings.HasPrefix(key, "example.com/") }
	w := newWorld(t, shopWeb)
	give := func(c Contribution) {
		r := Merge(shopWeb, []Contribution{c}, w.current, settings)
		w.settle(&r, settings, nil)
	}
	stands := func(want ...string) {
		t.Helper()
		got := maps.Clone(w.current.Service.Annotations)
		delete(got, AnnotationReplica)
		delete(got, AnnotationSources)
		delete(got, AnnotationPassed)
		if expected := annotatedWith(from("x", 1, ""), want...).Service.Annotations; !maps.Equal(got, expected) {
			t.Errorf("annotations %v, want %v", got, expected)
		}
	}
	c := from("idc-a", 1, "http:80", "10.0.0.1")
	give(annotatedWith(c, "example.com/a", "1", "example.com/b", "2", "other", "3"))
	stands("example.com/a", "1", "example.com/b", "2")
	w.current.Service.Annotations = maps.Clone(w.current.Service.Annotations)
	w.current.Service.Annotations["theirs"] = "x"
	w.current.Service.Annotations["example.com/a"] = "edited"
	give(annotatedWith(c, "example.com/a", "1", "example.com/b", "2"))
	stands("example.com/a", "1", "example.com/b", "2", "theirs", "x")
	give(annotatedWith(c, "example.com/b", "22"))
	stands("example.com/b", "22", "theirs", "x")
	// A restart while the member is away writes nothing.
	r := Merge(shopWeb, w.current.Share("idc-a"), w.current, settings)
	if p := Diff(w.current, &r, settings); !p.Empty() {
		t.Errorf("a restart writes:\n%s", textOf(t, p))
	}
	settings.PassAnnotation = nil
	give(annotatedWith(c, "example.com/b", "22"))
	stands("theirs", "x")
}

func TestPassedLabels(t *testing.T) {
	c := from("idc-a", 1, "http:80", "10.0.0.1")
	c.Service.Labels = map[string]string{"app": "web", "example.com/team": "a", LabelHeadless: "x"}
	settings := bothKinds
	settings.PassLabel = func(key string) bool { return key != "app" }
	r := Merge(shopWeb, []Contribution{c}, Current{}, settings)
	for kind, got := range map[string]map[string]string{"Service": r.Service.Labels, "Endpoints": r.Endpoints.Labels, "slice": r.Slices[0].Labels} {
		if _, has := got["app"]; has || got["example.com/team"] != "a" || got[LabelManagedBy] != ManagedBy {
			t.Errorf("%s: labels %v", kind, got)
		}
	}
}
