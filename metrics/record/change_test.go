// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/internal/golden"
)

// noon is when records of the tests happen; in another zone than UTC, because
// records must not depend on the machine's.
var noon = time.Date(2026, 3, 1, 13, 0, 0, 0, time.FixedZone("UTC+1", 3600))

func at(ms float64) time.Time { return noon.Add(time.Duration(ms * float64(time.Millisecond))) }

func podCause(name, event, state, ip string, arrival time.Time) Cause {
	return Cause{
		Cluster: "idc-a", Kind: "Pod", Namespace: "shop", Name: name, UID: "uid-" + name, ResourceVersion: "77",
		Event: event, State: state, IP: ip, Arrival: arrival, Live: true,
	}
}

// written is a finished record of a removal.
func written() Change {
	r := Begin("shop", "web", "removal", []Cause{podCause("web-1", "modified", "terminating", "10.2.3.4", at(0))}, 0, at(0.25))
	r.Removed = []string{"10.2.3.4:8080"}
	r.Computed(at(0.5))
	r.Stages.WriteEndpoints, r.Stages.WriteSlices = 1500*time.Microsecond, 1750*time.Microsecond
	r.Writes = 2
	r.End(at(2.375), Written, nil)
	return r
}

// burst is a record with everything set.
func burst() Change {
	causes := []Cause{
		{Kind: "Service", Cluster: "idc-b", Namespace: "shop", Name: "web", Event: "relist", Arrival: at(-60_000)},
		podCause("web-2", "deleted", "gone", "10.2.3.5", at(1)),
		podCause("web-1", "modified", "ready", "10.2.3.4", at(0)),
	}
	r := Begin("shop", "web", "addition", causes, 4, at(2))
	r.Added, r.Removed = []string{"10.2.3.4:8080", "[fd00::4]:8080"}, []string{"10.2.3.5:8080"}
	r.Readied, r.Unreadied = []string{"10.2.3.6:8080"}, []string{"10.2.3.7:8080"}
	r.Computed(at(2.5))
	r.Stages.WriteService, r.Stages.WriteEndpoints, r.Stages.WriteSlices = time.Millisecond, 2*time.Millisecond, 3*time.Millisecond
	r.Attempt = 3
	r.End(at(10.1234), Failed, errors.New(`update Endpoints shop/web: "timeout" <5s>`))
	r.Stages.Echo = 11 * time.Millisecond
	r.Seq = 42
	return r
}

func TestLatencyCountsFromTheFirstLiveCause(t *testing.T) {
	r := burst()
	if r.Cause.Name != "web-1" || r.Cluster != "idc-a" {
		t.Errorf("primary cause is %v of %q; want the live one that came first", r.Cause, r.Cluster)
	}
	if r.Stages.Queue != 2*time.Millisecond || r.Stages.Compute != 500*time.Microsecond {
		t.Errorf("queue %v, compute %v; want 2ms, 500µs", r.Stages.Queue, r.Stages.Compute)
	}
	if got := len(r.Causes); got != 2 {
		t.Errorf("%d other causes; want 2", got)
	}
	s := written().Stages
	if s.Write() != 1875*time.Microsecond || s.Queue+s.Compute+s.Write() != s.Total {
		t.Errorf("write stage %v of %+v: stages must sum up to total", s.Write(), s)
	}
}

func TestBeginWithoutCauses(t *testing.T) {
	r := Begin("shop", "web", "bulk", nil, 0, at(0))
	r.End(at(1), Dropped, nil)
	if r.Cause.Live || r.Cause.Kind == "" || r.Stages.Total != time.Millisecond {
		t.Errorf("record without causes: %+v", r)
	}
}

func TestBeginDoesNotChangeItsInput(t *testing.T) {
	causes := []Cause{podCause("a", "added", "", "", at(1)), podCause("b", "added", "", "", at(0))}
	before := append([]Cause(nil), causes...)
	r := Begin("shop", "web", "addition", causes, 0, at(2))
	r.Causes[0].Name = "changed"
	if !reflect.DeepEqual(causes, before) {
		t.Errorf("causes changed: %v", causes)
	}
}

func TestRecordJSON(t *testing.T) {
	var out bytes.Buffer
	small, full, none := written(), burst(), Change{Time: noon}
	for _, r := range []*Change{&small, &full, &none} {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	golden.File(t, "testdata/records.jsonl", out.Bytes())
}

func TestRecordJSONRoundTrip(t *testing.T) {
	for _, want := range []Change{written(), burst()} {
		line, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		var got Change
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("decode %s: %v", line, err)
		}
		again, err := json.Marshal(&got)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(line, again) {
			t.Errorf("round trip:\n%s\n%s", line, again)
		}
	}
}

// FuzzRecordJSON: whatever a cluster calls its objects, a record is one line of
// valid JSON that says the same.
func FuzzRecordJSON(f *testing.F) {
	for _, s := range []string{"", "web", "\x00\n\"\\", "ü\u2028</script>", "\xff\xfe"} {
		f.Add(s, int64(1))
	}
	f.Fuzz(func(t *testing.T, text string, nanos int64) {
		r := Change{Time: time.Unix(0, nanos), Service: text, Error: text, Added: []string{text}, Cause: Cause{Name: text}}
		r.Stages.Total = time.Duration(nanos)
		line := r.AppendJSON(nil)
		if bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("more than one line: %q", line)
		}
		var got Change
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if want := strings.ToValidUTF8(text, "\ufffd"); !sameText(got.Service, want) || !sameText(got.Added[0], want) {
			t.Errorf("%q became %q", want, got.Service)
		}
	})
}

// sameText treats a run of replacement characters as one: the two ways of
// replacing invalid bytes count them differently.
func sameText(a, b string) bool {
	squeeze := func(s string) string {
		for strings.Contains(s, "\ufffd\ufffd") {
			s = strings.ReplaceAll(s, "\ufffd\ufffd", "\ufffd")
		}
		return s
	}
	return squeeze(a) == squeeze(b)
}

func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	small, full := written(), burst()
	dropped := written()
	dropped.Result = Dropped
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		logger := slog.New(handler)
		small.Log(context.Background(), logger)
		full.Log(context.Background(), logger)
		dropped.Log(context.Background(), logger)
	}
	golden.File(t, "testdata/log.txt", out.Bytes())
}

// TestTextLogNamesItsCauses: whoever reads it finds the very event in the member.
func TestTextLogNamesItsCauses(t *testing.T) {
	var out bytes.Buffer
	full := burst()
	full.Causes[1].Kept = "mass_not_ready"
	full.Log(context.Background(), slog.New(slog.NewTextHandler(&out, nil)))
	for _, want := range []string{
		` cause="Pod shop/web-1 modified (ready), cluster idc-a, ip 10.2.3.4, uid uid-web-1, resourceVersion 77" `,
		` causes="Service shop/web relist, cluster idc-b; Pod shop/web-2 deleted (gone), cluster idc-a, ip 10.2.3.5, uid uid-web-2, resourceVersion 77, kept mass_not_ready" `,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no%sin\n%s", want, out.String())
		}
	}
}

// TestLogLineIsTheRecord: a JSON log line holds every field of the record,
// spelt alike.
func TestLogLineIsTheRecord(t *testing.T) {
	var out bytes.Buffer
	full := burst()
	full.Causes[0].Rule = "warm"
	full.Log(context.Background(), slog.New(slog.NewJSONHandler(&out, nil)))
	var line, record map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(full.AppendJSON(nil), &record); err != nil {
		t.Fatal(err)
	}
	delete(line, "level")
	delete(line, "msg")
	// slog writes nanoseconds as far as there are any.
	delete(line, "time")
	delete(record, "time")
	if !reflect.DeepEqual(line, record) {
		t.Errorf("log line %v\nrecord   %v", line, record)
	}
}

func BenchmarkRecordJSON(b *testing.B) {
	r := written()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = r.AppendJSON(buf[:0])
	}
}
