// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/rules"
)

// Error is all that is wrong with one file or Secret.
type Error struct {
	// File is its path, or "Secret NAMESPACE/NAME".
	File   string
	Faults field.ErrorList
}

// Error renders one fault a line: "tributary.yaml: clusters[1].name: Duplicate value: …".
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, fault := range e.Faults {
		text := fault.Error()
		if fault.Field == "" { // of the file as a whole
			text = fault.ErrorBody()
		}
		lines[i] = e.File + ": " + strings.ReplaceAll(text, "\n", " ")
	}
	return strings.Join(lines, "\n")
}

// in is the faults as an error about a file, nil if there are none.
func in(file string, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return &Error{file, faults}
}

// Parse reads the text of a configuration file: strictly, so that an unknown or repeated
// field is an error with its path; with defaults; and validated. Relative paths in it
// start at the file's directory. The error is an *Error with every fault. The Config is
// shared: treat it as read-only.
func Parse(file string, data []byte) (*Config, error) {
	text, faults := toJSON(data)
	if len(faults) == 0 && string(text) == "null" {
		faults = field.ErrorList{whole("is empty; it may be cut off")}
	}
	if len(faults) > 0 {
		return nil, in(file, faults)
	}
	faults = strict(text, &Config{})
	c, err := decode(text)
	if err != nil && len(faults) == 0 {
		faults = append(faults, whole(err.Error()))
	}
	if err == nil {
		faults = append(faults, c.Validate()...)
	}
	if len(faults) > 0 {
		return nil, in(file, faults)
	}
	for _, path := range c.paths() {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(file), *path)
		}
	}
	c.program, _ = rules.Compile(c.compilable())
	return c, nil
}

// whole is a fault of the file as a whole.
func whole(detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: detail}
}

// toJSON turns YAML into JSON, and finds what is lost on the way: repeated keys and a
// second document.
func toJSON(data []byte) ([]byte, field.ErrorList) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return []byte("null"), nil
	}
	if err != nil {
		return nil, field.ErrorList{whole(strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	if !errors.Is(decoder.Decode(&second), io.EOF) {
		return nil, field.ErrorList{whole("has a second document after ---; make one of them")}
	}
	var faults field.ErrorList
	repeated(nil, &document, &faults)
	if len(faults) > 0 {
		return nil, faults
	}
	text, err := kyaml.YAMLToJSON(data)
	if err != nil {
		return nil, field.ErrorList{whole(strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	return text, nil
}

// repeated finds the keys of mappings that are given twice.
func repeated(at *field.Path, node *yaml.Node, faults *field.ErrorList) {
	lines := map[string]int{}
	for i, child := range node.Content {
		switch {
		case node.Kind == yaml.SequenceNode:
			repeated(at.Index(i), child, faults)
		case node.Kind != yaml.MappingNode:
			repeated(at, child, faults)
		case i%2 == 0: // a key, which its value follows
			if first, twice := lines[child.Value]; twice {
				*faults = append(*faults, detailed(field.Duplicate(at.Child(child.Value), field.OmitValueType{}), fmt.Sprintf("is given in line %d and in line %d; keep one", first, child.Line)))
			}
			lines[child.Value] = child.Line
		default:
			repeated(at.Child(node.Content[i-1].Value), child, faults)
		}
	}
}

func detailed(fault *field.Error, detail string) *field.Error {
	fault.Detail = detail
	return fault
}

var unknownField = regexp.MustCompile(`^unknown field "((?:.*\.)?(.*))"$`)

// strict says which fields of a text a struct does not have, or has with another type.
func strict(text []byte, into any) (faults field.ErrorList) {
	unknown, err := kjson.UnmarshalStrict(text, into)
	for _, of := range unknown {
		fault := whole(of.Error())
		if found := unknownField.FindStringSubmatch(of.Error()); found != nil {
			remedy := "docs/reference/configuration.md has all"
			known := slices.Sorted(maps.Keys(fieldNames(reflect.TypeFor[Config](), map[string]bool{})))
			if near := rules.Nearest(found[2], known); near != "" && near != found[2] {
				remedy = fmt.Sprintf("did you mean %q?", near)
			}
			fault = &field.Error{Type: field.ErrorTypeForbidden, Field: found[1], Detail: "unknown field; " + remedy}
		}
		faults = append(faults, fault)
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		kind := strings.NewReplacer("slice", "list", "struct", "mapping", "ptr", "mapping", "float64", "number").Replace(wrong.Type.Kind().String())
		faults = append(faults, &field.Error{
			Type: field.ErrorTypeTypeInvalid, Field: wrong.Field, BadValue: field.OmitValueType{}, Detail: fmt.Sprintf("must be a %s, not %s", kind, wrong.Value),
		})
	} else if err != nil {
		faults = append(faults, whole(err.Error()))
	}
	return faults
}

// fieldNames gathers the names of all fields that a file may have.
func fieldNames(t reflect.Type, into map[string]bool) map[string]bool {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			if name := f.Tag.Get("json"); name != "" {
				into[name] = true
				fieldNames(f.Type, into)
			}
		}
	}
	return into
}

// wire is a Config whose members and sinks are still to be put on top of their defaults.
type wire struct {
	*Config
	ClusterDefaults json.RawMessage   `json:"clusterDefaults"`
	Clusters        []json.RawMessage `json:"clusters"`
	Sinks           []json.RawMessage `json:"sinks"`
}

// decode puts a text on top of the defaults. What strict found in it does not matter.
func decode(text []byte) (*Config, error) {
	c := defaults()
	w := wire{Config: c}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &w); err != nil {
		return nil, err
	}
	c.shared = w.ClusterDefaults
	var err error
	if c.ClusterDefaults, err = c.member(nil); err != nil {
		return nil, err
	}
	for _, raw := range w.Clusters {
		member, err := c.member(raw)
		if err != nil {
			return nil, err
		}
		c.Clusters = append(c.Clusters, member)
	}
	for _, raw := range w.Sinks {
		sink := defaultSink()
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &sink); err != nil {
			return nil, err
		}
		c.Sinks = append(c.Sinks, sink)
	}
	if s := c.ClustersFrom.Secrets; s != nil && s.Selector == "" {
		s.Selector = SecretLabel + "=" + SecretLabelValue
	}
	return c, nil
}

// member is one that is given by a text, on top of what all share.
func (c *Config) member(text []byte) (Cluster, error) {
	out := defaultCluster()
	for _, raw := range [][]byte{c.shared, text} {
		if len(raw) > 0 {
			if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &out); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}
