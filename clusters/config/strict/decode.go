// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Mode says how much a document may hold that its Go type does not.
type Mode uint8

const (
	// Exact is for a format of ours: an unknown field is a fault, and so is an
	// empty value for a list, because it may mean "none" or "the default".
	Exact Mode = iota
	// Foreign is for a format of others, whose newer versions may know more: an
	// unknown field is passed over and an empty value is as good as none.
	Foreign
)

// Defaulter is a struct that knows its defaults. SetDefaults is called on the
// zero value, before the fields of the document are put in its place.
type Defaulter interface{ SetDefaults() }

// Decode puts the single document of data into the struct that into points at.
// Structs, slices, maps with string keys, strings, booleans, integers, floats,
// base64 in []byte, and pointers to structs are understood; fields are named by
// their json tags and anonymous structs are part of their parent, as in
// encoding/json. Names are case-sensitive.
//
// A list of structs whose field has the tag base:"name" is decoded after its
// sibling of that name, and each of its items starts from that one's value.
//
// All faults are returned, without File. If there is any, what into points at
// is incomplete. Anchors, aliases and merge keys are refused: they make the
// place of a fault ambiguous, and a small file large.
func Decode(data []byte, into any, mode Mode) Faults {
	d := decoder{mode: mode, bases: map[string]reflect.Value{}}
	target := reflect.ValueOf(into).Elem()
	setDefaults(target)
	if root := d.document(data); root != nil {
		d.value(root, target, "")
	}
	return d.faults
}

type decoder struct {
	mode   Mode
	faults Faults
	// bases are what the items of lists start from instead of their defaults, by path.
	bases map[string]reflect.Value
}

func (d *decoder) fault(field, message, remedy string) {
	d.faults = append(d.faults, Fault{Field: field, Message: message, Remedy: remedy})
}

// document parses the text and returns its root, nil if there is a fault.
func (d *decoder) document(data []byte) *yaml.Node {
	parser := yaml.NewDecoder(bytes.NewReader(data))
	var first yaml.Node
	switch err := parser.Decode(&first); {
	case errors.Is(err, io.EOF):
		d.fault("", "is empty", "")
		return nil
	case err != nil:
		d.faults = append(d.faults, malformed(parser, data, err))
		return nil
	}
	var second yaml.Node
	for {
		switch err := parser.Decode(&second); {
		case errors.Is(err, io.EOF):
			return d.root(&first)
		case err != nil:
			d.faults = append(d.faults, malformed(parser, data, err))
			return nil
		case !empty(&second):
			d.faults = append(d.faults, Fault{Line: second.Line, Column: second.Column, Message: fmt.Sprintf("holds several documents, the second on line %d", second.Line), Remedy: "keep one"})
			return nil
		}
	}
}

func (d *decoder) root(document *yaml.Node) *yaml.Node {
	if empty(document) {
		d.fault("", "is empty", "")
		return nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		d.faults = append(d.faults, Fault{Line: root.Line, Column: root.Column, Message: "is not a mapping of fields to values"})
		return nil
	}
	return root
}

// empty reports whether a document holds nothing but perhaps comments.
func empty(document *yaml.Node) bool {
	return len(document.Content) == 0 || isNull(document.Content[0])
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func setDefaults(v reflect.Value) {
	if v.CanAddr() {
		if d, ok := v.Addr().Interface().(Defaulter); ok {
			d.SetDefaults()
		}
	}
}
