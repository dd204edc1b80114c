// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is what the loops under test keep of a pod.
type item struct {
	syncer.Key
	value string
	rv    uint64
}

func pod(name string, rv int, value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, ResourceVersion: strconv.Itoa(rv),
		Labels: map[string]string{"value": value},
	}}
}

func convert(obj runtime.Object) (item, bool) {
	p, ok := obj.(*corev1.Pod)
	if !ok || p == nil {
		return item{}, false
	}
	return item{Key: syncer.Key{Namespace: p.Namespace, Name: p.Name}, value: p.Labels["value"], rv: number(p.ResourceVersion)}, true
}

func podList(rv int, next string, pods ...*corev1.Pod) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(rv), Continue: next}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	return list
}

// cluster is a scripted API server. Each list and each watch is answered by the
// function given for it; lists and watches are recorded.
type cluster struct {
	mu      sync.Mutex
	lists   []metav1.ListOptions
	watches []metav1.ListOptions
	times   []time.Time // of the watches
	streams []*fakeStream

	list func(n int, opts metav1.ListOptions) (runtime.Object, error)
	// watch may be nil: every watch is then accepted.
	watch func(n int, opts metav1.ListOptions) error
	// check answers short watches, which are not counted among the others; nil: nothing
	// has happened.
	check  func(ctx context.Context, n int, opts metav1.ListOptions) (Stream, error)
	checks []metav1.ListOptions
	// checkErr refuses them.
	checkErr error
	// hangs has nothing answered, and slow is how long lists of more than one object take.
	hangs bool
	slow  time.Duration
	// breaks has accepted streams end at once, by revision.
	breaks map[string]error
}

func (c *cluster) source() ListWatcher {
	return ListWatcher{
		List: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			c.mu.Lock()
			c.lists = append(c.lists, opts)
			n, list, hangs, slow := len(c.lists), c.list, c.hangs, c.slow
			c.mu.Unlock()
			if hangs {
				<-ctx.Done()
			}
			if slow > 0 && opts.Limit != 1 {
				pause(ctx, slow)
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return list(n, opts)
		},
		Watch: func(ctx context.Context, opts metav1.ListOptions) (Stream, error) {
			if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds == checkSeconds {
				return c.answerCheck(ctx, opts)
			}
			c.mu.Lock()
			c.watches = append(c.watches, opts)
			c.times = append(c.times, time.Now())
			n, watch, hangs := len(c.watches), c.watch, c.hangs
			c.mu.Unlock()
			if hangs {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if watch != nil {
				if err := watch(n, opts); err != nil {
					return nil, err
				}
			}
			s := &fakeStream{events: make(chan Event, 100), ctx: ctx}
			c.mu.Lock()
			c.streams = append(c.streams, s)
			err := c.breaks[opts.ResourceVersion]
			c.mu.Unlock()
			if err != nil {
				s.end(err)
			}
			return s, nil
		},
	}
}

// with changes what it answers.
func (c *cluster) with(change func(*cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *cluster) answerCheck(ctx context.Context, opts metav1.ListOptions) (Stream, error) {
	c.mu.Lock()
	c.checks = append(c.checks, opts)
	n, answer, err, hangs := len(c.checks), c.check, c.checkErr, c.hangs
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if answer != nil {
		return answer(ctx, n, opts)
	}
	return brief(), nil
}

// brief is a short watch that brings events and is ended by the server.
func brief(events ...watch.Event) *fakeStream {
	s := &fakeStream{events: make(chan Event, len(events))}
	for _, e := range events {
		s.send(e.Type, e.Object)
	}
	time.AfterFunc(checkSeconds*time.Second, func() { s.end(nil) })
	return s
}

func (c *cluster) checked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.checks)
}

// last returns the stream opened last, and how many there were.
func (c *cluster) last() (*fakeStream, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streams) == 0 {
		return nil, 0
	}
	return c.streams[len(c.streams)-1], len(c.streams)
}

func (c *cluster) counts() (lists, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lists), len(c.watches)
}

type fakeStream struct {
	events  chan Event
	ctx     context.Context
	err     error
	stopped atomic.Bool
}

func (s *fakeStream) Events() <-chan Event { return s.events }
func (s *fakeStream) Err() error           { return s.err }
func (s *fakeStream) Stop()                { s.stopped.Store(true) }

func (s *fakeStream) send(t watch.EventType, obj runtime.Object) {
	s.events <- Event{Type: t, Object: obj, Arrival: time.Now()}
}

func (s *fakeStream) bookmark(rv int) {
	s.send(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(rv)}})
}

// end closes the stream as the server or a broken connection would.
func (s *fakeStream) end(err error) {
	s.err = err
	close(s.events)
}

// recorder is a handler that keeps a picture and a log.
type recorder struct {
	mu       sync.Mutex
	picture  map[string]string
	log      []string
	states   []State
	contacts int
}

func (r *recorder) Replaced(items []item, rep Replacement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.picture = make(map[string]string)
	for _, i := range items {
		r.picture[i.Name] = i.value
	}
	line := fmt.Sprintf("replaced %s@%s %d", rep.Reason, rep.ResourceVersion, len(items))
	if rep.Older {
		line += " older"
	}
	if len(rep.LeftOut) > 0 {
		line += fmt.Sprint(" without ", rep.LeftOut, rep.Unlisted)
	}
	r.log = append(r.log, line)
}

func (r *recorder) Upserted(i item, e EventMeta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.picture[i.Name] = i.value
	r.log = append(r.log, fmt.Sprintf("%s %s=%s@%s", e.Type, i.Name, i.value, e.ResourceVersion))
}

func (r *recorder) Deleted(i item, e EventMeta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.picture, i.Name)
	r.log = append(r.log, fmt.Sprintf("%s %s@%s", e.Type, i.Name, e.ResourceVersion))
}

func (r *recorder) Contact(time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.contacts++
}

func (r *recorder) Changed(s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, s)
}

func (r *recorder) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[len(r.states)-1]
}

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

func (r *recorder) names() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.picture)
}

// counter is an Observer.
type counter struct {
	mu          sync.Mutex
	ends        []End
	listed      []Reason
	undecodable int
}

func (c *counter) Listed(_ string, r Reason, _ int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = append(c.listed, r)
}

func (c *counter) StreamEnded(_ string, e End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, e)
}

func (c *counter) Undecodable(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undecodable++
}

// scene is a loop in a bubble of virtual time.
type scene struct {
	*cluster
	t      *testing.T
	loop   *Loop[item]
	got    *recorder
	counts counter
}

// play runs a loop against a cluster until script returns.
func play(t *testing.T, c *cluster, adjust func(*Config[item], *ListWatcher), script func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{cluster: c, t: t, got: &recorder{picture: map[string]string{}}}
		cfg := Config[item]{
			Kind: "Pod", Convert: convert, Handler: s.got, Observer: &s.counts,
			Key: func(i *item) syncer.Key { return i.Key },
		}
		source := c.source()
		if adjust != nil {
			adjust(&cfg, &source)
		}
		s.loop = New(cfg, source)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.loop.Run(ctx)
		}()
		synctest.Wait()
		script(s)
		cancel()
		<-ended
		for i, stream := range c.streams {
			if !stream.stopped.Load() {
				t.Errorf("stream %d of %d was left open", i+1, len(c.streams))
			}
		}
	})
}

// pass lets virtual time go by.
func (s *scene) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *scene) stream() *fakeStream {
	s.t.Helper()
	stream, _ := s.last()
	if stream == nil {
		s.t.Fatal("no stream was opened")
	}
	return stream
}

func (s *scene) wantLog(want ...string) {
	s.t.Helper()
	if got := s.got.lines(); !slices.Equal(got, want) {
		s.t.Errorf("handler was told\n  %q\nwant\n  %q", got, want)
	}
}

func (s *scene) wantCounts(lists, watches int) {
	s.t.Helper()
	if l, w := s.cluster.counts(); l != lists || w != watches {
		s.t.Errorf("%d lists and %d watches, want %d and %d", l, w, lists, watches)
	}
}

// one answers every list with the same pods.
func one(rv int, pods ...*corev1.Pod) func(int, metav1.ListOptions) (runtime.Object, error) {
	return func(int, metav1.ListOptions) (runtime.Object, error) { return podList(rv, "", pods...), nil }
}

func gone() error { return apierrors.NewResourceExpired("too old resource version") }

func statusOf(err error) *metav1.Status {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		panic("not a status error")
	}
	return &status.ErrStatus
}
