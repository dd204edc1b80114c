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
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
)

// in is the faults as an error about a file, or "Secret NAMESPACE/NAME", nil if there are none: one a line, such as
// "tributary.yaml: clusters[1].name: Duplicate value: …".
func in(file string, faults ...*field.Error) error {
	lines := make([]error, len(faults))
	for i, fault := range faults {
		text := fault.Error()
		if fault.Field == "" { // of the file as a whole
			text = fault.Detail
		}
		lines[i] = errors.New(file + ": " + strings.ReplaceAll(text, "\n", " "))
	}
	return errors.Join(lines...)
}

// Parse reads the text of a configuration file: strictly, so that an unknown or repeated
// field is an error with its path; with defaults; and validated. Relative paths in it
// start at the file's directory. The error has every fault. The Config is shared: treat it as
// read-only.
func Parse(file string, data []byte) (*Config, error) {
	text, faults := toJSON(data)
	if len(faults) == 0 && string(text) == "null" {
		faults = field.ErrorList{kubeconfig.Whole("is empty; it may be cut off")}
	}
	if len(faults) > 0 {
		return nil, in(file, faults...)
	}
	c := defaults()
	faults, typed := strict(text, c)
	if typed {
		c.complete(text, filepath.Dir(file))
		faults = append(faults, c.Validate()...)
	}
	if len(faults) > 0 {
		return nil, in(file, faults...)
	}
	return c, nil
}

// toJSON turns YAML into JSON, and finds what is lost on the way: repeated keys and a
// second document.
func toJSON(data []byte) ([]byte, field.ErrorList) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&document)
	if err == nil && !errors.Is(decoder.Decode(&second), io.EOF) {
		err = errors.New("has a second document after ---; make one of them")
	}
	text, faults := []byte("null"), repeated(nil, &document) // null where there is no document
	if err == nil && len(faults) == 0 {
		var all any
		if err = kyaml.Unmarshal(data, &all); err == nil {
			dropNulls(all)
			text, err = json.Marshal(all)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, field.ErrorList{kubeconfig.Whole(strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	return text, faults
}

// dropNulls leaves fields out that have no value, so that each has its default.
func dropNulls(of any) {
	switch of := of.(type) {
	case map[string]any:
		maps.DeleteFunc(of, func(_ string, value any) bool { return value == nil })
		for _, value := range of {
			dropNulls(value)
		}
	case []any:
		for _, value := range of {
			dropNulls(value)
		}
	}
}

// repeated finds the keys that a mapping has twice.
func repeated(at *field.Path, node *yaml.Node) (faults field.ErrorList) {
	lines := map[string]int{}
	for i, child := range node.Content {
		switch {
		case node.Kind == yaml.SequenceNode:
			faults = append(faults, repeated(at.Index(i), child)...)
		case node.Kind != yaml.MappingNode:
			faults = append(faults, repeated(at, child)...)
		case i%2 == 0: // a key, which its value follows
			if first, twice := lines[child.Value]; twice {
				where := fmt.Sprintf("is given in line %d and in line %d; keep one", first, child.Line)
				faults = append(faults, kubeconfig.Detailed(field.Duplicate(at.Child(child.Value), field.OmitValueType{}), where))
			}
			lines[child.Value] = child.Line
		default:
			faults = append(faults, repeated(at.Child(node.Content[i-1].Value), child)...)
		}
	}
	return faults
}

// strict decodes a text on top of what a struct has. It says which fields the struct does not
// have, and whether the others are of its types.
func strict(text []byte, into any) (faults field.ErrorList, typed bool) {
	add := func(kind field.ErrorType, path, detail string) {
		faults = append(faults, &field.Error{Type: kind, Field: path, BadValue: field.OmitValueType{}, Detail: detail})
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	for _, of := range unknown {
		_, path, _ := strings.Cut(of.Error(), `"`) // unknown field "clusters[0].x"
		add(field.ErrorTypeForbidden, strings.TrimSuffix(path, `"`), "unknown field; docs/reference/configuration.md has all")
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		kind := strings.NewReplacer("slice", "list", "struct", "mapping", "ptr", "mapping", "float64", "number").Replace(wrong.Type.Kind().String())
		path := ""
		if at, _ := valueAt(nil, json.NewDecoder(bytes.NewReader(text)), wrong.Offset); at != nil {
			path = at.String()
		}
		add(field.ErrorTypeTypeInvalid, path, fmt.Sprintf("must be a %s, not %s", kind, wrong.Value))
	} else if err != nil {
		add(field.ErrorTypeInvalid, "", err.Error())
	}
	return faults, err == nil
}

// valueAt is the path of the value in which a JSON text has an offset, found is false behind the next one.
func valueAt(at *field.Path, text *json.Decoder, offset int64) (in *field.Path, found bool) {
	token, err := text.Token()
	if err != nil || text.InputOffset() >= offset {
		return at, true
	}
	if token != json.Delim('{') && token != json.Delim('[') {
		return nil, false
	}
	for i := 0; text.More(); i++ {
		child := at.Index(i)
		if token == json.Delim('{') {
			key, _ := text.Token()
			child = at.Child(fmt.Sprint(key))
		}
		if in, found := valueAt(child, text, offset); found {
			return in, true
		}
	}
	_, _ = text.Token() // its end
	return nil, false
}

// complete decodes members and sinks, which strict did without their defaults, and has
// relative paths start at a directory.
func (c *Config) complete(text []byte, dir string) {
	absolute := func(paths ...*string) {
		for _, path := range paths {
			if *path != "" && !filepath.IsAbs(*path) {
				*path = filepath.Join(dir, *path)
			}
		}
	}
	absolute(&c.Ingress.Kubeconfig)
	var of struct {
		Clusters []json.RawMessage `json:"clusters"`
		Sinks    []json.RawMessage `json:"sinks"`
	}
	overlay(&of, text)
	for i, text := range of.Clusters {
		c.Clusters[i] = c.member(text)
		absolute(&c.Clusters[i].Kubeconfig)
	}
	for i, text := range of.Sinks {
		c.Sinks[i] = defaultSink()
		overlay(&c.Sinks[i], text)
		auth := &c.Sinks[i].Auth
		absolute(&auth.BearerTokenFile, &auth.TLS.CertFile, &auth.TLS.KeyFile, &auth.TLS.CAFile)
	}
	if s := c.ClustersFrom.Secrets; s != nil && s.Selector == "" {
		s.Selector = SecretLabel + "=" + SecretLabelValue
	}
}

// member is the one that a text describes, on top of what all share.
func (c *Config) member(text []byte) (out Cluster) {
	shared, _ := json.Marshal(c.ClusterDefaults) // texts always marshal; lists are not shared then, into which decoding writes
	overlay(&out, shared, text)
	return out
}

// overlay decodes texts on top of what a struct has: a list as a whole, a mapping field by
// field. strict has reported what is wrong with them.
func overlay(into any, texts ...[]byte) {
	for _, text := range texts {
		_ = kjson.UnmarshalCaseSensitivePreserveInts(text, into)
	}
}

// defaults is a file that says nothing.
func defaults() *Config {
	return &Config{
		APIVersion: APIVersion, Kind: Kind,
		Listen: "127.0.0.1:9440", Instance: "default", Namespace: "tributary-system",
		Ingress:  Ingress{Namespaces: []string{"*"}},
		Clusters: []Cluster{},
		ClusterDefaults: ClusterSettings{
			Namespaces:   Namespaces{Include: []string{"*"}, Exclude: []string{"kube-*"}},
			AllowedCIDRs: []string{}, HoldSilentNodes: "0s", StableFor: "0s", StaleAfter: "0s",
		},
		Replicas: Replicas{
			Write: []string{WriteEndpoints, WriteEndpointSlices}, CreateNamespaces: true,
			Failover: []Failover{}, Orphans: OrphansKeep, CopyLabels: []string{"*"}, CopyAnnotations: []string{},
		},
		Rules: []rules.Rule{}, Sinks: []Sink{},
		LeaderElection: LeaderElection{Enabled: true, LeaseDuration: "15s"},
	}
}

// defaultSink is a sink of which nothing is said.
func defaultSink() Sink {
	return Sink{Namespaces: []string{"*"}, Window: "2s", RemovalWindow: "0s", MaxRequestsPerSecond: 5}
}
