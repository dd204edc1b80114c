// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A day of conflicts everywhere costs a cluster a burst, then some Events each second.
const (
	eventsBurst     = 30
	eventsPerSecond = 10
	eventsWaiting   = 1000
	// eventLength is the longest message that the API takes.
	eventLength = 1024
)

// Events posts Kubernetes Events for people to read, each once: whether one can be posted
// changes nothing else. Safe for concurrent use.
type Events struct {
	component string
	client    func() kubernetes.Interface
	logger    *slog.Logger
	waiting   chan *corev1.Event
}

// NewEvents returns a recorder of Events, as what a component of that name says. client
// returns what to post through; nil: nothing is posted for the moment.
func NewEvents(component string, client func() kubernetes.Interface, logger *slog.Logger) *Events {
	return &Events{component: component, client: client, logger: logger, waiting: make(chan *corev1.Event, eventsWaiting)}
}

// Post has Run post an Event about an object, and does not wait. It is dropped where too many
// are waiting. kind is corev1.EventTypeNormal or EventTypeWarning.
func (e *Events) Post(about corev1.ObjectReference, kind, reason, message string) {
	now := metav1.NewTime(time.Now())
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.Namespace, GenerateName: about.Name + "."},
		InvolvedObject: about, Type: kind, Reason: reason, Message: message[:min(len(message), eventLength)],
		Source: corev1.EventSource{Component: e.component}, ReportingController: e.component,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	select {
	case e.waiting <- event:
	default:
	}
}

// Run posts until ctx ends.
func (e *Events) Run(ctx context.Context) {
	for limit := rate.NewLimiter(eventsPerSecond, eventsBurst); limit.Wait(ctx) == nil; {
		select {
		case <-ctx.Done():
			return
		case event := <-e.waiting:
			client := e.client()
			if client == nil {
				continue
			}
			if _, err := client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
				e.logger.Debug("a Kubernetes Event could not be posted", "namespace", event.Namespace, "about", event.InvolvedObject.Name, "error", err)
			}
		}
	}
}
