// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/internal/golden"
)

// What is generated from the comments and defaults of the types, so that a field and its
// description agree.
const (
	schemaFile    = "../../deploy/schema/config.v1alpha1.json"
	referencePage = "../../docs/reference/configuration.md"
)

// required are the fields that must be set, closed the values of those of a closed list.
var (
	required = []string{
		"clusters[].name", "clusters[].kubeconfig", "replicas.failover[].namespaces", "replicas.failover[].order",
		"rules[].name", "rules[].when", "rules[].then", "sinks[].name", "sinks[].url",
	}
	closed = map[string][]string{
		"apiVersion": {APIVersion}, "kind": {Kind}, "replicas.write[]": {WriteEndpoints, WriteEndpointSlices},
		"replicas.orphans": {OrphansKeep, OrphansDelete}, "rules[].then": {"Ready", "NotReady", "Absent", "Upstream"},
	}
)

// structure is one struct of the file, described.
type structure struct {
	Path, Title, Text string
	Fields            []described
}

// described is one field; of is the struct below it.
type described struct {
	Path, Name, Kind, Default, Text string
	value                           reflect.Value
	of                              *structure
}

// describe walks a struct whose values are its defaults.
func describe(path, title string, defaults reflect.Value, comments map[string]string) *structure {
	s := &structure{Path: path, Title: title, Text: comments[defaults.Type().Name()]}
	for f, value := range defaults.Fields() {
		name := f.Tag.Get("json")
		if f.Anonymous {
			s.Fields = append(s.Fields, describe(path, title, value, comments).Fields...)
		}
		if name == "" {
			continue
		}
		d := described{Path: strings.TrimPrefix(path+"."+name, "."), Name: name, Text: comments[defaults.Type().Name()+"."+f.Name], value: value}
		d.Kind, d.Default = kindOf(f.Type), shown(value)
		below := f.Type
		if below.Kind() == reflect.Slice || below.Kind() == reflect.Pointer {
			below = below.Elem()
		}
		if slices.Contains(required, d.Path) {
			d.Default = "**required**"
		} else if f.Type.Kind() == reflect.Struct {
			d.Default = "below"
		}
		if below.Kind() == reflect.Struct {
			at := d.Path
			if f.Type.Kind() == reflect.Slice {
				at, value = at+"[]", fresh(below)
			} else if f.Type.Kind() == reflect.Pointer {
				value = fresh(below)
			}
			d.of = describe(at, "`"+at+"`", value, comments)
		}
		s.Fields = append(s.Fields, d)
	}
	return s
}

// fresh is an element of which nothing is said.
func fresh(t reflect.Type) reflect.Value {
	for _, one := range []any{Cluster{ClusterSettings: defaults().ClusterDefaults}, defaultSink(), SecretSource{Selector: SecretLabel + "=" + SecretLabelValue}} {
		if reflect.TypeOf(one) == t {
			return reflect.ValueOf(one)
		}
	}
	out := reflect.New(t).Elem()
	for _, f := range out.Fields() {
		if f.Kind() == reflect.Slice {
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
		}
	}
	return out
}

func shown(value reflect.Value) string {
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return err.Error()
	}
	if value.Kind() == reflect.Pointer {
		return "none"
	}
	if value.Kind() == reflect.String && value.String() != "" {
		text = []byte(value.String())
	}
	return "`" + strings.ReplaceAll(string(text), `","`, `", "`) + "`"
}

// kindOf is what to write for a type.
func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return "length of time"
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Struct:
		return "mapping"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list of mappings"
		}
		return "list of text"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	}
	return "text"
}

// all is a structure and those below it, in the order of the page.
func (s *structure) all() []*structure {
	out := []*structure{s}
	for _, f := range s.Fields {
		if f.of != nil && f.Path != "clusterDefaults" {
			out = append(out, f.of.all()...)
		}
	}
	return out
}

func theFile(t *testing.T) *structure {
	t.Helper()
	return describe("", "Top level", reflect.ValueOf(*defaults()), comments(t))
}

func TestReferenceIsUpToDate(t *testing.T) {
	_, wrong := Parse("tributary.yaml", []byte("clusters:\n- name: idc-a\n  kubeconfg: idc-a.kubeconfig\n"))
	page := template.Must(template.New("page").Parse(read(t, "testdata/reference.md.tmpl")))
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{
		"Sections": theFile(t).all(), "Defaults": read(t, "testdata/defaults.yaml"), "Faults": wrong.Error() + "\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, referencePage, out.Bytes())
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "- `") && strings.HasSuffix(line, "): \n") {
			t.Errorf("nothing is said about %s", line)
		}
	}
}

func TestSchemaIsUpToDate(t *testing.T) {
	out := theFile(t).schema()
	out["$schema"], out["title"] = "http://json-schema.org/draft-07/schema#", "Configuration of Tributary, "+APIVersion
	out["description"] = "What it takes tributary check may refuse: label selectors, expressions, addresses, and fields that do not go together."
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(out); err != nil {
		t.Fatal(err)
	}
	golden.File(t, schemaFile, text.Bytes())
}

// schema is a structure as a JSON schema, draft 7, which editors know best.
func (s *structure) schema() map[string]any {
	properties, must := map[string]any{}, []string{}
	for _, f := range s.Fields {
		property := f.schema()
		property["description"] = f.Text
		if slices.Contains(required, f.Path) {
			must = append(must, f.Name)
		} else if f.value.Kind() != reflect.Struct && f.value.Kind() != reflect.Pointer {
			property["default"] = f.value.Interface()
		}
		properties[f.Name] = property
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(must) > 0 {
		out["required"] = must
	}
	return out
}

func (f *described) schema() map[string]any {
	text := func(path string) map[string]any {
		out := map[string]any{"type": "string"}
		if words := closed[path]; words != nil {
			out["enum"] = words
		}
		return out
	}
	switch {
	case f.of != nil && f.value.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": f.of.schema()}
	case f.of != nil:
		return f.of.schema()
	case f.value.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": text(f.Path + "[]")}
	case f.value.Type() == reflect.TypeFor[Duration]():
		return map[string]any{"type": "string", "pattern": durations}
	case f.value.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case f.value.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return text(f.Path)
}

const durations = `^[+]?([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$`

// TestTheSchemaTakesWhatGoTakes: its patterns and lists refuse nothing good, and it has the
// fields that must be set.
func TestTheSchemaTakesWhatGoTakes(t *testing.T) {
	for _, text := range []string{"0", "0s", "1h30m", "1.5m", ".5s", "100ms", "+3s"} {
		var v validator
		if v.duration(nil, Duration(text), time.Hour*2); len(v.faults) > 0 || !regexp.MustCompile(durations).MatchString(text) {
			t.Errorf("%q: Go takes it: %t", text, len(v.faults) == 0)
		}
	}
	var missing []string
	_, err := Parse("f", []byte("{clusters: [{}], replicas: {failover: [{}]}, rules: [{}], sinks: [{}]}"))
	for line := range strings.Lines(err.Error()) {
		at, _, _ := strings.Cut(strings.TrimPrefix(line, "f: "), ": ")
		missing = append(missing, strings.ReplaceAll(at, "[0]", "[]"))
	}
	slices.Sort(missing)
	want := slices.Sorted(slices.Values(required))
	if !slices.Equal(missing, want) {
		t.Errorf("must be given: %q, not %q", missing, want)
	}
	for path, words := range closed {
		for _, word := range append(words, "xyzzy") {
			var value any = word
			parts := strings.Split(path, ".")
			for i := len(parts) - 1; i >= 0; i-- {
				name, list := strings.CutSuffix(parts[i], "[]")
				if list {
					value = []any{value}
				}
				value = map[string]any{name: value}
			}
			text, _ := yaml.Marshal(value)
			_, err := Parse("f", text)
			refused := err != nil && strings.Contains(err.Error(), fmt.Sprintf("Unsupported value: %q", word))
			if refused != (word == "xyzzy") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// comments collects the doc comments of the types and of their fields, each on one line and
// without the name that Go wants in front.
func comments(t *testing.T) map[string]string {
	t.Helper()
	out, declarations := map[string]string{}, []ast.Decl{}
	for _, name := range []string{"types.go", "../rules/set.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		declarations = append(declarations, file.Decls...)
	}
	for _, declaration := range declarations {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			of, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			out[of.Name.Name] = sentence(of.Name.Name, general.Doc.Text())
			if s, ok := of.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						out[of.Name.Name+"."+name.Name] = sentence(name.Name, f.Doc.Text())
					}
				}
			}
		}
	}
	return out
}

// sentence turns "Name is the address" into "The address".
func sentence(name, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = strings.TrimPrefix(text, name+" ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
