// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// Events of conflicts, as `kubectl describe service` shows them. They are for
// people: whether one can be posted changes nothing else.
const (
	EventConflict = "TributaryConflict"
	EventCleared  = "TributaryConflictCleared"
	// eventComponent is the source of the events.
	eventComponent = "tributary"
)

// A day of conflicts everywhere costs the ingress cluster a burst, then some events each
// second; the recorder leaves out what waits for longer, and too many of one replica.
const (
	eventsBurst     = 30
	eventsPerSecond = 10
)

// events posts a Kubernetes Event when a conflict appears, and one when it is gone. A
// process tells what it finds when it begins to write. A nil *events posts nothing. All
// methods are safe for concurrent use.
type events struct {
	client kubernetes.Interface
	uid    func(replica syncer.Key) string
	logger *slog.Logger

	mu sync.Mutex
	// recorder is nil while nothing is told.
	recorder record.EventRecorder
	// known holds the conflicts of each replica that has any, with their messages.
	known map[syncer.Key]map[conflictID]string
}

// conflictID tells the conflicts of one replica apart.
type conflictID struct {
	reason  plan.ConflictReason
	cluster string
}

func newEvents(client kubernetes.Interface, uid func(syncer.Key) string, logger *slog.Logger) *events {
	return &events{client: client, uid: uid, logger: logger, known: map[syncer.Key]map[conflictID]string{}}
}

// report takes the conflicts of a replica after a pass over it. It does not wait.
// The usual case, none before and none now, costs one lookup.
func (e *events) report(replica syncer.Key, conflicts []plan.Conflict) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.known[replica]
	if len(before) == 0 && len(conflicts) == 0 {
		return
	}
	now := map[conflictID]string{}
	for _, c := range conflicts {
		id := conflictID{c.Reason, c.Cluster}
		if text, more := now[id]; more {
			now[id] = text + "; " + c.Message
		} else {
			now[id] = c.Message
		}
	}
	for id, message := range now {
		if _, told := before[id]; !told {
			e.lockedTell(replica, corev1.EventTypeWarning, EventConflict, string(id.reason)+": "+message)
		}
	}
	for id, message := range before {
		if _, stays := now[id]; !stays {
			e.lockedTell(replica, corev1.EventTypeNormal, EventCleared, "no longer: "+string(id.reason)+": "+message)
		}
	}
	if e.known[replica] = now; len(now) == 0 {
		delete(e.known, replica)
	}
}

func (e *events) lockedTell(replica syncer.Key, kind, reason, message string) {
	if e.recorder == nil {
		return
	}
	e.recorder.Event(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service", Namespace: replica.Namespace, Name: replica.Name, UID: types.UID(e.uid(replica)),
	}, kind, reason, write.Shortened(message))
}

// run posts until ctx is done. A nil *events returns at once.
func (e *events) run(ctx context.Context) {
	if e == nil {
		return
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&eventSink{
		ctx: ctx, client: e.client, logger: e.logger, limit: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsBurst),
	})
	e.use(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventComponent}))
	<-ctx.Done()
	e.use(nil)
}

// use tells everything that is known to a recorder, and what follows; nil tells nobody.
func (e *events) use(recorder record.EventRecorder) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.recorder = recorder; recorder == nil {
		return
	}
	for replica, conflicts := range e.known {
		for id, message := range conflicts {
			e.lockedTell(replica, corev1.EventTypeWarning, EventConflict, string(id.reason)+": "+message)
		}
	}
}

// eventSink posts at a bounded rate, and each Event once: what fails matters to nobody.
type eventSink struct {
	ctx    context.Context
	client kubernetes.Interface
	logger *slog.Logger
	limit  flowcontrol.RateLimiter
	// refused latches when the cluster has refused an Event.
	refused bool
}

// Create implements record.EventSink.
func (s *eventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	if s.limit.Wait(s.ctx) != nil {
		return event, nil
	}
	created, err := s.client.CoreV1().Events(event.Namespace).CreateWithEventNamespaceWithContext(s.ctx, event)
	return s.posted(event, created, err)
}

// Update implements record.EventSink; the recorder patches instead.
func (s *eventSink) Update(event *corev1.Event) (*corev1.Event, error) { return s.Create(event) }

// Patch implements record.EventSink.
func (s *eventSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	if s.limit.Wait(s.ctx) != nil {
		return event, nil
	}
	patched, err := s.client.CoreV1().Events(event.Namespace).PatchWithEventNamespaceWithContext(s.ctx, event, data)
	if apierrors.IsNotFound(err) {
		return patched, err // the recorder makes it anew
	}
	return s.posted(event, patched, err)
}

// posted says once that Events are refused. A namespace that is being terminated refuses
// whatever rights one has.
func (s *eventSink) posted(event, answer *corev1.Event, err error) (*corev1.Event, error) {
	switch {
	case err == nil:
		return answer, nil
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && !s.refused:
		s.refused = true
		s.logger.Warn("conflicts are not shown as Kubernetes Events: grant create and patch on events", "error", err)
	default:
		s.logger.Debug("a conflict could not be shown as a Kubernetes Event", "namespace", event.Namespace, "service", event.InvolvedObject.Name, "error", err)
	}
	return event, nil
}
