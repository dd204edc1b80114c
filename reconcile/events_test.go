// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/reconcile/apitest"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func newTestEvents(t *testing.T, server *apitest.Server, log *strings.Builder) *events {
	t.Helper()
	e := newEvents(server.Client(t, "events"), func(syncer.Key) string { return "uid" }, func() bool { return true }, time.Minute,
		slog.New(slog.NewTextHandler(log, nil)))
	e.every = time.Millisecond
	return e
}

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
}

// A namespace that is being terminated refuses whatever rights one has, so nobody is
// told to grant any.
func TestEventsInATerminatingNamespace(t *testing.T) {
	var log strings.Builder
	server := apitest.New(t)
	server.Create(t, namespace(web.Namespace, corev1.NamespaceTerminating))
	e := newTestEvents(t, server, &log)
	e.tell(t.Context(), notice{replica: web, id: conflictID{reason: plan.ConflictPort}, message: "two numbers"})
	if log.Len() > 0 || e.refused {
		t.Errorf("logged %q, given up: %v", log.String(), e.refused)
	}
}

// What was told by an earlier process and mended before this one is called cleared,
// once all members have been seen; what still stands is not.
func TestConflictMendedWhileAway(t *testing.T) {
	var log strings.Builder
	server := apitest.New(t)
	server.Create(t, namespace(web.Namespace, corev1.NamespaceActive))
	port := plan.Conflict{Reason: plan.ConflictPort, Cluster: "b", Message: "two numbers"}
	twice := plan.Conflict{Reason: plan.ConflictDuplicate, Cluster: "b", Message: "10.0.0.1"}
	earlier := newTestEvents(t, server, &log)
	for _, c := range []plan.Conflict{port, twice} {
		earlier.tell(t.Context(), notice{replica: web, id: conflictID{c.Reason, c.Cluster}, message: c.Message})
	}

	var seen atomic.Bool
	e := newTestEvents(t, server, &log)
	looked := make(chan struct{}, 1)
	e.settled = func() bool {
		select {
		case looked <- struct{}{}:
		default:
		}
		return seen.Load()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.run(ctx) }()
	defer func() { cancel(); <-done }()
	e.report(web, nil) // member b has not been seen
	for range 2 * calmLooks {
		<-looked
	}
	e.report(web, []plan.Conflict{twice})
	seen.Store(true)
	for {
		changed := server.Changed()
		if cleared(server) != "" {
			break
		}
		<-changed
	}
	if got := cleared(server); got != "no longer: port: two numbers" {
		t.Errorf("called cleared: %q", got)
	}
	if log.Len() > 0 {
		t.Errorf("logged %q", log.String())
	}
}

// cleared are the messages of what was called cleared.
func cleared(server *apitest.Server) string {
	var messages []string
	for _, e := range apitest.List[*corev1.Event](server, web.Namespace) {
		if e.Reason == EventCleared {
			messages = append(messages, e.Message)
		}
	}
	return strings.Join(messages, ", ")
}

// What is remembered is what is in conflict, whether the past was recalled or not.
func TestEventsMemoryIsBounded(t *testing.T) {
	e := &events{known: map[syncer.Key]map[conflictID]string{}, queue: make(chan notice, 10)}
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
