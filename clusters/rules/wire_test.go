// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
)

// TestWhatIsWrittenReadsAsJSON: of objects with anything in them, expressions see each
// field that the API server would write out, as it would, and no other.
func TestWhatIsWrittenReadsAsJSON(t *testing.T) {
	for seed := range dice.Seeds(t, 100) {
		rng := dice.From(seed, 12)
		compareWithJSON(t, rng, &corev1.Pod{})
		compareWithJSON(t, rng, &corev1.Service{})
	}
}

func compareWithJSON[T any](t *testing.T, rng *rand.Rand, object *T) {
	t.Helper()
	v := reflect.ValueOf(object).Elem()
	fill(rng, v, 0)
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	c := classOf[T]()
	r := newReader(string(c.writer(wholly)(nil, v)))
	got := c.read(r)
	if r.left != "" {
		t.Fatalf("%q is left", r.left)
	}
	sameAsJSON(t, c.of.Name(), got, want)
}

// fill puts something into about half of all that a value has.
func fill(rng *rand.Rand, v reflect.Value, depth int) {
	switch {
	case rng.IntN(2) == 0 && depth > 0 && v.Kind() != reflect.Struct || depth > 7:
		return
	case v.Type() == reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.Unix(1+rng.Int64N(1<<32), 0)))
		return
	case v.Type() == reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(*resource.NewMilliQuantity(1+rng.Int64N(1e6), resource.DecimalSI)))
		return
	case v.Type() == reflect.TypeFor[intstr.IntOrString]():
		v.Set(reflect.ValueOf([]intstr.IntOrString{intstr.FromInt32(int32(rng.IntN(90))), intstr.FromString("http")}[rng.IntN(2)]))
		return
	case v.Type() == reflect.TypeFor[metav1.FieldsV1]():
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(rng, v.Field(i), depth+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(rng, v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(3), 3))
		for i := range v.Len() {
			fill(rng, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range rng.IntN(3) {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(rng, value, 0)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", i)).Convert(v.Type().Key()), value)
		}
	case reflect.String:
		v.SetString([]string{"a", "ü", strings.Repeat("x", 200)}[rng.IntN(3)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(rng.Int64N(1<<31) - 1<<30)
	}
}

// sameAsJSON compares what expressions see with what JSON has.
func sameAsJSON(t *testing.T, at string, got ref.Val, want any) {
	t.Helper()
	fail := func() { t.Errorf("%s reads %v, and is %v", at, got, want) }
	switch is := got.(type) {
	case *object:
		fields, _ := want.(map[string]any)
		for name, no := range is.byName {
			value := fields[name]
			switch field, written := is.at(no), value != nil; {
			case (field != nil) != written && !isEmpty(value):
				t.Errorf("%s.%s is set: %t, and in JSON %v", at, name, field != nil, value)
			case field != nil && written:
				sameAsJSON(t, at+"."+name, field, value)
			case field == nil && is.Get(types.String(name)) == nil:
				t.Errorf("%s.%s has no empty value", at, name)
			}
		}
	case traits.Lister:
		list, _ := want.([]any)
		if int(is.Size().(types.Int)) != len(list) {
			fail()
			return
		}
		for i := range list {
			sameAsJSON(t, fmt.Sprint(at, "[", i, "]"), is.Get(types.Int(i)), list[i])
		}
	case traits.Mapper:
		all, _ := want.(map[string]any)
		if int(is.Size().(types.Int)) != len(all) {
			fail()
			return
		}
		for key, value := range all {
			sameAsJSON(t, at+"["+key+"]", is.Get(types.String(key)), value)
		}
	case types.Timestamp:
		if is.Time.UTC().Format(time.RFC3339) != want {
			fail()
		}
	case apiservercel.Quantity:
		if is.Quantity.String() != want {
			fail()
		}
	default:
		if fmt.Sprint(got.Value()) != fmt.Sprint(want) {
			fail()
		}
	}
}

// isEmpty reports whether JSON has an empty value, of a field that is always written.
func isEmpty(value any) bool {
	if nested, is := value.(map[string]any); is {
		return !slices.ContainsFunc(slices.Collect(maps.Values(nested)), func(v any) bool { return !isEmpty(v) })
	}
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.IsZero() || value == "0" || v.Kind() == reflect.Slice && v.Len() == 0
}

// TestPlainAndCountingAgree: what an expression comes to does not depend on whether what it
// costs is counted, and about a pod of usual size that is no more than was estimated.
func TestPlainAndCountingAgree(t *testing.T) {
	plain := 0
	for _, when := range append(documentedExpressions(), "pod.spec.containers.exists(c, c.image.matches('^a+$') || c.name in ['a', 'b'])",
		"pod.metadata.labels.all(k, pod.metadata.annotations.exists(a, a == k || pod.metadata.annotations[a] < pod.metadata.labels[k]))") {
		s := compiled(t, Rule{Name: "r", When: when, Then: store.Absent})
		r := s.rules[0]
		if !r.isPlain {
			continue
		}
		plain++
		for seed := range dice.Seeds(t, 20) {
			p := &corev1.Pod{}
			fill(dice.From(seed, 13), reflect.ValueOf(p).Elem(), 0)
			in := subject(s, p)
			v := s.view(&in)
			got, _, failed := r.plain.Eval(v)
			want, details, counted := r.counting.Eval(v)
			if fmt.Sprint(got, failed) != fmt.Sprint(want, counted) {
				t.Errorf("%s: %v %v, and counting %v %v", when, got, failed, want, counted)
			}
			if cost := *details.ActualCost(); !v.usual || cost > r.most {
				t.Errorf("%s: usual: %t, cost %d, %d are expected at most", when, v.usual, cost, r.most)
			}
		}
	}
	if plain < 4 {
		t.Errorf("%d expressions need not be counted", plain)
	}
}

func documentedExpressions() (all []string) {
	for _, r := range theThree {
		all = append(all, r.When)
	}
	return append(all, "node.zone != '' && node.zone == cluster", "service.spec.ports.exists(p, p.port == 80)")
}

// TestLimits: of one expression and of all together, also where no pod of usual size could
// exceed them, and in the end it is as if they did not match.
func TestLimits(t *testing.T) {
	large := func(containers int) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Spec.Containers = make([]corev1.Container, containers)
			for i := range p.Spec.Containers {
				p.Spec.Containers[i] = corev1.Container{Name: fmt.Sprint("container-", i), Image: "nginx"}
			}
		})
	}
	const pairs = "pod.spec.containers.all(a, pod.spec.containers.all(b, sameImage(a.image, b.image)))"
	if matches, failed := decide(t, pairs, large(30)); !matches || failed != "" {
		t.Errorf("30 containers: %t, failed %q", matches, failed)
	}
	if matches, failed := decide(t, pairs, large(120)); matches || !strings.Contains(failed, "actual cost limit exceeded") {
		t.Errorf("120 containers: %t, failed %q", matches, failed)
	}
	times := func(n int, when string) *Set {
		p, faults := Compile([]Rule{{Name: "r", When: when, Then: store.Absent}})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		p.rules = slices.Repeat(p.rules, n)
		return p.For("idc-a")
	}
	for plain, when := range map[bool]string{true: pairs, false: "pod.spec.containers.map(c, c.name).all(a, pod.spec.containers.all(b, a != '' && b.name != ''))"} {
		s := times(2, when)
		in := subject(s, large(50))
		v, r := s.view(&in), s.rules[0]
		if v.usual || v.left != perObjectLimit || r.isPlain != plain {
			t.Errorf("%s: is plain: %t, usual: %t, %d are left", when, r.isPlain, v.usual, v.left)
		}
		if out := r.ask(v); out != matches || v.left != perObjectLimit-s.Status()[0].Cost {
			t.Errorf("%s: comes to %v, %d are left", when, out, v.left)
		}
		if v.left = 1000; r.ask(v) != unasked || !strings.Contains(s.Status()[0].LastError, "together cost more than 10000000") {
			t.Errorf("%s: of one pod: %+v", when, s.Status())
		}
	}
	// What need not be counted is bounded, too.
	s, counted := times(2000, imageNotYetRunning), 0
	for _, r := range s.rules {
		if !r.isPlain {
			counted++
		}
	}
	if s.most > perCallLimit || counted == 0 || counted == 2000 {
		t.Errorf("%d rules are counted, the others may cost %d", counted, s.most)
	}
}

// TestWhatCostsASquare is asked about no pod that is larger than it was estimated for: one
// call might take minutes, or all memory, before what it costs is counted.
func TestWhatCostsASquare(t *testing.T) {
	long := pod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{"a": strings.Repeat("a", 120_000) + "!", "b": strings.Repeat("a", 120_000)}
	})
	const a, b = "pod.metadata.annotations['a']", "pod.metadata.annotations['b']"
	for when, refused := range map[string]bool{
		a + ".matches(" + b + ")": true, a + ".find(" + b + ") != ''": true, a + ".replace('a', " + b + ") != ''": true,
		"size(" + a + ".split('').join(" + b + ")) > 1": true, "sets.contains(" + a + ".split('a'), " + b + ".split('a'))": true,
		a + ".indexOf(" + b + ") == 0": true, a + ".replace('a', '" + strings.Repeat("x", 1000) + "') != ''": true,
		a + ".startsWith(" + b + ")": false, a + ".matches('!$')": false, a + " != " + b: false, a + ".replace('a', 'b') != ''": false,
		"size(" + a + ".split('!')) > 1": false, "pod.spec.containers.exists(c, c.name.matches('^web$')) && " + a + ".contains('!')": false,
	} {
		matches, failed := decide(t, when, long)
		if matches == refused || refused != strings.HasPrefix(failed, "may cost the square of what a pod has, and this one has") {
			t.Errorf("%.80s: %t, %q", when, matches, failed)
		}
		if _, failed := decide(t, when, pod(func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "aa!", "b": "aa"} })); failed != "" {
			t.Errorf("%.80s about a small pod: %q", when, failed)
		}
	}
}

// TestCostIsTold: also where it is not counted each time.
func TestCostIsTold(t *testing.T) {
	s := compiled(t, Rule{Name: "r", When: imageNotYetRunning, Then: store.Absent})
	k := (*Keeper)(nil).Next(s)
	for n := range 200 {
		first(s, store.Subject{Pod: k.Pod(pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = fmt.Sprintf("docker.io/library/nginx:%03d", n) })), Namespace: "shop"})
	}
	status := s.Status()[0]
	_, details, err := s.rules[0].counting.Eval(s.view(&store.Subject{Pod: k.Pod(pod(nil))}))
	if err != nil {
		t.Fatal(err)
	}
	if each := *details.ActualCost(); status.Evaluations != 200 || status.Cost < 200*each/2 || status.Cost > 200*each*2 {
		t.Errorf("one costs %d, and they are told as %+v", each, status)
	}
}

// TestATextMaySpellWhatIsBeforeIt: whatever bytes it has, it is read as it is.
func TestATextMaySpellWhatIsBeforeIt(t *testing.T) {
	const when = "pod.metadata.annotations['a'] == 'x' || pod.metadata.annotations['b'] == 'x' || pod.spec.nodeName == 'n'"
	k := (*Keeper)(nil).Next(compiled(t, Rule{Name: "r", When: when, Then: store.Absent}))
	text := func(a, b string) string {
		return k.Pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": a, "b": b}}, Spec: corev1.PodSpec{NodeName: "n1"}}).Text
	}
	spelt := text("zzzzz", "")
	for from := range spelt {
		for to := from + 1; to <= len(spelt); to++ {
			a := spelt[from:to]
			for _, a := range []string{a, "\x00" + a, "\x01" + a, strings.ReplaceAll(a, "\x00", "\x01")} {
				seen := classOf[corev1.Pod]().read(newReader(text(a, a))).(*object)
				all := seen.Get(types.String("metadata")).(*object).Get(types.String("annotations")).(traits.Mapper)
				for _, key := range []string{"a", "b"} {
					if got := all.Get(types.String(key)); got != types.String(a) {
						t.Fatalf("%q reads as %q", a, got)
					}
				}
			}
		}
	}
}
