// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Shared string `json:"shared"`
}

type item struct {
	Name string `json:"name"`
	inner2
	Weight float64 `json:"weight"`
}

type inner2 struct {
	Deep string `json:"deep"`
}

func (i *item) SetDefaults() { i.Name, i.Weight = "unnamed", 1 }

type everything struct {
	inner
	Text    string              `json:"text"`
	Flag    bool                `json:"flag"`
	Count   int                 `json:"count"`
	Data    []byte              `json:"data"`
	Items   []item              `json:"items"`
	One     *item               `json:"one"`
	Lists   map[string][]string `json:"lists"`
	Ignored string              `json:"-"`
}

func TestDecode(t *testing.T) {
	var got everything
	faults := Decode([]byte(`
shared: a
text: |
  two
  lines
flag: true
count: 0x10
data: aGVs bG8=
items: [{}, {name: n, deep: d, weight: 2}]
one: {weight: 3}
lists: {x: [y, z]}
`), &got, Exact)
	want := everything{
		inner: inner{"a"}, Text: "two\nlines\n", Flag: true, Count: 16, Data: []byte("hello"),
		Items: []item{{Name: "unnamed", Weight: 1}, {Name: "n", inner2: inner2{"d"}, Weight: 2}},
		One:   &item{Name: "unnamed", Weight: 3}, Lists: map[string][]string{"x": {"y", "z"}},
	}
	if len(faults) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v %v\nwant %+v", got, faults, want)
	}
}

func TestModes(t *testing.T) {
	const text = "unknown: 1\nitems:\ncount: ~\nignored: x\n"
	var got everything
	if faults := Decode([]byte(text), &got, Foreign); faults != nil || !reflect.DeepEqual(got, everything{}) {
		t.Errorf("foreign: %+v, %v", got, faults)
	}
	var fields []string
	for _, f := range Decode([]byte(text), &got, Exact) {
		fields = append(fields, f.Field)
	}
	if want := []string{"unknown", "items", "ignored"}; !reflect.DeepEqual(fields, want) {
		t.Errorf("exact: %v, want %v", fields, want)
	}
}

func TestPathsStayOnOneLine(t *testing.T) {
	for key, want := range map[string]string{
		`a b`:                    `"a b"`,
		`"a\nb"`:                 `"a\nb"`,
		`""`:                     `""`,
		"a.b":                    `"a.b"`,
		strings.Repeat("x", 100): strings.Repeat("x", 60) + "...",
		"\"a\\u2028b\"":          `"a\u2028b"`,
	} {
		var got everything
		faults := Decode([]byte(key+": 1"), &got, Exact)
		if len(faults) != 1 || faults[0].Field != want {
			t.Errorf("%q: got %v, want field %s", key, faults, want)
		}
	}
}

// TestEditDistance holds the row-wise computation against the definition.
func TestEditDistance(t *testing.T) {
	var defined func(a, b string) int
	defined = func(a, b string) int {
		switch {
		case a == "" || b == "":
			return len(a) + len(b)
		case a[0] == b[0]:
			return defined(a[1:], b[1:])
		}
		return 1 + min(defined(a[1:], b), defined(a, b[1:]), defined(a[1:], b[1:]))
	}
	words := []string{"", "a", "name", "nmae", "names", "mane", "kube", "cube", "context"}
	for _, a := range words {
		for _, b := range words {
			if got, want := editDistance(a, b), defined(a, b); got != want {
				t.Errorf("%q to %q: got %d, want %d", a, b, got, want)
			}
		}
	}
	if got := editDistance(strings.Repeat("x", 1000), "name"); got < 60 {
		t.Errorf("a long key is %d away", got)
	}
}

func TestFault(t *testing.T) {
	for _, test := range []struct {
		fault Fault
		want  string
	}{
		{Fault{Message: "m"}, "m"},
		{Fault{File: "f", Message: "m", Remedy: "r"}, "f: m; r"},
		{Fault{File: "f", Field: "a[0].b", Message: "m", Remedy: "r"}, "f: a[0].b: m; r"},
	} {
		if got := test.fault.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if Faults(nil).Err() != nil || (Faults{}).Err() != nil || Faults(nil).In("f") != nil {
		t.Error("no fault is an error")
	}
	kept := Faults{{File: "a", Message: "m"}, {Message: "n"}}
	if got := kept.In("b").Error(); got != "a: m\nb: n" || kept[1].File != "" {
		t.Errorf("got %q", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("text: a\nitems: [{}]\nlists: {a: [b]}\ndata: aGk=")
	f.Add("[[[[{{{{")
	f.Add("a: &a [*a, *a]\n? {x: y}\n: z\n<<: *a")
	f.Add("items: !!seq [!!map {}]\ncount: !!int 99999999999999999999\nflag: !foo true\ndata: !!binary aGk=")
	f.Fuzz(func(t *testing.T, text string) {
		for _, mode := range []Mode{Exact, Foreign} {
			var into everything
			for _, fault := range Decode([]byte(text), &into, mode) {
				if strings.Contains(fault.Field, "\n") {
					t.Fatalf("a fault of several lines: %q", fault.Error())
				}
				if strings.HasPrefix(fault.Message, "is not valid YAML") && (min(fault.Line, fault.Column) < 1 || max(fault.Line, fault.Column) > len(text)+1) {
					t.Fatalf("%q has no place %d:%d: %v", text, fault.Line, fault.Column, fault)
				}
			}
		}
	})
}
