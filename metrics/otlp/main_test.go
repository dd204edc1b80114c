// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary.dev/tributary/metrics/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment sets the variables given and removes all others of OpenTelemetry.
func environment(t testing.TB, vars map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	for name, value := range vars {
		t.Setenv(name, value)
	}
}

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// removal is a change in which two pods left; it ended just now.
func removal(start time.Time) record.Change {
	causes := []record.Cause{
		{
			Cluster: "idc-a", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u-1", ResourceVersion: "77", Event: "modified",
			State: "terminating", IP: "10.2.3.4", Arrival: start, Live: true,
		},
		{Cluster: "idc-b", Kind: "Pod", Namespace: "shop", Name: "web-9", Event: "deleted", State: "gone", Arrival: start.Add(time.Millisecond), Live: true},
	}
	rec := record.Begin("shop", "web", "removal", causes, 1, start.Add(2*time.Millisecond))
	rec.Removed = []string{"10.2.3.4:8080", "10.2.3.9:8080"}
	rec.Computed(start.Add(3 * time.Millisecond))
	rec.Stages.WriteSlices, rec.Stages.WriteEndpoints = 5*time.Millisecond, 6*time.Millisecond
	rec.Writes = 2
	rec.End(start.Add(9*time.Millisecond), record.Written, nil)
	return rec
}

// creation is a change whose last write failed.
func creation(start time.Time) record.Change {
	rec := record.Begin("shop", "new", "addition", []record.Cause{{Cluster: "idc-a", Kind: "Service", Event: "added", Arrival: start, Live: true}}, 0, start)
	rec.Added = []string{"10.2.3.4:8080"}
	rec.Computed(start.Add(time.Millisecond))
	rec.Stages.WriteService, rec.Stages.WriteSlices, rec.Stages.WriteEndpoints = 2*time.Millisecond, 3*time.Millisecond, 4*time.Millisecond
	rec.Attempt = 1
	rec.End(start.Add(10*time.Millisecond), record.Failed, errors.New("create Endpoints shop/new: timeout"))
	return rec
}

// hostile is a change whose text a cluster chose with care.
func hostile(start time.Time) record.Change {
	long := strings.Repeat("\xff\u202e", 1<<19)
	cause := record.Cause{Cluster: long, Kind: "Pod", Event: "modified", Namespace: long, Name: long, UID: long, ResourceVersion: long, Arrival: start}
	rec := record.Begin(long, long, "removal", slices.Repeat([]record.Cause{cause}, 32), 0, start)
	for i := range 5000 {
		rec.Removed = append(rec.Removed, fmt.Sprintf("10.0.%d.%d:80", i/250, i%250))
	}
	rec.Added = []string{long}
	rec.End(start.Add(time.Millisecond), record.Held, errors.New(long))
	return rec
}

// exchange sends one change as the environment wants it, and returns what came of it.
func exchange(t *testing.T) error {
	t.Helper()
	var log journal
	e, err := New(t.Context(), Options{Changes: record.NewRing(0, 0), Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	rec := removal(time.Now())
	emit(e.tracer, &rec)
	_ = e.provider.Shutdown(t.Context())
	if text := log.String(); strings.Contains(text, "fails") {
		return errors.New(text)
	}
	return nil
}
