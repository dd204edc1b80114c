// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// TestUpstreamAgreesWithTheCorpus runs upstream's controllers on whole members that are written
// as examples for people: each begins with a comment that says what to look at.
func TestUpstreamAgreesWithTheCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d members, %v", len(files), err)
	}
	for _, file := range files {
		services, pods := readMember(t, file)
		for i, svc := range services {
			c := &Case{Number: uint64(i), Service: svc}
			for _, p := range pods {
				if p.Namespace == svc.Namespace {
					c.Pods = append(c.Pods, p)
				}
			}
			c = c.edit(moveTo(c.Name()))
			if d := diff(t, c); d != "" {
				t.Errorf("%s, %s:\n%s", file, svc.Name, d)
			}
		}
	}
}

// readMember reads the Services and Pods of one member from YAML documents. Unknown fields are
// errors: a misspelt one would test nothing.
func readMember(t *testing.T, file string) (services []*corev1.Service, pods []*corev1.Pod) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return services, pods
		}
		var meta metav1.TypeMeta
		if err == nil {
			err = yaml.Unmarshal(document, &meta)
		}
		switch {
		case err != nil:
		case meta.Kind == "Service":
			svc := new(corev1.Service)
			err, services = yaml.UnmarshalStrict(document, svc), append(services, svc)
		case meta.Kind == "Pod":
			p := new(corev1.Pod)
			err, pods = yaml.UnmarshalStrict(document, p), append(pods, p)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// moveTo changes the namespace of a case.
func moveTo(namespace string) func(*Case) {
	return func(c *Case) {
		for _, p := range c.Pods {
			p.Namespace = namespace
		}
		c.Service.Namespace = namespace
	}
}
