// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

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
	// watchTime is how long a watch lasts, and watchGrace how much later its end may come.
	watchTime  = 20 * time.Second
	watchGrace = 3 * time.Second
	// acceptTimeout bounds the wait for a server to accept a watch.
	acceptTimeout = 10 * time.Second
	// streamBuffer lets reading go on, and arrival times stay true, while the sink is busy.
	// Whatever more there is waits in the connection.
	streamBuffer = 32
)

// event is one event as read off the wire.
type event struct {
	kind   watch.EventType
	object runtime.Object
	// arrived is when the event's bytes had been read, with a monotonic reading.
	arrived time.Time
	// err is set when the event was there but its object could not be decoded.
	err error
}

// stream is an open watch. It is read in a goroutine of its own, which stop waits for.
type stream struct {
	events chan event // closed at its end
	err    error      // why it ended; nil when in order. Valid once events is closed

	cancel   context.CancelFunc
	body     io.ReadCloser
	resource Resource
	heard    *heard
	used     *conn // its connection
	done     chan struct{}
}

// watch opens a stream of what happens after a revision. It reads the stream itself rather
// than through rest.Request.Watch, which reports a dead connection as an empty stream, mixes
// undecodable objects with broken connections, and stamps nothing.
func (s *Session) watch(ctx context.Context, q query, revision uint64) (*stream, error) {
	var used atomic.Pointer[conn]
	ctx, cancel := context.WithCancel(context.WithValue(ctx, using{}, &used))
	var late atomic.Bool
	sent := time.Now().UnixNano()
	timer := time.AfterFunc(acceptTimeout, func() {
		late.Store(true)
		cancel()
		if c := used.Load(); c != nil && c.heard.Load() < sent { // else the server is busy
			_ = c.Close()
		}
	})
	body, err := s.request(q, metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: strconv.FormatUint(revision, 10),
		TimeoutSeconds: new(int64(watchTime / time.Second)),
	}).SetHeader("Accept", streamTypes).Stream(ctx)
	timer.Stop()
	if late.Load() {
		err = errors.Join(errors.New("the server did not answer the watch in time"), err)
	}
	if err != nil {
		cancel()
		if body != nil {
			_ = body.Close()
		}
		return nil, err
	}
	st := &stream{
		events: make(chan event, streamBuffer), cancel: cancel, body: body, resource: q.resource,
		heard: &s.heard, used: used.Load(), done: make(chan struct{}),
	}
	go st.run(ctx)
	return st, nil
}

// stop ends the stream and returns when nothing of it runs any more. It may be called more
// than once.
func (s *stream) stop() {
	s.cancel()
	_ = s.body.Close() // unblocks a read
	<-s.done
}

// cut ends the stream and closes its connection, whatever else goes over it: another stream
// over it would be as silent.
func (s *stream) cut() {
	_ = s.used.Close()
	s.stop()
}

func (s *stream) run(ctx context.Context) {
	defer close(s.done)
	defer close(s.events)
	defer func() { _ = s.body.Close() }()
	if s.err = s.read(ctx); errors.Is(s.err, io.EOF) {
		s.err = nil
	}
}

// read reads events off the body. Its error is io.EOF at an orderly end.
func (s *stream) read(ctx context.Context) error {
	body := bufio.NewReader(s.body)
	first, err := body.Peek(1)
	if err != nil {
		return err
	}
	media := runtime.ContentTypeProtobuf // its frames begin with their length
	if first[0] == '{' {
		media = runtime.ContentTypeJSON
	}
	negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), s.resource.GroupVersion())
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
		s.used.heard.Store(time.Now().UnixNano())
		e := event{kind: watch.EventType(raw.Type), arrived: time.Now()}
		if e.object, err = runtime.Decode(objects, raw.Object.Raw); err != nil {
			e.err = fmt.Errorf("%w: %w", ErrUndecodable, err)
		}
		select {
		case s.events <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
