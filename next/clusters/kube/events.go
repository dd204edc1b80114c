// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"log/slog"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
)

// A day of conflicts everywhere costs a cluster a burst, then some Events each second; the
// recorder leaves out what waits for longer, and too many about one object.
const (
	eventsBurst     = 30
	eventsPerSecond = 10
	// eventLength is the longest message that the API takes.
	eventLength = 1024
)

// Events posts Kubernetes Events for people to read: whether one can be posted changes
// nothing else. Safe for concurrent use.
type Events struct {
	component string
	client    func() kubernetes.Interface
	logger    *slog.Logger
	recorder  atomic.Pointer[record.EventRecorderLogger]
}

// NewEvents returns a recorder of Events, as what a component of that name says. client
// returns what to post through; nil: nothing is posted for the moment.
func NewEvents(component string, client func() kubernetes.Interface, logger *slog.Logger) *Events {
	return &Events{component: component, client: client, logger: logger}
}

// Post posts an Event about an object without waiting. It is dropped while Run does not run,
// and where too many are waiting. kind is corev1.EventTypeNormal or EventTypeWarning.
func (e *Events) Post(about corev1.ObjectReference, kind, reason, message string) {
	if recorder := e.recorder.Load(); recorder != nil {
		(*recorder).Event(&about, kind, reason, message[:min(len(message), eventLength)])
	}
}

// Run posts until ctx ends.
func (e *Events) Run(ctx context.Context) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	limit := flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsBurst)
	broadcaster.StartRecordingToSink(&eventSink{ctx: ctx, events: e, limit: limit})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: e.component})
	e.recorder.Store(&recorder)
	<-ctx.Done()
	e.recorder.Store(nil)
	broadcaster.Shutdown()
}

// eventSink posts at a bounded rate, and each Event once: what fails matters to nobody.
type eventSink struct {
	ctx    context.Context
	events *Events
	limit  flowcontrol.RateLimiter
	// refused is set when the cluster has refused an Event.
	refused bool
}

// Create implements record.EventSink.
func (s *eventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	client := s.events.client()
	if client == nil || s.limit.Wait(s.ctx) != nil {
		return event, nil
	}
	created, err := client.CoreV1().Events(event.Namespace).CreateWithEventNamespaceWithContext(s.ctx, event)
	return s.posted(event, created, err)
}

// Update implements record.EventSink; the recorder patches instead.
func (s *eventSink) Update(event *corev1.Event) (*corev1.Event, error) { return s.Create(event) }

// Patch implements record.EventSink.
func (s *eventSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	client := s.events.client()
	if client == nil || s.limit.Wait(s.ctx) != nil {
		return event, nil
	}
	patched, err := client.CoreV1().Events(event.Namespace).PatchWithEventNamespaceWithContext(s.ctx, event, data)
	if apierrors.IsNotFound(err) {
		return patched, err // the recorder makes it anew
	}
	return s.posted(event, patched, err)
}

// posted says once that Events are refused. A namespace that is being terminated refuses
// whatever rights one has.
func (s *eventSink) posted(event, answer *corev1.Event, err error) (*corev1.Event, error) {
	log := s.events.logger
	switch {
	case err == nil:
		return answer, nil
	case apierrors.IsForbidden(err) && !NamespaceTerminating(err) && !s.refused:
		s.refused = true
		log.Warn("nothing is shown as Kubernetes Events: grant create and patch on events", "error", err)
	default:
		log.Debug("a Kubernetes Event could not be posted", "namespace", event.Namespace, "about", event.InvolvedObject.Name, "error", err)
	}
	return event, nil
}
