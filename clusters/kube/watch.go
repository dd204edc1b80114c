// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	// streamTypes are what a watch may answer in, the cheaper one first; a server or a proxy
	// that has only JSON answers in JSON.
	streamTypes = "application/vnd.kubernetes.protobuf;stream=watch, application/json;stream=watch, application/json"
	// streamBuffer lets reading go on, and arrival times stay true, while the sink is busy.
	// Whatever more there is waits in the connection.
	streamBuffer = 32
)

// What a stream brings besides what the server sends: that it is open, first, and that it has
// ended, last.
const (
	streamOpened watch.EventType = "opened"
	streamEnded  watch.EventType = "ended"
)

// event is one event as read off the wire.
type event struct {
	kind   watch.EventType
	object runtime.Object
	// arrived is when the event's bytes had been read, with a monotonic reading.
	arrived time.Time
	// err is why an event makes no sense, or why the stream ended; nil when in order.
	err error
}

// stream is a watch that is open, or being opened. It is read in a goroutine of its own, which
// stop waits for.
type stream struct {
	events chan event
	cancel context.CancelFunc
	used   atomic.Pointer[conn] // its connection
	done   chan struct{}
}

// watch opens a stream of what happens after a revision. It reads the stream itself rather
// than through rest.Request.Watch, which reports a dead connection as an empty stream, mixes
// undecodable objects with broken connections, and stamps nothing.
func (a *Access) watch(ctx context.Context, q query, revision uint64) *stream {
	ctx, cancel := context.WithCancel(ctx)
	st := &stream{events: make(chan event, streamBuffer), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(st.done)
		defer cancel()
		err := st.run(ctx, a, q, revision)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("watch %s: %w", q.resource.Resource, bare(err))
		}
		st.bring(ctx, event{kind: streamEnded, err: err, arrived: time.Now()})
	}()
	return st
}

// brings is what the stream brings; a nil one nothing.
func (st *stream) brings() <-chan event {
	if st == nil {
		return nil
	}
	return st.events
}

// bring reports false when the stream was stopped.
func (st *stream) bring(ctx context.Context, e event) bool {
	select {
	case st.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// stop ends the stream and returns when nothing of it runs any more. A nil one has ended.
func (st *stream) stop() {
	if st != nil {
		st.cancel()
		<-st.done
	}
}

// cut has nothing new go over the connection of the stream: another stream over it would be as
// silent.
func (st *stream) cut() {
	if c := st.used.Load(); c != nil {
		c.leaving.Store(true)
	}
}

// run opens the stream and reads it. Its error is io.EOF at an orderly end.
func (st *stream) run(ctx context.Context, a *Access, q query, revision uint64) error {
	s, err := a.Get(ctx)
	if err != nil {
		return err
	}
	body, err := s.request(q, metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: strconv.FormatUint(revision, 10),
		TimeoutSeconds: new(int64(watchTime / time.Second)),
	}).SetHeader("Accept", streamTypes).Stream(context.WithValue(ctx, using{}, &st.used))
	if err != nil {
		return err
	}
	defer body.Close()
	if !st.bring(ctx, event{kind: streamOpened, arrived: time.Now()}) {
		return ctx.Err()
	}
	return st.read(ctx, s, body, q.resource)
}

// read reads events off the body.
func (st *stream) read(ctx context.Context, s *Session, from io.Reader, r Resource) error {
	body := bufio.NewReader(from)
	first, err := body.Peek(1)
	if err != nil {
		return err
	}
	media := runtime.ContentTypeProtobuf // its frames begin with their length
	if first[0] == '{' {
		media = runtime.ContentTypeJSON
	}
	negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), r.GroupVersion())
	objects, events, framer, err := negotiator.StreamDecoder(media, nil)
	if err != nil {
		return err
	}
	for decoder := streaming.NewDecoder(framer.NewFrameReader(io.NopCloser(body)), events); ; {
		var raw metav1.WatchEvent
		if _, _, err := decoder.Decode(nil, &raw); err != nil {
			return err
		}
		s.heard.now()
		e := event{kind: watch.EventType(raw.Type), arrived: time.Now()}
		if e.object, err = runtime.Decode(objects, raw.Object.Raw); err != nil {
			e.err = fmt.Errorf("%w: %w", ErrUndecodable, err)
		}
		switch e.kind {
		case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		case watch.Error:
			return cmp.Or(e.err, apierrors.FromObject(e.object))
		default:
			e = event{arrived: e.arrived, err: fmt.Errorf("%w: an event of type %.32q", ErrUndecodable, raw.Type)}
		}
		if !st.bring(ctx, e) {
			return ctx.Err()
		}
	}
}
