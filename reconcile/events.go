// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	events "k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// eventLength is the longest message that the API takes.
const eventLength = 1024

// announcer posts Kubernetes Events about what is wrong with replicas, for people: whether one
// can be posted changes nothing else, and is not logged.
type announcer struct {
	client func() kubernetes.Interface

	mu sync.Mutex
	// recorder is nil while nobody leads. said is what the last Event about a replica was about.
	recorder events.EventRecorder
	said     map[syncer.Key]string
}

// run posts until ctx is done.
func (a *announcer) run(ctx context.Context) {
	broadcaster := events.NewBroadcaster(events.WithContext(klog.NewContext(ctx, logr.Discard())))
	broadcaster.StartRecordingToSink(eventSink(a.client))
	a.use(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: syncer.ManagedBy}).WithLogger(logr.Discard()))
	<-ctx.Done()
	a.use(nil)
}

func (a *announcer) use(recorder events.EventRecorder) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recorder = recorder
}

// announce posts an Event about a replica when what is wrong with it changes. A namespace that
// may not be written to gets none.
func (a *announcer) announce(c *Comparison, conflicts []metrics.Conflict) {
	var reasons, messages []string
	for _, one := range conflicts {
		reasons, messages = append(reasons, one.Reason+" "+one.Cluster), append(messages, one.Reason+": "+one.Message)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now, was := strings.Join(reasons, "; "), a.said[c.Replica]
	if a.recorder == nil || c.Excluded || now == was {
		return
	}
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: c.Replica.Namespace, Name: c.Replica.Name}
	if c.Now.Service != nil {
		about.UID = types.UID(c.Now.Service.UID) // by which people's tools find it
	}
	if now == "" {
		delete(a.said, c.Replica)
		a.recorder.Event(about, corev1.EventTypeNormal, "TributaryConflictCleared", "no longer: "+was)
		return
	}
	a.said[c.Replica] = now
	message := strings.Join(messages, "; ")
	a.recorder.Event(about, corev1.EventTypeWarning, "TributaryConflict", message[:min(len(message), eventLength)])
}

// eventSink writes Events through the client of the moment.
type eventSink func() kubernetes.Interface

func (s eventSink) sink() (events.EventSink, error) {
	if client := s(); client != nil {
		return &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, nil
	}
	return nil, errors.New("the ingress cluster is not reached")
}

// Create implements EventSink.
func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	to, err := s.sink()
	if err != nil {
		return nil, err
	}
	return to.Create(e)
}

// Update implements EventSink. Nothing calls it.
func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) { return s.Create(e) }

// Patch implements EventSink.
func (s eventSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	to, err := s.sink()
	if err != nil {
		return nil, err
	}
	return to.Patch(e, data)
}
