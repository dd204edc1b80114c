// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary.dev/tributary/metrics"
)

// partial is an answer with a complaint.
func partial(rejected int64, message string) reply {
	return reply{partial: &collect.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: message}}
}

// later refuses over gRPC and says that there will be room in an hour: longer than
// the library waits on its own.
func later(code codes.Code) error {
	s := status.New(code, "the collector's reason").Proto()
	s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/google.rpc.RetryInfo", Value: []byte{0x0a, 3, 0x08, 0x90, 0x1c}})
	return status.ErrorProto(s)
}

// pointAt sets the environment up for a collector.
func pointAt(t *testing.T, url, protocol string) {
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
}

// exchange sends one change as the environment wants it, and returns what came of it.
func exchange(t *testing.T) error {
	t.Helper()
	var log journal
	e, err := New(t.Context(), Options{Changes: metrics.NewRing(0, 0), Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	rec := removal(time.Now())
	emit(e.tracer, &rec)
	err = e.sink.ExportSpans(t.Context(), e.ended.take())
	_ = e.sink.Shutdown(t.Context())
	return err
}

// TestVerdicts holds what is told by the libraries' errors against real answers.
func TestVerdicts(t *testing.T) {
	type test struct {
		name     string
		reply    reply
		want     verdict
		rejected int64
	}
	both := []test{
		{"all taken", reply{}, taken, 0},
		{"an empty complaint", partial(0, ""), taken, 0},
		{"a warning", partial(0, "mind the gap"), partly, 0},
		{"rejected spans", partial(3, "too old"), partly, 3},
		{"rejected spans without a word", partial(3, ""), partly, 3},
		{"a word that misleads", partial(1, "retry-able request failure: 503"), partly, 1},
	}
	overHTTPOnly, overGRPCOnly := slices.Clone(both), slices.Clone(both)
	for code, want := range map[int]verdict{
		400: refused, 401: refused, 403: refused, 404: refused, 408: refused, 413: refused, 429: away, 500: refused, 501: refused, 502: away, 503: away, 504: away,
	} {
		overHTTPOnly = append(overHTTPOnly, test{fmt.Sprint(code, " ", http.StatusText(code)), reply{code: code}, want, 0})
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		want := refused
		switch code {
		case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss, codes.ResourceExhausted:
			want = away
		}
		overGRPCOnly = append(overGRPCOnly, test{code.String() + ", later", reply{refusal: later(code)}, want, 0})
	}
	overGRPCOnly = append(overGRPCOnly, test{"ResourceExhausted for good", reply{refusal: status.Error(codes.ResourceExhausted, "too large")}, refused, 0})
	run := func(protocol string, start func(testing.TB) *collector, tests []test) {
		for _, test := range tests {
			t.Run(protocol+" "+test.name, func(t *testing.T) {
				c := start(t)
				c.reply = test.reply
				pointAt(t, c.url, protocol)
				err := exchange(t)
				if got, rejected := judge(err); got != test.want || rejected != test.rejected {
					t.Errorf("verdict %v, %d rejected; want %v, %d: %v", got, rejected, test.want, test.rejected, err)
				}
			})
		}
	}
	run(protocolHTTP, overHTTP, overHTTPOnly)
	run(protocolGRPC, overGRPC, overGRPCOnly)
}

func TestNobodyAnswers(t *testing.T) {
	pointAt(t, "http://127.0.0.1:1", protocolHTTP)
	if got, _ := judge(exchange(t)); got != away {
		t.Errorf("verdict %v", got)
	}
}

// TestNoChangeIsSentTwice: neither what was taken with a complaint nor what will
// never be taken; what comes after it is sent as ever.
func TestNoChangeIsSentTwice(t *testing.T) {
	for name, test := range map[string]struct {
		reply reply
		told  string
	}{
		"a warning":      {partial(0, "mind the gap"), "takes traces with a complaint\" rejected_spans=0 error="},
		"rejected spans": {partial(5, "too old"), "takes traces with a complaint\" rejected_spans=5 error="},
		"a refusal": {
			reply{code: http.StatusBadRequest, refusal: status.Error(codes.InvalidArgument, "the collector's reason")},
			"refuses traces, changes are left out\" error=",
		},
	} {
		for protocol, collector := range map[string]func(testing.TB) *collector{protocolHTTP: overHTTP, protocolGRPC: overGRPC} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				c := collector(t)
				c.reply = test.reply
				pointAt(t, c.url, protocol)
				ring := metrics.NewRing(0, 0)
				add(ring, 2*batch+1)
				var log journal
				running(t, ring, &log)()
				sent := map[string]int{}
				for _, s := range c.spans() {
					if len(s.GetParentSpanId()) == 0 {
						sent[string(s.GetTraceId())]++
					}
				}
				for _, times := range sent {
					if times > 1 {
						t.Fatalf("a change was sent %d times", times)
					}
				}
				if len(sent) != 2*batch+1 {
					t.Errorf("%d changes were sent; want all", len(sent))
				}
				if text := log.String(); strings.Count(text, test.told) != 1 || strings.Count(text, "\n") != 2 {
					t.Errorf("log; want once %q:\n%s", test.told, text)
				}
			})
		}
	}
}

// complaint is a partial success as the libraries tell it.
type complaint struct{ RejectedItems int64 }

func (complaint) Error() string   { return "partial success" }
func (complaint) As(any) bool     { return false }
func (complaint) Is(_ error) bool { return false }

// TestRejectedSpansAreCounted: as many as there can be, whatever a collector says.
func TestRejectedSpansAreCounted(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, _ := virtual(t, ring, &log)
		for _, answer := range []error{complaint{2}, complaint{-7}, complaint{0}, complaint{math.MaxInt64}, nil, nil} {
			s.set(func(context.Context) error { return answer })
			add(ring, 1)
			time.Sleep(5 * time.Second)
		}
		want := "level=WARN msg=\"the collector takes traces with a complaint\" rejected_spans=2 error=\"partial success\"\n" +
			"level=INFO msg=\"exporting traces works again\" lost_changes=0 rejected_spans=7\n" // a change has five spans
		if log.String() != want {
			t.Errorf("log:\n%s", log.String())
		}
	})
}
