// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// refusing counts requests and refuses them.
type refusing struct{ posted atomic.Int32 }

// RoundTrip implements http.RoundTripper.
func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	r.posted.Add(1)
	return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
}

func TestEventsArePosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server refusing
		client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://ingress", QPS: -1}, &http.Client{Transport: &server})
		if err != nil {
			t.Fatal(err)
		}
		events := NewEvents("tributary", func() kubernetes.Interface { return client }, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 2000 {
			events.Post(corev1.ObjectReference{Kind: "Service", Namespace: "ns", Name: "web"}, corev1.EventTypeWarning, "Why", strings.Repeat("x", 5000))
		}
		running.Go(func() { events.Run(ctx) })
		synctest.Wait()
		if n := server.posted.Load(); n != eventsBurst {
			t.Errorf("%d at once", n)
		}
		time.Sleep(10 * time.Second)
		if n := server.posted.Load(); n > eventsBurst+101 || n < eventsBurst+99 {
			t.Errorf("%d in ten seconds", n)
		}
		cancel()
		running.Wait()
	})
}
