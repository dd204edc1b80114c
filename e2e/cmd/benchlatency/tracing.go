// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
)

// tracingGoal is the most that the median may be with everything on, as a multiple
// of the median with everything off.
const tracingGoal = 1.05

// settling is the number of flips after each start that are discarded.
const settling = 30

// tracingArm is one way of running tributary.
type tracingArm struct {
	name string
	args []string
	on   bool
	got  series
}

// runTracing measures what change records cost: the same binary on the same
// clusters, with everything that records can go to (ring, JSON log, a follower, a
// collector of traces), and with none of it. The arms take turns, each turn with a
// process of its own, in the order A B B A.
func runTracing(ctx context.Context, f *fleet.Fleet, arms []latency.Arm, s settings) error {
	sink, err := startSink()
	if err != nil {
		return err
	}
	defer sink.server.Close()
	off := &tracingArm{name: "off", args: []string{"--records=0"}, got: series{}}
	on := &tracingArm{name: "everything on", args: []string{"--log-format=json"}, on: true, got: series{}}
	for taken, order := 0, []*tracingArm{off, on}; taken < s.samples; taken += turn {
		for _, arm := range order {
			if err := arm.takeTurn(ctx, f, arms[0], sink, s); err != nil {
				return fmt.Errorf("tracing %s: %w", arm.name, err)
			}
		}
		order[0], order[1] = order[1], order[0]
	}
	fmt.Printf("%d samples an arm, another process every %d, the first %d of each thrown away\n", s.samples, turn, settling)
	fmt.Printf("with everything on: %d records were followed, the collector took %d requests with %d kB\n\n",
		sink.followed.Load(), sink.requests.Load(), sink.bytes.Load()/1000)
	if sink.followed.Load() < int64(s.samples) || sink.requests.Load() == 0 {
		return errors.New("not everything was on")
	}
	reportTracing(os.Stdout, on.got, off.got)
	return nil
}

// takeTurn starts a process, lets it settle, takes the samples of one turn, and
// ends it.
func (a *tracingArm) takeTurn(ctx context.Context, f *fleet.Fleet, arm latency.Arm, sink *sink, s settings) error {
	env := []string{"OTEL_SDK_DISABLED=true"}
	if a.on {
		env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.url}
	}
	p, err := startTributary(ctx, f, fleet.TributaryOptions{Binary: s.tributary, Args: a.args, Env: env})
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := replicaExists(ctx, f); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if a.on {
		if err := sink.follow(ctx, p.URL); err != nil {
			return err
		}
	}
	sessions, close, err := open(ctx, f, latency.Observer{Patience: 30 * time.Second}, arm)
	if err != nil {
		return err
	}
	defer close()
	if err := takeTurn(ctx, sessions[0], settling, s.pause, false, nil); err != nil {
		return err
	}
	if err := takeTurn(ctx, sessions[0], turn, s.pause, true, a.got); err != nil { // the pod is ready again at the end
		return err
	}
	cancel()
	stopping, done := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer done()
	return p.Stop(stopping)
}

// sink reads what a traced tributary sends, and discards it.
type sink struct {
	url                       string
	server                    *http.Server
	followed, requests, bytes atomic.Int64
}

// startSink serves an OTLP collector over HTTP. An answer without a body is an
// empty ExportTraceServiceResponse: everything was accepted.
func startSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a collector: %w", err)
	}
	s := &sink{url: "http://" + listener.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		s.bytes.Add(n)
		s.requests.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go s.server.Serve(listener) // ends with Close
	return s, nil
}

// follow reads the stream of changes until ctx ends; it returns once the stream
// is open.
func (s *sink) follow(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/debug/changes?follow=true", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("follow the changes: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return fmt.Errorf("follow the changes: %s", response.Status)
	}
	go func() { // ends with ctx, or with the process that is followed
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if len(lines.Bytes()) > 0 {
				s.followed.Add(1)
			}
		}
	}()
	return nil
}

// reportTracing prints both arms and their ratio.
func reportTracing(w io.Writer, on, off series) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATCH ACKNOWLEDGED TO VISIBLE\tTRACING\tN\tP50 ms\tP90 ms\tP99 ms")
	kinds := []string{string(latency.Endpoints), string(latency.EndpointSlices), bothKinds}
	for _, kind := range kinds {
		row(table, kind, "everything on", on[kind])
		row(table, kind, "off", off[kind])
	}
	table.Flush()
	fmt.Fprintln(table, "\nRATIO on / off\tP50 [95 % interval]\tP90\tP99\tGOAL, P50")
	for _, kind := range kinds {
		compare(table, kind, on[kind], off[kind], tracingGoal)
	}
	table.Flush()
}
