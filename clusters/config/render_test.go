// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"tributary.dev/tributary/clusters/config/strict"
)

// This file renders docs/reference/configuration.md from the comments and defaults of
// the types, so that a field and its description cannot part. It is a test's
// because nothing else needs a Go parser and a template engine.

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section is the description of one struct, row that of one field.
type section struct {
	Title, Text string
	Rows        []row
}

type row struct{ Name, Type, Default, Text string }

// render gives the page.
func render(t *testing.T) string {
	t.Helper()
	r := reference{comments: comments(t), required: required()}
	var top Config
	top.SetDefaults()
	r.add("", "Top level", reflect.ValueOf(top))

	_, wrong := Parse("tributary.yaml", []byte(header+"clusters:\n- name: IDC_A\n  kubeconfig: a\n- name: b\n  kubeconfg: b\n"))
	page := template.Must(template.New("page").Parse(read(t, "testdata/reference.md.tmpl")))
	var out strings.Builder
	err := page.Execute(&out, map[string]any{
		"Sections": r.sections, "Example": read(t, "testdata/example.yaml"), "Faults": wrong.Error() + "\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// reference collects the sections.
type reference struct {
	sections []section
	// comments by type name, and by type and field name: "Cluster.Name".
	comments map[string]string
	// required holds the paths of fields without a default.
	required map[string]bool
}

// add describes a struct, whose values are its defaults, then the structs in it.
func (r *reference) add(path, title string, defaults reflect.Value) {
	at := len(r.sections)
	r.sections = append(r.sections, section{Title: title, Text: r.comments[defaults.Type().Name()]})
	for _, f := range strict.Fields(defaults.Type()) {
		name := strings.TrimPrefix(path+"."+f.Name, ".")
		value := defaults.FieldByIndex(f.Index)
		kind, inner := typeName(f.Type)
		if f.Name == "clusterDefaults" {
			inner, value = nil, reflect.ValueOf(map[string]string{}) // its fields are those of clusters[]
		}
		entry := row{Name: f.Name, Type: kind, Default: r.defaultOf(name, value), Text: r.comments[f.Struct.Name()+"."+f.GoName]}
		if inner != nil {
			if f.Type.Kind() == reflect.Struct {
				entry.Default = "see below"
			} else {
				if f.Type.Kind() == reflect.Slice {
					name += "[]"
				}
				value = reflect.New(inner)
				if d, ok := value.Interface().(strict.Defaulter); ok {
					d.SetDefaults()
				}
				value = value.Elem()
			}
			r.add(name, "`"+name+"`", value)
		}
		r.sections[at].Rows = append(r.sections[at].Rows, entry)
	}
}

func (r *reference) defaultOf(path string, value reflect.Value) string {
	if r.required[path] {
		return "**required**"
	}
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return err.Error()
	}
	if s := value; s.Kind() == reflect.String && s.String() != "" {
		text = []byte(s.String())
	}
	return "`" + strings.ReplaceAll(string(text), `","`, `", "`) + "`"
}

// typeName says what to write for a type, and which struct describes it.
func typeName(t reflect.Type) (name string, inner reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Struct:
		return "mapping", t
	case reflect.Slice:
		name, inner = typeName(t.Elem())
		if inner != nil {
			name += "s"
		}
		return "list of " + name, inner
	case reflect.Map:
		name, _ = typeName(t.Elem())
		return "mapping of text to " + name, nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int:
		return "whole number", nil
	case reflect.Float64:
		return "number", nil
	default:
		return "text", nil
	}
}

// required asks the validation which fields must be given, by giving none.
func required() map[string]bool {
	out := map[string]bool{}
	member := Cluster{}
	member.SetDefaults()
	for _, clusters := range [][]Cluster{nil, {member}} {
		c := Config{}
		c.SetDefaults()
		c.Clusters = clusters
		rule := Rule{}
		rule.SetDefaults()
		c.Replicas.Rules = []Rule{rule}
		c.Rules = []PodRule{{}}
		sink := Sink{}
		sink.SetDefaults()
		c.Sinks = []Sink{sink}
		for _, fault := range c.Validate() {
			out[strings.ReplaceAll(fault.Field, "[0]", "[]")] = true
		}
	}
	return out
}

// comments collects the doc comments of the types of this package and of their fields,
// each on one line and without the name that Go wants in front.
func comments(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		collect(file, out)
	}
	return out
}

func collect(file *ast.File, out map[string]string) {
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			out[t.Name.Name] = sentence(t.Name.Name, general.Doc.Text())
			structure, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					out[fmt.Sprintf("%s.%s", t.Name.Name, name.Name)] = sentence(name.Name, field.Doc.Text())
				}
			}
		}
	}
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
	text = strings.ReplaceAll(text, "|", `\|`)
	return strings.ToUpper(text[:1]) + text[1:]
}
