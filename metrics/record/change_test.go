// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
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
		Cluster: "idc-a", Kind: "Pod", Namespace: "shop", Name: name, UID: "uid-" + name,
		Event: event, State: state, IP: ip, Arrival: arrival, Live: true,
	}
}

// written is a finished record of a removal.
func written() Change {
	r := Begin("shop", "web", podCause("web-1", "modified", "terminating", "10.2.3.4", at(0)), 1, at(0.25))
	r.Lane, r.Removed = "removal", []string{"10.2.3.4:8080"}
	r.Computed(at(0.5))
	r.Acknowledged("Endpoints", at(2))
	r.Acknowledged("EndpointSlice", at(2.25))
	r.End(at(2.375), Written, nil)
	return r
}

// burst is a record with everything set.
func burst() Change {
	cause := podCause("web-1", "modified", "ready", "10.2.3.4", at(0))
	cause.SourceTime = at(-1000)
	r := Begin("shop", "web", cause, 7, at(2))
	r.Lane = "addition"
	r.Added, r.Removed = []string{"10.2.3.4:8080", "[fd00::4]:8080"}, []string{"10.2.3.5:8080"}
	r.Readied, r.Unreadied = []string{"10.2.3.6:8080"}, []string{"10.2.3.7:8080"}
	r.Computed(at(2.5))
	r.Acknowledged("Service", at(3))
	r.Acknowledged("EndpointSlice", at(4))
	r.Attempt = 3
	r.End(at(10.1234), Failed, errors.New(`update Endpoints shop/web: "timeout" <5s>`))
	r.Seq, r.TraceID = 42, strings.Repeat("ab", 16)
	return r
}

func TestALiveCauseNamesTheChangeThenTheEarliest(t *testing.T) {
	listed := Cause{Name: "listed", Arrival: at(-60_000)}
	first, second := podCause("first", "added", "", "", at(0)), podCause("second", "added", "", "", at(1))
	for _, order := range [][]Cause{{listed, first, second}, {second, listed, first}, {first, second, listed}} {
		got := order[0]
		for _, c := range order[1:] {
			got = Earlier(got, c)
		}
		if got.Name != "first" {
			t.Errorf("%v: named after %q", order, got.Name)
		}
	}
}

func TestStagesSumUp(t *testing.T) {
	s := written().Stages
	if s.Queue != 250*time.Microsecond || s.Compute != 250*time.Microsecond || s.WriteEndpoints != 1500*time.Microsecond || s.WriteSlices != 1750*time.Microsecond {
		t.Errorf("stages %+v", s)
	}
	if s.Write() != 1875*time.Microsecond || s.Queue+s.Compute+s.Write() != s.Total {
		t.Errorf("write stage %v of %+v: stages must sum up to total", s.Write(), s)
	}
}

func TestBeginWithoutACause(t *testing.T) {
	r := Begin("shop", "web", Cause{}, 0, at(0))
	r.End(at(1), Dropped, nil)
	if r.Cause.Live || r.Cause.Kind == "" || r.Causes != 1 || r.Stages.Total != time.Millisecond {
		t.Errorf("record without causes: %+v", r)
	}
}

func TestRecordJSON(t *testing.T) {
	var out bytes.Buffer
	small, full := written(), burst()
	for _, r := range []*Change{&small, &full} {
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

// TestTextLogNamesItsCause in the form for people.
func TestTextLogNamesItsCause(t *testing.T) {
	var out bytes.Buffer
	full := burst()
	NewLog(slog.New(slog.NewTextHandler(&out, nil))).Write(&full)
	if want := ` cause="Pod shop/web-1 modified (ready)" causes=7 `; !strings.Contains(out.String(), want) {
		t.Errorf("no%sin\n%s", want, out.String())
	}
}

// TestLogLineIsTheRecord: a JSON log line holds every field of the record,
// spelt alike.
func TestLogLineIsTheRecord(t *testing.T) {
	var out bytes.Buffer
	full := burst()
	NewLog(slog.New(slog.NewJSONHandler(&out, nil))).Write(&full)
	marshalled, err := json.Marshal(&full)
	if err != nil {
		t.Fatal(err)
	}
	var line, record map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(marshalled, &record); err != nil {
		t.Fatal(err)
	}
	delete(line, "level")
	delete(line, "msg")
	// slog writes the time in its own form.
	delete(line, "time")
	delete(record, "time")
	if !reflect.DeepEqual(line, record) {
		t.Errorf("log line %v\nrecord   %v", line, record)
	}
}

// TestWhatIsNotWrittenIsLoggedAtARate: a storm of failures does not fill a disk, and a
// written change is always a line.
func TestWhatIsNotWrittenIsLoggedAtARate(t *testing.T) {
	var out bytes.Buffer
	log := NewLog(slog.New(slog.NewTextHandler(&out, nil)))
	failed, done := burst(), written()
	for range 3 * logBurst {
		log.Write(&failed)
	}
	log.Write(&done)
	failed.Time = failed.Time.Add(time.Second)
	log.Write(&failed)
	if n := strings.Count(out.String(), "result=failed"); n != logBurst+1 {
		t.Errorf("%d failures are logged; want %d", n, logBurst+1)
	}
	if !strings.Contains(out.String(), "result=written") {
		t.Error("the written change is missing")
	}
}
