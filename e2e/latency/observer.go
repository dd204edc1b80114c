// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Arm is one program under measurement: a pod whose readiness is flipped and
// the kinds of object in which the flip must become visible.
type Arm struct {
	Name      string
	Namespace string
	Pod       string
	// Object is the Endpoints' name and the slices' Service.
	Object string
	Kinds  []Kind
}

// Sample is one flip: for each kind, how long after the acknowledgement of the
// PATCH the change was seen. It can be negative by a little, since a watch may
// be served before the PATCH's response.
type Sample map[Kind]time.Duration

// Observer flips a pod in the member and watches for it in the ingress cluster.
type Observer struct {
	Member  kubernetes.Interface
	Ingress kubernetes.Interface
	// Patience bounds the wait for one flip to become visible.
	Patience time.Duration
	// Events starts the time when the observer's own watch of the member shows the
	// change, if that is before the acknowledgement, which a busy member sends late.
	Events bool
}

// Session is one arm under observation, with its watches open.
type Session struct {
	observer *Observer
	arm      Arm
	sights   chan sight
	streams  []watch.Interface
	ready    bool
	// told receives the events of the member's pod; nil without Observer.Events.
	told chan sight
}

// sight is one event of the ingress cluster, with its time of arrival.
type sight struct {
	kind  Kind
	ready bool
	at    time.Time
}

// Open starts watching for an arm whose pod is ready now. The caller closes it.
func (o *Observer) Open(ctx context.Context, arm Arm) (*Session, error) {
	s := &Session{observer: o, arm: arm, sights: make(chan sight, 1024), ready: true}
	if o.Events {
		stream, err := o.Member.CoreV1().Pods(arm.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + arm.Pod})
		if err != nil {
			return nil, fmt.Errorf("observe pod %s/%s: %w", arm.Namespace, arm.Pod, err)
		}
		s.told, s.streams = make(chan sight, 1024), append(s.streams, stream)
		go s.readPod(stream)
	}
	for _, kind := range arm.Kinds {
		stream, err := o.watch(ctx, arm, kind)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("observe %s of %s/%s: %w", kind, arm.Namespace, arm.Object, err)
		}
		s.streams = append(s.streams, stream)
		go s.read(kind, stream)
	}
	return s, nil
}

func (o *Observer) watch(ctx context.Context, arm Arm, kind Kind) (watch.Interface, error) {
	if kind == Endpoints {
		return o.Ingress.CoreV1().Endpoints(arm.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + arm.Object})
	}
	selector := labels.Set{discoveryv1.LabelServiceName: arm.Object}.String()
	return o.Ingress.DiscoveryV1().EndpointSlices(arm.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: selector})
}

// read ends when the stream is stopped.
func (s *Session) read(kind Kind, stream watch.Interface) {
	for event := range stream.ResultChan() {
		at := time.Now()
		switch object := event.Object.(type) {
		case *corev1.Endpoints:
			s.sights <- sight{kind, HasReady(object), at}
		case *discoveryv1.EndpointSlice:
			s.sights <- sight{kind, anyReadyEndpoint(object), at}
		}
	}
}

// readPod ends when the stream is stopped.
func (s *Session) readPod(stream watch.Interface) {
	for event := range stream.ResultChan() {
		at := time.Now()
		if pod, ok := event.Object.(*corev1.Pod); ok {
			s.told <- sight{ready: podReady(pod), at: at}
		}
	}
}

// begins returns when a change was first known outside the member.
func (s *Session) begins(want bool, acknowledged time.Time) time.Time {
	for {
		select {
		case got := <-s.told:
			if got.ready == want && got.at.Before(acknowledged) {
				return got.at
			}
		default:
			return acknowledged
		}
	}
}

// Close ends the watches.
func (s *Session) Close() {
	for _, stream := range s.streams {
		stream.Stop()
	}
}

// Flip inverts the pod's readiness once, and waits until every kind of the arm
// shows it.
func (s *Session) Flip(ctx context.Context) (Sample, error) {
	want := !s.ready
	s.drain()
	acknowledged, err := s.observer.patch(ctx, s.arm, want)
	if err != nil {
		return nil, err
	}
	if s.told != nil {
		acknowledged = s.begins(want, acknowledged)
	}
	sample := Sample{}
	patience := time.NewTimer(s.observer.Patience)
	defer patience.Stop()
	for len(sample) < len(s.arm.Kinds) {
		select {
		case got := <-s.sights:
			if _, seen := sample[got.kind]; !seen && got.ready == want {
				sample[got.kind] = got.at.Sub(acknowledged)
			}
		case <-patience.C:
			return nil, fmt.Errorf("%s: pod %s/%s became ready=%t, but after %v only %d of %d kinds show it",
				s.arm.Name, s.arm.Namespace, s.arm.Pod, want, s.observer.Patience, len(sample), len(s.arm.Kinds))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.ready = want
	return sample, nil
}

// drain discards what was seen before a flip.
func (s *Session) drain() {
	for {
		select {
		case <-s.sights:
		case <-s.told:
		default:
			return
		}
	}
}

// patch sets the pod's readiness as a kubelet does, which sets a reason and ContainersReady, too, and
// returns when the API server acknowledged it.
func (o *Observer) patch(ctx context.Context, arm Arm, ready bool) (time.Time, error) {
	status, reason := corev1.ConditionFalse, "ContainersNotReady"
	if ready {
		status, reason = corev1.ConditionTrue, ""
	}
	now := time.Now().UTC().Format(time.RFC3339)
	body := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"lastTransitionTime":%q},{"type":"ContainersReady","status":%q,"reason":%q,"lastTransitionTime":%q}]}}`,
		status, reason, now, status, reason, now)
	_, err := o.Member.CoreV1().Pods(arm.Namespace).Patch(ctx, arm.Pod, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: patch pod %s/%s: %w", arm.Name, arm.Namespace, arm.Pod, err)
	}
	return time.Now(), nil
}

// HasReady reports whether Endpoints have a ready address.
func HasReady(endpoints *corev1.Endpoints) bool {
	for _, subset := range endpoints.Subsets {
		if len(subset.Addresses) > 0 {
			return true
		}
	}
	return false
}

func anyReadyEndpoint(slice *discoveryv1.EndpointSlice) bool {
	for _, endpoint := range slice.Endpoints {
		if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
			return true
		}
	}
	return false
}
