// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// On an Event, what its conflict was: the name is only a hash of it.
const (
	annotationReason  = "tributary.dev/conflict"
	annotationCluster = "tributary.dev/cluster"
)

func (n *notice) annotations() map[string]string {
	return map[string]string{annotationReason: string(n.id.reason), annotationCluster: n.id.cluster}
}

// recall reads which conflicts an earlier process told and did not call cleared, so
// that one that was mended in between is not left standing. It is tried once: what
// cannot be read is as if nothing had been told.
func (e *events) recall(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	told := map[syncer.Key]map[conflictID]*corev1.Event{}
	cleared := map[string]*corev1.Event{}
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return e.client.CoreV1().Events(metav1.NamespaceAll).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{FieldSelector: "source=" + eventComponent}, func(o runtime.Object) error {
		event, ok := o.(*corev1.Event)
		if !ok || event.Source.Component != eventComponent {
			return nil
		}
		key := syncer.Key{Namespace: event.Namespace, Name: event.InvolvedObject.Name}
		switch event.Reason {
		case EventCleared:
			cleared[event.Namespace+"/"+event.Name] = event
		case EventConflict:
			id := conflictID{plan.ConflictReason(event.Annotations[annotationReason]), event.Annotations[annotationCluster]}
			if id.reason == "" {
				return nil // of a release that did not say it
			}
			if told[key] == nil {
				told[key] = map[conflictID]*corev1.Event{}
			}
			told[key][id] = event
		}
		return nil
	})
	if err != nil && !apierrors.IsForbidden(err) && ctx.Err() == nil {
		e.logger.Debug("the conflicts that were told before could not be read", "error", err)
	}
	for key, conflicts := range told {
		maps.DeleteFunc(conflicts, func(id conflictID, event *corev1.Event) bool {
			end := notice{replica: key, id: id, cleared: true}
			last := cleared[key.Namespace+"/"+end.name()]
			return last != nil && !last.LastTimestamp.Before(&event.LastTimestamp)
		})
	}
	e.remember(told)
}

// remember compares what was told before with what has been reported since. It comes
// when all replicas have been looked at, so what has not been reported is over.
func (e *events) remember(told map[syncer.Key]map[conflictID]*corev1.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for replica, conflicts := range told {
		for id, event := range conflicts {
			if _, stays := e.known[replica][id]; !stays {
				e.lockedTell(notice{replica, id, strings.TrimPrefix(event.Message, string(id.reason)+": "), true})
			}
		}
	}
}
