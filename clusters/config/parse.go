// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	faults, typed := strict(text, &Config{})
	c := decode(text)
	if typed {
		faults = append(faults, c.Validate()...)
	}
	if len(faults) > 0 {
		return nil, in(file, faults...)
	}
	for _, path := range c.paths() {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(file), *path)
		}
	}
	return c, nil
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
	if err == nil && !errors.Is(decoder.Decode(&second), io.EOF) {
		err = errors.New("has a second document after ---; make one of them")
	}
	var text []byte
	if err == nil {
		if faults := repeated(nil, &document); len(faults) > 0 {
			return nil, faults
		}
		text, err = kyaml.YAMLToJSON(data)
	}
	if err != nil {
		return nil, field.ErrorList{kubeconfig.Whole(strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	return text, nil
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

// strict says which fields of a text a struct does not have, and whether the others are of
// its types.
func strict(text []byte, into any) (faults field.ErrorList, typed bool) {
	unknown, err := kjson.UnmarshalStrict(text, into)
	for _, of := range unknown {
		_, path, _ := strings.Cut(of.Error(), `"`) // unknown field "clusters[0].x"
		faults = append(faults, &field.Error{
			Type: field.ErrorTypeForbidden, Field: strings.TrimSuffix(path, `"`), Detail: "unknown field; docs/reference/configuration.md has all",
		})
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		kind := strings.NewReplacer("slice", "list", "struct", "mapping", "ptr", "mapping", "float64", "number").Replace(wrong.Type.Kind().String())
		faults = append(faults, &field.Error{
			Type: field.ErrorTypeTypeInvalid, Field: wrong.Field, BadValue: field.OmitValueType{}, Detail: fmt.Sprintf("must be a %s, not %s", kind, wrong.Value),
		})
	} else if err != nil {
		faults = append(faults, kubeconfig.Whole(err.Error()))
	}
	return faults, err == nil
}

// decode puts a text on top of the defaults.
func decode(text []byte) *Config {
	c := defaults()
	w := struct {
		*Config
		ClusterDefaults json.RawMessage   `json:"clusterDefaults"`
		Clusters        []json.RawMessage `json:"clusters"`
		Sinks           []json.RawMessage `json:"sinks"`
	}{Config: c}
	overlay(&w, text)
	c.shared = w.ClusterDefaults
	c.ClusterDefaults = c.member(nil).ClusterSettings
	for _, raw := range w.Clusters {
		c.Clusters = append(c.Clusters, c.member(raw))
	}
	for _, raw := range w.Sinks {
		sink := defaultSink()
		overlay(&sink, raw)
		c.Sinks = append(c.Sinks, sink)
	}
	if s := c.ClustersFrom.Secrets; s != nil && s.Selector == "" {
		s.Selector = SecretLabel + "=" + SecretLabelValue
	}
	return c
}

// member is the one that a text describes, on top of what all share.
func (c *Config) member(text []byte) Cluster {
	out := Cluster{ClusterSettings: defaultSettings()}
	overlay(&out, c.shared, text)
	return out
}

// overlay puts texts on top of what a struct has: a list as a whole, a mapping field by
// field. strict has reported what is wrong with them.
func overlay(into any, texts ...[]byte) {
	for _, text := range texts {
		if len(text) > 0 {
			_ = kjson.UnmarshalCaseSensitivePreserveInts(text, into)
		}
	}
}

// defaults is a file that says nothing.
func defaults() *Config {
	return &Config{
		APIVersion: APIVersion, Kind: Kind,
		Listen: "127.0.0.1:9440", Instance: "default", Namespace: "tributary-system",
		Ingress:         Ingress{Namespaces: []string{"*"}},
		Clusters:        []Cluster{},
		ClusterDefaults: defaultSettings(),
		Replicas: Replicas{
			Write: []string{WriteEndpoints, WriteEndpointSlices}, CreateNamespaces: true,
			Failover: []Failover{}, Orphans: OrphansKeep, CopyLabels: []string{"*"}, CopyAnnotations: []string{},
		},
		Rules: []rules.Rule{}, Sinks: []Sink{},
		LeaderElection: LeaderElection{Enabled: true, LeaseDuration: "15s"},
	}
}

// defaultSettings are those of a member of which nothing is said.
func defaultSettings() ClusterSettings {
	return ClusterSettings{
		Namespaces:   Namespaces{Include: []string{"*"}, Exclude: []string{"kube-*"}},
		AllowedCIDRs: []string{}, HoldSilentNodes: "0s", StableFor: "0s", StaleAfter: "0s",
	}
}

// defaultSink is a sink of which nothing is said.
func defaultSink() Sink {
	return Sink{Namespaces: []string{"*"}, Window: "2s", RemovalWindow: "0s", MaxRequestsPerSecond: 5}
}
