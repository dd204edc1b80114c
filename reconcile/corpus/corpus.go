// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary reads and writes

// Package corpus is a collection of whole objects to learn from: what stands in
// member clusters, and what Tributary writes for it.
//
// Each directory under testdata is one story. Every file but ingress.yaml is a
// member cluster, named as the file is, and begins with a comment that says
// what to look at; ingress.yaml holds everything that stands in the ingress
// cluster afterwards, in the order in which it was created. The test runs the
// members through the product and compares; -update writes the files anew. The
// oracle in e2e asks upstream's controllers about the same members.
//
// It is part of no product binary.
package corpus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Golden is the name of the file with the expected objects of a story.
const Golden = "ingress.yaml"

// Story is one directory.
type Story struct {
	Name    string
	Dir     string
	Members []Member
}

// Member is one member cluster: the objects that Tributary reads there.
type Member struct {
	Name      string
	Services  []*corev1.Service
	Pods      []*corev1.Pod
	Nodes     []*corev1.Node
	Endpoints []*corev1.Endpoints
	Slices    []*discoveryv1.EndpointSlice
}

// Load reads all stories under a directory, sorted by name.
func Load(root string) ([]Story, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list stories: %w", err)
	}
	var stories []Story
	for _, file := range files {
		dir, base := filepath.Split(file)
		name := filepath.Base(dir)
		if len(stories) == 0 || stories[len(stories)-1].Name != name {
			stories = append(stories, Story{Name: name, Dir: filepath.Clean(dir)})
		}
		if base == Golden {
			continue
		}
		member, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("story %s: %w", name, err)
		}
		story := &stories[len(stories)-1]
		story.Members = append(story.Members, member)
	}
	return stories, nil
}

// read reads one member from a file of YAML documents. Unknown fields are errors:
// a misspelt one would make a story tell nothing.
func read(file string) (Member, error) {
	m := Member{Name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
	data, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err == nil {
			err = m.add(document)
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
}

func (m *Member) add(document []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return err
	}
	switch meta.Kind {
	case "Service":
		return into(&m.Services, document)
	case "Pod":
		return into(&m.Pods, document)
	case "Node":
		return into(&m.Nodes, document)
	case "Endpoints":
		return into(&m.Endpoints, document)
	case "EndpointSlice":
		return into(&m.Slices, document)
	case "":
		if len(bytes.TrimSpace(document)) == 0 || meta.APIVersion == "" {
			return nil // comments only
		}
	}
	return fmt.Errorf("kind %q is nothing that Tributary reads", meta.Kind)
}

func into[T any](list *[]*T, document []byte) error {
	object := new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}
