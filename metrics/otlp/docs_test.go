// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/metrics/record"
)

// TestEveryAttributeIsDocumented compares what spans carry with docs/tracing.md.
func TestEveryAttributeIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	rec := removal(time.Now())
	rec.Attempt, rec.Error = 1, "timeout"
	rec.Added, rec.Readied, rec.Unreadied = rec.Removed, rec.Removed, rec.Removed
	for _, a := range attributes(&rec) {
		name := string(a.Key)
		last := name[strings.LastIndexByte(name, '.'):]
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+last+"`") {
			t.Errorf("docs/tracing.md does not know the attribute %s", name)
		}
	}
	rec.Stages = record.Stages{WriteService: 1, WriteSlices: 1, WriteEndpoints: 1, Echo: 1}
	for _, s := range steps(&rec.Stages) {
		if !strings.Contains(string(page), "`"+s.name+"`") {
			t.Errorf("docs/tracing.md does not know the span %s", s.name)
		}
	}
}

// TestOnlyThisPackageNeedsOpenTelemetry: what everybody imports stays free of it.
func TestOnlyThisPackageNeedsOpenTelemetry(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "tributary.dev/tributary/metrics").Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	for dependency := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(dependency, "go.opentelemetry.io/") || strings.HasPrefix(dependency, "google.golang.org/grpc") {
			t.Errorf("metrics depends on %s", dependency)
		}
	}
}
