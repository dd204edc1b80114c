// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/config/strict"

	"tributary.dev/tributary/internal/golden"
)

// schemaFile is what editors check and complete a configuration with.
const schemaFile = "../../deploy/schema/config.v1alpha1.json"

func TestSchemaIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema(t)); err != nil {
		t.Fatal(err)
	}
	golden.File(t, schemaFile, want.Bytes())
}

// TestSchemaKnowsTheExample: every field of it, and no other.
func TestSchemaKnowsTheExample(t *testing.T) {
	var example any
	if err := yaml.Unmarshal([]byte(read(t, "testdata/example.yaml")), &example); err != nil {
		t.Fatal(err)
	}
	if unknown := unknownTo(schema(t), example, ""); len(unknown) > 0 {
		t.Errorf("the schema does not know %q of the example", unknown)
	}
	wrong := map[string]any{"clusters": []any{map[string]any{"nmae": "a"}}}
	if unknown := unknownTo(schema(t), wrong, ""); !slices.Equal(unknown, []string{".clusters[].nmae"}) {
		t.Errorf("unknown: %q", unknown)
	}
}

// unknownTo lists the fields of a value that a schema does not name.
func unknownTo(s map[string]any, value any, path string) (unknown []string) {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if of, known := properties[name].(map[string]any); known {
				unknown = append(unknown, unknownTo(of, v[name], path+"."+name)...)
			} else if s["additionalProperties"] == false {
				unknown = append(unknown, path+"."+name)
			}
		}
	case []any:
		items, _ := s["items"].(map[string]any)
		for _, item := range v {
			unknown = append(unknown, unknownTo(items, item, path+"[]")...)
		}
	}
	return unknown
}

// schema renders the types as a JSON schema, draft 7, which editors know best.
func schema(t *testing.T) map[string]any {
	t.Helper()
	w := schemaWriter{comments: comments(t), required: required(), enums: map[string][]any{}}
	for _, pattern := range []string{"*.go", "../kubeconfig/*.go", "../store/*.go"} {
		w.findEnums(t, pattern)
	}
	var top Config
	top.SetDefaults()
	out := w.structure("", reflect.ValueOf(top))
	out["$schema"], out["title"] = "http://json-schema.org/draft-07/schema#", "Configuration of Tributary, "+APIVersion
	out["description"] = "What it takes `tributary check --offline` may refuse: lengths of time that are out of range, label selectors, expressions, " +
		"CIDRs with bits beyond their length, numbers in another notation, and fields that do not go together."
	properties := out["properties"].(map[string]any)
	properties["apiVersion"].(map[string]any)["const"] = APIVersion
	properties["kind"].(map[string]any)["const"] = Kind
	shared := properties["clusterDefaults"].(map[string]any)["properties"].(map[string]any)
	delete(shared, "name") // each cluster's own
	delete(shared, "kubeconfig")
	return out
}

type schemaWriter struct {
	comments map[string]string
	required map[string]bool
	// enums are the constants of string types, by the name of the type.
	enums map[string][]any
}

// structure describes a struct, whose values are its defaults.
func (w *schemaWriter) structure(path string, defaults reflect.Value) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range strict.Fields(defaults.Type()) {
		name := strings.TrimPrefix(path+"."+f.Name, ".")
		value := defaults.FieldByIndex(f.Index)
		property := w.typed(name, f.Type, value)
		if text := w.comments[f.Struct.Name()+"."+f.GoName]; text != "" {
			property["description"] = text
		}
		switch {
		case w.required[name]:
			required = append(required, f.Name)
		case f.Type.Kind() != reflect.Struct && !(f.Type.Kind() == reflect.Pointer && value.IsNil()):
			property["default"] = value.Interface()
		}
		if !w.required[name] && f.Type.Kind() != reflect.Slice { // null is as good as nothing
			property["type"] = []any{property["type"], "null"}
			if words, closed := property["enum"].([]any); closed {
				property["enum"] = append(words, nil)
			}
		}
		properties[f.Name] = property
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func (w *schemaWriter) typed(path string, t reflect.Type, value reflect.Value) map[string]any {
	fresh := func(t reflect.Type) reflect.Value {
		v := reflect.New(t)
		if d, ok := v.Interface().(strict.Defaulter); ok {
			d.SetDefaults()
		}
		return v.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return w.structure(path, value)
	case reflect.Pointer:
		return w.typed(path, t.Elem(), fresh(t.Elem()))
	case reflect.Slice:
		list := map[string]any{"type": "array", "items": w.typed(path+"[]", t.Elem(), fresh(t.Elem()))}
		if slices.Contains(filled, unshared(path)) {
			list["minItems"] = 1
		}
		return list
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": w.typed(path+"[]", t.Elem(), fresh(t.Elem()))}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return number(path, map[string]any{"type": "integer"})
	case reflect.Float64:
		return number(path, map[string]any{"type": "number"})
	}
	out := map[string]any{"type": "string"}
	if f, found := formOf(path, t, value.String()); found {
		out["pattern"] = f.pattern
	}
	if words := w.enums[t.Name()]; words != nil {
		if strings.HasSuffix(path, "[]") || w.required[path] || value.String() != "" {
			out["enum"] = slices.Clone(words)
		} else {
			out["enum"] = append([]any{""}, words...) // the empty text leaves it to what is around
		}
	}
	return out
}

// findEnums reads the constants of string types.
func (w *schemaWriter) findEnums(t *testing.T, pattern string) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			named, isNamed := spec.Type.(*ast.Ident)
			literal, isLiteral := spec.Values[0].(*ast.BasicLit)
			if !isNamed || !isLiteral || literal.Kind != token.STRING || !named.IsExported() {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && text != "" {
				w.enums[named.Name] = append(w.enums[named.Name], text)
			}
			return true
		})
	}
}
