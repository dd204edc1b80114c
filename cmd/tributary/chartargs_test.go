// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// TestChartStartsWhatRunTakes: the container of the manifests is started with flags that run has.
func TestChartStartsWhatRunTakes(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kubernetes/ingress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var deployment appsv1.Deployment
		if err := yaml.Unmarshal(document, &deployment); err != nil || deployment.Kind != "Deployment" {
			continue
		}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			seen++
			command, flags, err := newRoot().Find(container.Args)
			if err != nil || command.Name() != "run" {
				t.Fatalf("%v starts %v: %v", container.Args, command.Name(), err)
			}
			if err := command.ParseFlags(flags); err != nil {
				t.Errorf("%v: %v", container.Args, err)
			}
			if path, _ := command.Flags().GetString("config"); path == "" {
				t.Errorf("%v names no configuration", container.Args)
			}
		}
	}
	if seen == 0 {
		t.Error("no Deployment was found")
	}
}
