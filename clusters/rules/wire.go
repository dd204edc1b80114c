// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// class is how values of a Go type are written, in the least of bytes, and how expressions
// see what was written: it is read into their values, without Go's in between. What is
// written depends on paths, how it is read on the type alone. A pointer is of the class of
// what it points to. The structs that stand for a single value in JSON are that value, as
// in Kubernetes: times are timestamps or null, amounts quantities, and a port that may be a
// name or a number is either.
type class struct {
	of reflect.Type
	is *types.Type
	fields
	element *class // of a list or map
	empty   ref.Val
	// leaf writes a value that has no parts; nil for the others.
	leaf writer
	read func(*reader) ref.Val
}

// writer appends a value that is set.
type writer func(b []byte, v reflect.Value) []byte

// classTable has the classes of Pods, Services and Nodes, and of all in them.
type classTable struct {
	byType map[reflect.Type]*class
	byName map[string]*class // of structs
}

var classes = sync.OnceValue(func() *classTable {
	t := &classTable{map[reflect.Type]*class{}, map[string]*class{}}
	for _, of := range []reflect.Type{reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.Service](), reflect.TypeFor[Node]()} {
		t.add(of)
	}
	return t
})

// classOf is the class of a type that is in the table.
func classOf[T any]() *class { return classes().byType[reflect.TypeFor[T]()] }

func (t *classTable) add(of reflect.Type) *class {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if c := t.byType[of]; c != nil {
		return c
	}
	c := &class{of: of}
	t.byType[of] = c
	switch {
	case c.value():
	case of.Kind() == reflect.Struct:
		t.addStruct(c)
	case of.Kind() == reflect.Slice:
		c.element = t.add(of.Elem())
		c.is, c.read = types.NewListType(c.element.is), c.readList
	case of.Kind() == reflect.Map:
		c.element = t.add(of.Elem())
		c.is, c.read = types.NewMapType(types.StringType, c.element.is), c.readMap
	}
	c.empty = c.read(&reader{})
	return c
}

func (t *classTable) addStruct(c *class) {
	c.is, c.byName, c.read = types.NewObjectType(typeName(c.of)), map[string]int{}, c.readStruct
	t.byName[typeName(c.of)] = c
	t.addFields(c, c.of, nil)
}

func (t *classTable) addFields(c *class, of reflect.Type, index []int) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(slices.Clip(index), i)
		switch name := fieldName(f); {
		case !f.IsExported() || name == "-":
		case f.Anonymous && name == f.Name: // inlined
			t.addFields(c, f.Type, at)
		default:
			c.byName[name] = len(c.all)
			c.all = append(c.all, field{name, at, t.add(f.Type)})
		}
	}
}

// value makes c the class of a type without parts, if it is one.
func (c *class) value() bool {
	switch c.of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		c.leaf = func(b []byte, v reflect.Value) []byte {
			return binary.AppendVarint(b, v.Field(0).Interface().(time.Time).UnixMicro())
		}
		c.is, c.read = types.NewNullableType(types.TimestampType), readTime
		return true
	case reflect.TypeFor[resource.Quantity]():
		c.leaf = func(b []byte, v reflect.Value) []byte {
			q := v.Interface().(resource.Quantity)
			return appendText(b, q.String())
		}
		c.is, c.read = apiservercel.QuantityType, readQuantity
		return true
	case reflect.TypeFor[intstr.IntOrString]():
		c.is, c.leaf, c.read = types.DynType, appendPort, readPort
		return true
	case reflect.TypeFor[[]byte]():
		c.leaf = func(b []byte, v reflect.Value) []byte { return appendText(b, string(v.Bytes())) }
		c.is, c.read = types.BytesType, func(r *reader) ref.Val { return types.Bytes(r.text()) }
		return true
	}
	switch c.of.Kind() {
	case reflect.String:
		c.leaf = func(b []byte, v reflect.Value) []byte { return appendText(b, v.String()) }
		c.is, c.read = types.StringType, func(r *reader) ref.Val { return types.String(r.text()) }
	case reflect.Bool:
		c.leaf = func(b []byte, v reflect.Value) []byte {
			if v.Bool() {
				return append(b, 1)
			}
			return append(b, 0)
		}
		c.is, c.read = types.BoolType, func(r *reader) ref.Val { return types.Bool(r.byte() != 0) }
	case reflect.Int, reflect.Int32, reflect.Int64:
		c.leaf = func(b []byte, v reflect.Value) []byte { return binary.AppendVarint(b, v.Int()) }
		c.is, c.read = types.IntType, func(r *reader) ref.Val { return types.Int(r.number()) }
	}
	return c.leaf != nil
}

// writer returns what writes of a value that which paths name.
func (c *class) writer(p *paths) writer {
	write := c.leaf
	switch {
	case write != nil && p.whole:
	case c.of.Kind() == reflect.String && p.each != nil:
		write = func(b []byte, v reflect.Value) []byte { return appendLength(b, v.String()) }
	case write != nil: // that it is set is enough
		nothing := c.leaf(nil, reflect.Zero(c.of))
		return func(b []byte, _ reflect.Value) []byte { return append(b, nothing...) }
	case c.of.Kind() == reflect.Struct:
		write = c.structWriter(p)
	case c.of.Kind() == reflect.Slice:
		write = c.listWriter(p)
	default:
		write = c.mapWriter(p)
	}
	return func(b []byte, v reflect.Value) []byte {
		switch {
		case v.Kind() != reflect.Pointer:
			return write(b, v)
		case v.IsNil():
			return write(b, reflect.Zero(c.of))
		}
		return write(b, v.Elem())
	}
}

// end is after the fields of a struct, which are numbered from 1.
const end = 0

// structWriter writes which fields are set, of those that are named, and what they are. A
// field is set that an API server would write out.
func (c *class) structWriter(p *paths) writer {
	type part struct {
		at    byte
		index []int
		write writer
	}
	var parts []part
	for at, f := range c.all {
		if sub := p.in(f.name); sub != nil {
			parts = append(parts, part{byte(1 + at), f.index, f.class.writer(sub)})
		}
	}
	return func(b []byte, v reflect.Value) []byte {
		for _, part := range parts {
			f := v.FieldByIndex(part.index)
			if f.IsZero() || (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0 {
				continue
			}
			b = part.write(append(b, part.at), f)
		}
		return append(b, end)
	}
}

func (c *class) readStruct(r *reader) ref.Val {
	o := &object{class: c}
	for next := r.byte(); next != end; next = r.byte() {
		at := min(int(next), len(c.all)) - 1
		o.set = append(o.set, slot{at, c.all[at].class.read(r)})
	}
	return o
}

// listWriter writes all elements in their places, as far as they are needed.
func (c *class) listWriter(p *paths) writer {
	of := p.each
	switch {
	case p.whole:
		of = wholly
	case of == nil: // that it is set is enough
		return func(b []byte, _ reflect.Value) []byte { return append(b, 0) }
	}
	write := c.element.writer(of)
	return func(b []byte, v reflect.Value) []byte {
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = write(b, v.Index(i))
		}
		return b
	}
}

func (c *class) readList(r *reader) ref.Val {
	elements := make([]ref.Val, r.count())
	for i := range elements {
		elements[i] = c.element.read(r)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}

// mapWriter writes the keys that are named, or all of them, in order, and as much of their
// values as is needed.
func (c *class) mapWriter(p *paths) writer {
	type entry struct {
		name  string
		key   reflect.Value
		write writer
	}
	byName := func(a, b entry) int { return strings.Compare(a.name, b.name) }
	each := p.each
	if p.whole {
		each = wholly
	}
	var named []entry
	byKey := map[string]writer{}
	for name, sub := range p.fields {
		both := &paths{}
		both.merge(sub)
		both.merge(each)
		byKey[name] = c.element.writer(both)
		named = append(named, entry{name, reflect.ValueOf(name).Convert(c.of.Key()), byKey[name]})
	}
	slices.SortFunc(named, byName)
	var other writer
	if each != nil {
		other = c.element.writer(each)
	}
	return func(b []byte, v reflect.Value) []byte {
		var entries []entry
		if each != nil {
			for _, key := range v.MapKeys() {
				write := byKey[key.String()]
				if write == nil {
					write = other
				}
				entries = append(entries, entry{key.String(), key, write})
			}
			slices.SortFunc(entries, byName)
		} else {
			entries = slices.DeleteFunc(slices.Clone(named), func(e entry) bool { return !v.MapIndex(e.key).IsValid() })
		}
		b = binary.AppendUvarint(b, uint64(len(entries)))
		for _, e := range entries {
			b = e.write(appendText(b, e.name), v.MapIndex(e.key))
		}
		return b
	}
}

func (c *class) readMap(r *reader) ref.Val {
	values := make(map[ref.Val]ref.Val)
	for range r.count() {
		key := types.String(r.text())
		values[key] = c.element.read(r)
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, values)
}

func readTime(r *reader) ref.Val {
	if r.left == "" {
		return types.NullValue
	}
	if t := time.UnixMicro(r.number()); !t.IsZero() {
		return types.Timestamp{Time: t}
	}
	return types.NullValue
}

func readQuantity(r *reader) ref.Val {
	q, err := resource.ParseQuantity(r.text())
	if err != nil {
		q = resource.Quantity{}
	}
	return apiservercel.Quantity{Quantity: &q}
}

func appendPort(b []byte, v reflect.Value) []byte {
	port := v.Interface().(intstr.IntOrString)
	if port.Type == intstr.String {
		return appendText(append(b, 1), port.StrVal)
	}
	return binary.AppendVarint(append(b, 0), int64(port.IntVal))
}

func readPort(r *reader) ref.Val {
	if r.byte() == 1 {
		return types.String(r.text())
	}
	return types.Int(r.number())
}
