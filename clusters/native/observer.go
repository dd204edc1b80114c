// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package native

//lint:file-ignore SA1019 core/v1 Endpoints are what members' controllers write

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// How long both sides differ before it is reported, and how many Services are named.
const (
	tolerance = time.Minute
	named     = 20
)

// Observer compares what a member's own controllers write with what is computed here. It writes
// nothing. A nil Observer does nothing. It is safe for concurrent use.
type Observer struct {
	// compute is what upstream's rules alone make of a Service; nil: nothing is to be compared.
	compute    func(service syncer.Key) *syncer.Contribution
	lag        func(time.Duration)
	namespaces []string

	mu      sync.Mutex
	tracker *Tracker
}

// NewObserver returns an observer of some namespaces, with a stream each; nil: one covers all. lag
// is called with how far the member's controllers were behind.
func NewObserver(namespaces []string, compute func(service syncer.Key) *syncer.Contribution, lag func(time.Duration)) *Observer {
	if namespaces == nil {
		namespaces = []string{""}
	}
	return &Observer{compute: compute, lag: lag, namespaces: namespaces, tracker: NewTracker()}
}

// Ours computes a Service because of an event that arrived at a time.
func (o *Observer) Ours(service syncer.Key, arrived time.Time) {
	if o == nil {
		return
	}
	o.measure(func() (time.Duration, bool) {
		expected, there := Expect(o.compute(service), syncer.EndpointsCapacity)
		return o.tracker.Ours(service, expected, there, arrived)
	})
}

// measure updates the tracker, and reports the lag that this measures.
func (o *Observer) measure(tell func() (time.Duration, bool)) {
	o.mu.Lock()
	late, measured := tell()
	o.mu.Unlock()
	if measured {
		o.lag(late)
	}
}

// Status compares both sides.
func (o *Observer) Status() *metrics.NativeStatus {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	differing := o.tracker.Disagreements(now.Add(-tolerance))
	return &metrics.NativeStatus{BehindSeconds: o.tracker.Behind(now).Seconds(), DifferingCount: len(differing), Differing: differing[:min(len(differing), named)]}
}

// Run follows the Endpoints of the member until ctx ends. fault is called with what cannot be read.
func (o *Observer) Run(ctx context.Context, access *kube.Access, fault func(error)) {
	if o == nil {
		return
	}
	decoder := decode.New(decode.Options{})
	convert := func(content []byte) (*Addresses, error) {
		var of corev1.Endpoints
		if err := of.Unmarshal(content); err != nil {
			return nil, err
		}
		return new(Of(decoder.Endpoints(&of).Object.Subsets)), nil
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for _, namespace := range o.namespaces {
		query := kube.Query{Resource: kube.Endpoints, Namespace: namespace}
		follower := kube.NewFollower(query, func() kube.Convert[Addresses] { return convert }, access, sink{o, namespace}, fault)
		tasks.Go(func() { follower.Run(ctx) })
	}
}

// sink receives what the member's own controllers write.
type sink struct {
	*Observer
	in string // the namespace
}

// Event implements kube.Sink.
func (s sink) Event(v kube.Versioned[Addresses], arrived time.Time) {
	switch {
	case v.Key == syncer.Key{}:
	case v.Object == nil:
		s.measure(func() (time.Duration, bool) { return s.tracker.Theirs(v.Key, nil, false, arrived) })
	default:
		s.measure(func() (time.Duration, bool) { return s.tracker.Theirs(v.Key, *v.Object, true, arrived) })
	}
}

// Listed implements kube.Sink.
func (s sink) Listed(all []kube.Versioned[Addresses], _ uint64) {
	list := make(map[syncer.Key]Addresses, len(all))
	for _, v := range all {
		list[v.Key] = *v.Object
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.Replace(s.in, list, time.Now())
}

// Following implements kube.Sink.
func (s sink) Following(is bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !is {
		s.tracker.See(time.Now())
	}
}

// WentBack implements kube.Sink.
func (s sink) WentBack() {}
