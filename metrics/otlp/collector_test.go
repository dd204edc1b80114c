// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// collector is a stub that speaks OTLP: it decodes what comes and keeps it.
type collector struct {
	url string
	// got is sent to after each request that was taken.
	got chan struct{}
	// reply is what each request is answered with.
	reply reply

	mu       sync.Mutex
	resource []*trace.ResourceSpans
	headers  []http.Header
}

// reply is an answer of a collector: to have taken all, unless it says more.
type reply struct {
	partial *collect.ExportTracePartialSuccess
	// code refuses over HTTP, refusal over gRPC.
	code    int
	refusal error
}

func newCollector() *collector { return &collector{got: make(chan struct{}, 100)} }

func (c *collector) take(request *collect.ExportTraceServiceRequest, header http.Header) {
	c.mu.Lock()
	c.resource = append(c.resource, request.GetResourceSpans()...)
	c.headers = append(c.headers, header)
	c.mu.Unlock()
	select {
	case c.got <- struct{}{}:
	default:
	}
}

// spans returns all spans taken, in their order.
func (c *collector) spans() []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*trace.Span
	for _, r := range c.resource {
		for _, s := range r.GetScopeSpans() {
			out = append(out, s.GetSpans()...)
		}
	}
	return out
}

// overHTTP starts a collector for http/protobuf.
func overHTTP(t testing.TB) *collector {
	c := newCollector()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unpacked
		}
		text, err := io.ReadAll(body)
		var request collect.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(text, &request) != nil {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		c.take(&request, r.Header)
		if c.reply.code != 0 {
			w.Header().Set("Retry-After", "3600") // longer than the library waits on its own
			http.Error(w, "the collector's reason", c.reply.code)
			return
		}
		answer, _ := proto.Marshal(&collect.ExportTraceServiceResponse{PartialSuccess: c.reply.partial})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	c.url = server.URL
	return c
}

// service is the collector's side of OTLP over gRPC.
type service struct {
	collect.UnimplementedTraceServiceServer
	to *collector
}

func (s service) Export(ctx context.Context, request *collect.ExportTraceServiceRequest) (*collect.ExportTraceServiceResponse, error) {
	header := http.Header{}
	incoming, _ := metadata.FromIncomingContext(ctx)
	for name, values := range incoming {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	s.to.take(request, header)
	if s.to.reply.refusal != nil {
		return nil, s.to.reply.refusal
	}
	return &collect.ExportTraceServiceResponse{PartialSuccess: s.to.reply.partial}, nil
}

// overGRPC starts a collector for grpc.
func overGRPC(t testing.TB) *collector {
	c := newCollector()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collect.RegisterTraceServiceServer(server, service{to: c})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	c.url = "http://" + listener.Addr().String()
	return c
}
