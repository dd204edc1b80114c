// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
}

// Whoever may not post is told what to grant, once; a namespace that is being terminated
// refuses whatever rights one has.
func TestRefusedEvents(t *testing.T) {
	var log strings.Builder
	server := apitest.New(t)
	server.Create(t, namespace("ending", corev1.NamespaceTerminating))
	server.Create(t, namespace("closed", corev1.NamespaceActive))
	server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.Namespace == "closed" {
			return &apitest.Fault{Status: 403}
		}
		return nil
	})
	sink := eventSink{ctx: t.Context(), client: server.Client(t, "events"), logger: slog.New(slog.NewTextHandler(&log, nil)), limit: flowcontrol.NewFakeAlwaysRateLimiter()}
	for namespace, lines := range map[string]int{"ending": 0, "closed": 1} {
		log.Reset()
		for range 3 {
			event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web.1"}}
			if _, err := sink.Create(event); err != nil {
				t.Errorf("in %s: %v; it would be tried again", namespace, err)
			}
		}
		if got := strings.Count(log.String(), "\n"); got != lines {
			t.Errorf("in %s %d lines, want %d:\n%s", namespace, got, lines, log.String())
		}
	}
}

// What is remembered is what is in conflict.
func TestEventsMemoryIsBounded(t *testing.T) {
	e := &events{known: map[syncer.Key]map[conflictID]string{}}
	for i := range 1000 {
		key := syncer.Key{Namespace: "shop", Name: number3(i)}
		e.report(key, nil)
		e.report(key, []plan.Conflict{{Reason: plan.ConflictPort}})
		e.report(key, nil)
	}
	if len(e.known) != 0 {
		t.Errorf("%d replicas without a conflict are remembered", len(e.known))
	}
}
