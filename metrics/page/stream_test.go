// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// reading is an answer that is read while it is written.
type reading struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (*reading) Header() http.Header { return http.Header{} }
func (*reading) WriteHeader(int)     {}
func (*reading) Flush()              {}

func (r *reading) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *reading) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.buf.Reset()
	return r.buf.String()
}

var seqAndEcho = regexp.MustCompile(`^\{"seq":(\d+),.*?"stages_ms":\{[^}]*?(?:"echo":([0-9.]+))?\}`)

// took returns what came since the last call: "seq" of a record, "seq/echo" of one
// that has it, "-" for a line without one.
func (r *reading) took() string {
	synctest.Wait()
	var out []string
	for line := range strings.Lines(r.take()) {
		switch parts := seqAndEcho.FindStringSubmatch(line); {
		case parts == nil:
			out = append(out, "-")
		case parts[2] == "":
			out = append(out, parts[1])
		default:
			out = append(out, parts[1]+"/"+parts[2])
		}
	}
	return strings.Join(out, " ")
}

// TestFollowersGetEveryStep: a written change comes with its echo, which is a moment
// later, and what came after it comes after it. Whatever becomes of the echo, no
// follower hangs, and none spins: time stands still in a bubble while one does.
func TestFollowersGetEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{})
		reader := &reading{}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		change := func(result record.Result) (seq uint64, rec record.Change) {
			rec = of(result, time.Now())
			rec.Cause.Arrival = time.Now().Add(-2 * time.Millisecond)
			return m.Change(rec), rec
		}
		wrote := func(version int) (echo func()) {
			ref := record.Ref{Kind: "Endpoints", Namespace: "shop", Name: "web", ResourceVersion: fmt.Sprint(version)}
			seq, rec := change(record.Written)
			m.Expect(seq, &rec, []record.Ref{ref})
			return func() { m.Echo(ref, time.Now()) }
		}
		took := func(want, when string) {
			t.Helper()
			if got := reader.took(); got != want {
				t.Errorf("%s: took %q; want %q", when, got, want)
			}
		}
		change(record.Dropped)
		first := wrote(2)
		s := newStream(reader, record.ChangesQuery{Follow: true})
		if !s.past(m.Changes()) {
			t.Fatal("the reader is gone")
		}
		go s.follow(ctx, m.Changes())
		took("1", "the past")
		time.Sleep(time.Millisecond)
		first()
		took("2/3.000", "the echo of the past")

		second, third := wrote(3), wrote(4)
		change(record.Failed)
		took("", "before the echo")
		third()
		took("", "the second echo is first")
		second()
		took("3/2.000 4/2.000 5", "both echoes")
		for _, result := range []record.Result{record.Dropped, record.Held, record.Failed} {
			change(result)
		}
		took("6 7 8", "nothing written")
		seq, rec := change(record.Written)
		m.Expect(seq, &rec, nil)
		took("9", "a deletion has no version to wait for")

		wrote(5) // and the watch is away
		time.Sleep(record.EchoPatience / 2)
		late := wrote(6)
		time.Sleep(record.EchoPatience/2 - time.Millisecond)
		took("", "patience")
		time.Sleep(time.Millisecond)
		took("10", "patience is over")
		time.Sleep(record.EchoPatience / 2)
		took("11", "patience is over again")
		late()
		took("", "an echo that comes too late")
		time.Sleep(keepalive - time.Millisecond)
		took("", "quiet")
		time.Sleep(time.Millisecond)
		took("-", "the connection is kept alive")
		time.Sleep(keepalive)
		took("-", "and again")
		wrote(7)
		end()
		took("12", "the end")
	})
}

// TestKeepaliveInABusyRing: what a reader does not want keeps no connection alive.
func TestKeepaliveInABusyRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{})
		reader := &reading{}
		ctx, end := context.WithCancel(t.Context())
		s := newStream(reader, record.ChangesQuery{Follow: true, Filter: record.Filter{Namespace: "shop", Service: "other"}})
		s.past(m.Changes())
		go s.follow(ctx, m.Changes())
		for range 35 {
			time.Sleep(time.Second)
			m.Change(of(record.Dropped, time.Now()))
		}
		if got := reader.took(); got != "- -" {
			t.Errorf("took %q in 35 s; want two signs of life", got)
		}
		end()
		synctest.Wait()
	})
}
