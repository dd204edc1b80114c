// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Field is a field of a struct as it is named in YAML.
type Field struct {
	Name string
	// Index is for reflect.Value.FieldByIndex.
	Index []int
	Type  reflect.Type
	// Struct is the type that declares the field, and GoName its name there:
	// another one than the type asked for when an anonymous struct holds it.
	Struct reflect.Type
	GoName string
	// Base names the sibling from which the items of a list start.
	Base string
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// Fields lists the fields of a struct type in the order of their declaration,
// those of anonymous structs in the place of the struct. Unexported fields and
// those tagged json:"-" are left out, and such that decode themselves, which are
// extensions of other tools in a foreign format.
func Fields(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for _, inner := range Fields(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				out = append(out, inner)
			}
		case f.IsExported() && name != "-" && name != "" && !reflect.PointerTo(f.Type).Implements(unmarshaler):
			out = append(out, Field{Name: name, Index: []int{i}, Type: f.Type, Struct: t, GoName: f.Name, Base: f.Tag.Get("base")})
		}
	}
	return out
}

func indexOf(fields []Field, name string) int {
	return slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
}

// suggestion is the remedy for an unknown field.
func suggestion(key string, fields []Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return Suggest(key, names)
}

// Suggest is the remedy for a name that is none of those that are known: the one that
// Nearest finds, else the list of them.
func Suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known here: " + strings.Join(known, ", ")
}

// Nearest is the known name that a slip of the fingers would turn into this one; "" if
// there is none.
func Nearest(name string, known []string) (best string) {
	bestDistance := max(2, len(name)/3) + 1
	for _, k := range known {
		if distance := editDistance(strings.ToLower(name), strings.ToLower(k)); distance < bestDistance && distance < len(k) {
			best, bestDistance = k, distance
		}
	}
	return best
}

// editDistance counts the insertions, deletions and substitutions of bytes that
// turn a into b. Keys longer than any field's name are far from all.
func editDistance(a, b string) int {
	const longest = 64
	if len(a) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
