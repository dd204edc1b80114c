// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"maps"
	"testing"
)

func TestCopiedLabelsAndAnnotations(t *testing.T) {
	source := map[string]string{
		"app": "web", "team": "red", "bad value": "x", "ok": "no value!", LabelHeadless: "", LabelManagedBy: "helm",
		LabelEndpointsManagedBy: "x", "tributary.dev/x": "y", LabelServiceName: "other", LabelSkipMirror: "false",
	}
	if got := CopiedLabels(source, func(key string) bool { return key != "team" }); !maps.Equal(got, map[string]string{"app": "web"}) {
		t.Errorf("labels %v", got)
	}
	if got := CopiedLabels(source, nil); len(got) > 0 {
		t.Errorf("labels %v", got)
	}
	annotations := map[string]string{
		"a": "1", "Example.com/B": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}", AnnotationReplica: "x/y",
		AnnotationTriggerTime: "now", "no key!": "z",
	}
	if got := CopiedAnnotations(annotations, func(string) bool { return true }); !maps.Equal(got, map[string]string{"a": "1", "Example.com/B": "2"}) {
		t.Errorf("annotations %v", got)
	}
	if got := CopiedAnnotations(annotations, nil); len(got) > 0 {
		t.Errorf("annotations %v", got)
	}
}
