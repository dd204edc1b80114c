// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/reconcile/sinks/state"
	"tributary.dev/tributary/syncer"
)

// told is a receiver that is well, and says when it was told an address.
type told struct {
	*httptest.Server
	mu    sync.Mutex
	wants string
	at    chan time.Time
}

func newTold(t *testing.T) *told {
	r := &told{at: make(chan time.Time, 1)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var batch []struct {
			Data struct{ Endpoints []struct{ Address string } }
		}
		if err := json.NewDecoder(req.Body).Decode(&batch); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, event := range batch {
			for _, e := range event.Data.Endpoints {
				if e.Address == r.wants {
					r.at <- time.Now()
					r.wants = ""
				}
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *told) want(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wants = address
}

// deadReceivers are URLs of receivers that never answer, answer byte by byte, are not there,
// and hang up.
func deadReceivers(t *testing.T) (urls []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	for _, answer := range []http.HandlerFunc{
		func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-ctx.Done():
			}
		},
		func(w http.ResponseWriter, r *http.Request) {
			drip := time.NewTicker(10 * time.Millisecond)
			defer drip.Stop()
			w.WriteHeader(http.StatusServiceUnavailable)
			for {
				select {
				case <-drip.C:
					_, _ = w.Write([]byte("x"))
					_ = http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					return
				case <-ctx.Done():
					return
				}
			}
		},
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	t.Cleanup(cancel)
	return append(urls, "http://127.0.0.1:1") // nobody
}

// tellingGround is a ground whose reconciler tells receivers.
func tellingGround(t *testing.T, urls ...string) *ground {
	t.Helper()
	g := newGround(t, "a")
	g.server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "own"}})
	set := sinks.New(sinks.Options{Instance: "default"})
	specs := make([]sinks.Spec, len(urls))
	for i, url := range urls {
		specs[i] = sinks.Spec{Name: fmt.Sprintf("sink-%d", i), URL: url, Config: url, Rate: 1000, MaxServices: 10, Timeout: 10 * time.Second,
			Selects: func(syncer.Key, map[string]string) bool { return true }}
	}
	set.Configure(specs)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		set.Run(ctx, sinks.Term{
			Where: state.Where{Client: g.server.Client(t, "tributary/sinks"), Namespace: "own", Instance: "default"},
			Hold:  func(ctx context.Context) (context.Context, func(), bool) { return ctx, func() {}, true },
			Look:  func(syncer.Key) {},
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	g.options.Outside = set
	g.start()
	return g
}

// TestDeadReceiversDelayNothing measures whole writes, from the news to the acknowledgement
// of both kinds, beside four receivers that are dead in different ways and one that is well,
// against those beside the latter alone, change by change in turns; and until that one is
// told. What a dead receiver held up would be late by its time-out of 10 s.
func TestDeadReceiversDelayNothing(t *testing.T) {
	const changes, bound = 300, 3
	with, alone := newTold(t), newTold(t)
	arms := []struct {
		*ground
		well           *told
		wrote, telling []time.Duration
	}{{ground: tellingGround(t, append(deadReceivers(t), with.URL)...), well: with}, {ground: tellingGround(t, alone.URL), well: alone}}
	for i := range changes {
		for j := range arms {
			arm, address := &arms[j], fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)
			arm.well.want(address)
			began := time.Now()
			arm.set("a", service(web, 1, 8080), pod(web, address, true))
			arm.settle()
			arm.wrote = append(arm.wrote, time.Since(began))
			arm.telling = append(arm.telling, (<-arm.well.at).Sub(began))
			if writes := arm.server.Writes(product); len(writes) < 2 || !slices.ContainsFunc(writes, func(w apitest.Write) bool { return w.Resource == "endpointslices" }) {
				t.Fatalf("written: %v", writes)
			}
			arm.server.ForgetWrites()
		}
	}
	median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
	for what, of := range map[string][2][]time.Duration{"a write": {arms[0].wrote, arms[1].wrote}, "what another receiver is told": {arms[0].telling, arms[1].telling}} {
		dead, well := median(of[0]), median(of[1])
		ratio := float64(dead) / float64(well)
		t.Logf("%s beside four dead receivers takes %s, without them %s (medians of %d): %.2f ×", what, dead, well, changes, ratio)
		if ratio > bound {
			t.Errorf("%s takes %.1f times as long beside dead receivers", what, ratio)
		}
	}
}
