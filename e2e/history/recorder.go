// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Source is a cluster to record, with an administrator's client.
type Source struct {
	Name   string
	Client kubernetes.Interface
}

// Recorder records what happens. Its methods may be called from any goroutine.
type Recorder struct {
	ingress string
	members []string
	watches []*follower
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	began  time.Time
	events []Event
	spans  []*Mark
	byHand map[handKey]int
	// known is the last version of each object.
	known map[followed]metav1.Object
	// doubted are the keys of known whose revision may now be that of another version,
	// because the store was restored.
	doubted map[followed]bool
}

// followed names an object among all clusters.
type followed struct {
	Cluster string
	Kind    Kind
	Key     Key
}

// handKey is an expected change by the test itself: a revision of an object, or its
// deletion.
type handKey struct {
	Kind     Kind
	Key      Key
	Revision string // "" for a deletion
}

// Start lists everything, which yields the events at 0, and watches until Stop.
func Start(ctx context.Context, ingress Source, members ...Source) (*Recorder, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Recorder{
		ingress: ingress.Name, cancel: cancel, began: time.Now(),
		byHand: map[handKey]int{}, known: map[followed]metav1.Object{}, doubted: map[followed]bool{},
	}
	for _, m := range members {
		r.members = append(r.members, m.Name)
		r.watches = append(r.watches, newFollower(r, m, Service), newFollower(r, m, Pod))
	}
	for _, kind := range []Kind{Service, Endpoints, EndpointSlice} {
		r.watches = append(r.watches, newFollower(r, ingress, kind))
	}
	for _, w := range r.watches {
		if err := w.list(ctx); err != nil {
			cancel()
			return nil, fmt.Errorf("record: %w", err)
		}
	}
	r.mu.Lock()
	r.began = time.Now()
	for i := range r.events {
		r.events[i].At = 0
	}
	r.mu.Unlock()
	for _, w := range r.watches {
		r.running.Go(func() { w.run(ctx) })
	}
	return r, nil
}

// Stop waits until everything that happened so far is recorded, ends the watches, and
// returns the history.
func (r *Recorder) Stop(ctx context.Context) (*History, error) {
	err := r.CatchUp(ctx)
	r.cancel()
	r.running.Wait()
	return r.History(), err
}

// Close ends the watches. A second call does nothing.
func (r *Recorder) Close() {
	r.cancel()
	r.running.Wait()
}

// History returns what happened so far.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{
		Began: r.began, End: time.Since(r.began), Ingress: r.ingress, Members: slices.Clone(r.members), Events: slices.Clone(r.events),
	}
	for _, m := range r.spans {
		s := m.span
		if s.To == 0 {
			s.To = h.End
		}
		h.Spans = append(h.Spans, s)
	}
	return h
}

// catchUpPoll is how often CatchUp compares.
const catchUpPoll = 20 * time.Millisecond

var errBehind = errors.New("the recorder has not seen everything yet")

// CatchUp waits until the recorder has seen the current state of every cluster. It is
// meant to be called while nothing changes; the clusters must answer.
func (r *Recorder) CatchUp(ctx context.Context) error {
	tick := time.NewTicker(catchUpPoll)
	defer tick.Stop()
	for _, w := range r.watches {
		for {
			err := w.upToDate(ctx)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", context.Cause(ctx), err)
			case <-tick.C:
			}
		}
	}
	return nil
}

// Reset lists everything of a cluster again, after its store was restored: its watches
// would stay silent until the revisions have caught up.
func (r *Recorder) Reset(ctx context.Context, cluster string) error {
	for _, w := range r.watches {
		if w.cluster != cluster {
			continue
		}
		if err := w.reset(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Mark is a span that has begun.
type Mark struct {
	r    *Recorder
	span Span
}

// Begin begins a span. cluster is "" where the kind concerns no member.
func (r *Recorder) Begin(kind SpanKind, cluster string) *Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &Mark{r: r, span: Span{Kind: kind, Cluster: cluster, From: time.Since(r.began)}}
	r.spans = append(r.spans, m)
	return m
}

// End ends the span. A second call does nothing.
func (m *Mark) End() {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	if m.span.To == 0 {
		m.span.To = time.Since(m.r.began)
	}
}

// Hand records that the test itself made this version of an object of the ingress
// cluster. It is called with the response to the write.
func (r *Recorder) Hand(kind Kind, object metav1.Object) {
	r.hand(handKey{kind, Key{object.GetNamespace(), object.GetName()}, object.GetResourceVersion()})
}

// HandDeletes records that the test itself is about to delete an object of the ingress
// cluster.
func (r *Recorder) HandDeletes(kind Kind, namespace, name string) {
	r.hand(handKey{kind, Key{namespace, name}, ""})
}

func (r *Recorder) hand(key handKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The watch may have been faster than the response.
	for i := len(r.events) - 1; i >= 0 && key.Revision != ""; i-- {
		e := &r.events[i]
		if e.Cluster == r.ingress && e.Kind == key.Kind && e.Key == key.Key && e.Revision == key.Revision {
			e.ByHand = true
			return
		}
	}
	r.byHand[key]++
}

// note records an event, unless it is known.
func (r *Recorder) note(e Event) {
	id := followed{e.Cluster, e.Kind, e.Key}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.known[id]
	switch {
	case e.Object == nil && before == nil:
		return
	case e.Object == nil:
		delete(r.known, id)
	case before != nil && !r.doubted[id] && before.GetResourceVersion() == e.Object.GetResourceVersion() && before.GetUID() == e.Object.GetUID():
		return
	default:
		r.known[id] = e.Object
		e.Revision = e.Object.GetResourceVersion()
	}
	delete(r.doubted, id)
	hand := handKey{e.Kind, e.Key, ""}
	if e.Object != nil {
		hand.Revision = e.Revision
	}
	if e.Cluster == r.ingress && r.byHand[hand] > 0 {
		r.byHand[hand]--
		e.ByHand = true
	}
	e.At = time.Since(r.began)
	r.events = append(r.events, e)
}
