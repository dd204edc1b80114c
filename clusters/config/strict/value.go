// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value decodes one node. Its depth is bounded by the depth of the Go type, as
// no node without a place in the type is ever entered.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.fault(path, "uses a YAML anchor or alias", "write the value out, or quote it if it begins with & or *")
		return
	}
	if isNull(n) {
		if d.mode == Exact && v.Kind() == reflect.Slice {
			d.fault(path, "has no value", "write [] for an empty list, or leave the field out for its default")
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v.Elem())
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.dictionary(n, v, path)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			d.base64(n, v, path)
			return
		}
		d.list(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(path, "must be a mapping of fields to values", "")
		return
	}
	fields := Fields(v.Type())
	known := func(key string) bool { return indexOf(fields, key) >= 0 }
	var after []func()
	d.eachKey(n, path, known, func(key string, value *yaml.Node) {
		switch i := indexOf(fields, key); {
		case i >= 0 && fields[i].Base != "" && hasKey(n, fields[i].Base):
			after = append(after, func() {
				at := join(path, key)
				d.bases[at] = v.FieldByIndex(fields[indexOf(fields, fields[i].Base)].Index)
				d.value(value, v.FieldByIndex(fields[i].Index), at)
			})
		case i >= 0:
			d.value(value, v.FieldByIndex(fields[i].Index), join(path, key))
		case d.mode == Exact:
			d.fault(join(path, key), "unknown field", suggestion(key, fields))
		}
	})
	for _, decode := range after {
		decode()
	}
}

func hasKey(mapping *yaml.Node, key string) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return true
		}
	}
	return false
}

// eachKey calls do for every key of a mapping and reports repeated ones, of
// which only the first counts. In a foreign format a key that is not known is
// data as much as any value, so it is not quoted.
func (d *decoder) eachKey(n *yaml.Node, path string, known func(string) bool, do func(key string, value *yaml.Node)) {
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() != "!!str" {
			d.fault(path, fmt.Sprintf("has a key on line %d that is not plain text", key.Line), "")
			continue
		}
		if first, repeated := lines[key.Value]; repeated {
			field := path
			if d.mode == Exact || known(key.Value) {
				field = join(path, key.Value)
			}
			d.fault(field, fmt.Sprintf("repeated field, on line %d and on line %d", first, key.Line), "keep one")
			continue
		}
		lines[key.Value] = key.Line
		do(key.Value, n.Content[i+1])
	}
}

func (d *decoder) dictionary(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(path, "must be a mapping of names to values", "")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	unnamed := func(string) bool { return false }
	d.eachKey(n, path, unnamed, func(key string, value *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(value, element, path)
		v.SetMapIndex(reflect.ValueOf(key), element)
	})
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fault(path, "must be a list", "")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if base, ok := d.bases[path]; ok {
			v.Index(i).Set(base) // lists and maps in it are replaced as a whole, never changed
		} else {
			setDefaults(v.Index(i))
		}
		if d.mode == Exact && isNull(item) {
			d.fault(at, "has no value", "write one, or remove the item")
			continue
		}
		d.value(item, v.Index(i), at)
	}
}

// base64 accepts line breaks and spaces inside the value, as block scalars have
// them.
func (d *decoder) base64(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.fault(path, "must be text in base64", "")
		return
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
	if err != nil {
		// The decoder's own message gives an offset only, yet says nothing more.
		d.fault(path, "is not valid base64", "the file may be cut off; write it again")
		return
	}
	v.SetBytes(raw)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	tag := ""
	if n.Kind == yaml.ScalarNode {
		tag = n.ShortTag()
	}
	switch v.Kind() {
	case reflect.String:
		if tag != "!!str" {
			remedy := ""
			if tag != "" {
				remedy = "put it in quotes"
			}
			d.fault(path, "must be text", remedy)
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		var b bool
		if tag != "!!bool" || n.Decode(&b) != nil {
			d.fault(path, "must be true or false", "")
			return
		}
		v.SetBool(b)
	case reflect.Int:
		var i int
		if tag != "!!int" || n.Decode(&i) != nil {
			d.fault(path, "must be a whole number", "")
			return
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		var f float64
		if (tag != "!!int" && tag != "!!float") || n.Decode(&f) != nil {
			d.fault(path, "must be a number", "")
			return
		}
		v.SetFloat(f)
	default:
		panic("strict: type " + v.Type().String() + " of " + path + " is not supported")
	}
}

// join quotes a key that would make the path ambiguous or break its line.
func join(path, key string) string {
	odd := func(r rune) bool { return strings.ContainsRune(". []:\"", r) || !strconv.IsPrint(r) }
	if key == "" || strings.ContainsFunc(key, odd) {
		key = strconv.Quote(key)
	}
	if len(key) > 60 {
		key = strings.ToValidUTF8(key[:60], "") + "..."
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
