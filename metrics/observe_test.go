// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"tributary.dev/tributary/metrics/record"
)

// TestSeriesDoNotGrowWithServices: 5,000 Services with troubles of their own.
func TestSeriesDoNotGrowWithServices(t *testing.T) {
	count := func(services int) int {
		m := New(Options{})
		for i := range services {
			name := fmt.Sprintf("svc-%d", i)
			rec := written()
			rec.Service, rec.Result = name, []record.Result{record.Written, record.Failed}[i%2]
			m.Change(rec)
			m.Report("shop", name, Trouble{
				Conflicts: []Conflict{{Reason: "port", Message: name}},
				Rejected:  []Rejection{{Cluster: "idc-a", Address: name, Reason: "malformed"}},
			})
		}
		return bytes.Count(scraped(m), []byte("tributary_"))
	}
	if few, many := count(50), count(5_000); few != many {
		t.Errorf("%d series with 50 Services, %d with 5,000", few, many)
	}
}

// TestAddressesRejectedNow: the gauge says what is left out, whenever it began, and
// forgets what went.
func TestAddressesRejectedNow(t *testing.T) {
	m := New(Options{})
	loopback := func(addresses ...string) (t Trouble) {
		for _, a := range addresses {
			t.Rejected = append(t.Rejected, Rejection{Cluster: "idc-a", Address: a, Reason: "loopback"})
		}
		return t
	}
	for _, step := range []struct {
		service string
		trouble Trouble
		want    string
	}{
		{"web", loopback(), ""},
		{"web", loopback("127.0.0.1", "127.0.0.2"), "2"},
		{"cart", loopback("127.0.0.1"), "3"},
		{"web", loopback("127.0.0.2"), "2"},
		{"web", loopback(), "1"},
		{"cart", loopback(), ""},
	} {
		m.Report("shop", step.service, step.trouble)
		got := ""
		for line := range strings.Lines(string(scraped(m))) {
			if value, ok := strings.CutPrefix(line, `tributary_rejected_addresses{member_cluster="idc-a",reason="loopback"} `); ok {
				got = strings.TrimSuffix(strings.TrimSpace(value), ".0")
			}
		}
		if got != step.want {
			t.Errorf("%s %v: %q; want %q", step.service, step.trouble.Rejected, got, step.want)
		}
	}
}

func TestOnlyLiveWrittenChangesCountInLatency(t *testing.T) {
	m := New(Options{})
	bulk := written()
	bulk.Cause.Live = false
	failed, dropped := written(), written()
	failed.Result, dropped.Result = record.Failed, record.Dropped
	for _, rec := range []record.Change{bulk, failed, dropped} {
		m.Change(rec)
	}
	if n := testutil.CollectAndCount(m.latency); n != 0 {
		t.Errorf("%d latency series", n)
	}
	m.Change(written())
	if n := testutil.CollectAndCount(m.latency); n != 4 {
		t.Errorf("%d latency series; want 4", n)
	}
}

func TestWhichChangesAreTold(t *testing.T) {
	m := New(Options{})
	quiet := written()
	quiet.Result, quiet.Cause.Live = record.Dropped, false
	if m.Change(quiet) != 0 {
		t.Error("a relist without a change is told")
	}
	quiet.Cause.Live = true
	if m.Change(quiet) == 0 {
		t.Error("a live event that needs no write is not told")
	}
	var told []int
	for attempt := range 20 {
		rec := written()
		rec.Result, rec.Attempt = record.Failed, attempt
		if m.Change(rec) != 0 {
			told = append(told, attempt+1)
		}
	}
	if want := []int{1, 2, 4, 8, 16}; !slices.Equal(told, want) {
		t.Errorf("failures told: %v; want %v", told, want)
	}
}
