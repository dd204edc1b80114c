// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/internal/wire"
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
	kind watch.EventType
	// content is the object in protobuf, a part of the frame.
	content []byte
	frame   *[]byte
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
	next := framesOf // which begin with their length
	if first[0] == '{' {
		next = framesOfJSON
	}
	read := next(body)
	for {
		e := event{frame: frames.Get().(*[]byte)}
		kind, object, err := read(e.frame)
		if err != nil {
			return err
		}
		s.heard.now()
		e.kind, e.arrived = watch.EventType(kind), time.Now()
		e.content, e.err = r.content(object, "")
		switch e.kind {
		case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		case watch.Error:
			return cmp.Or(e.err, ErrUndecodable)
		default:
			e.err = fmt.Errorf("%w: an event of type %.32q", ErrUndecodable, kind)
		}
		if !st.bring(ctx, e) {
			return ctx.Err()
		}
	}
}

// frames are used again when their event is told: what changes nothing leaves nothing.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// largestFrame bounds what is read of an event.
const largestFrame = 16 << 20

// framesOf reads events in protobuf. Each is read into room, and its object is a part of that.
func framesOf(body *bufio.Reader) func(room *[]byte) (kind string, object []byte, err error) {
	return func(room *[]byte) (kind string, object []byte, err error) {
		var length [4]byte
		if _, err := io.ReadFull(body, length[:]); err != nil {
			return "", nil, err
		}
		size := binary.BigEndian.Uint32(length[:])
		if size > largestFrame {
			return "", nil, fmt.Errorf("an event has %d bytes", size)
		}
		*room = slices.Grow((*room)[:0], int(size))[:size]
		if n, err := io.ReadFull(body, *room); err == io.EOF && n < int(size) { // no end in order
			return "", nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return "", nil, err
		}
		err = wire.Walk(*room, func(at wire.Path, _ uint64, value []byte) bool {
			switch at {
			case 0x01: // type
				kind = string(value)
			case 0x0201: // object.raw
				object = value
			}
			return at == 0x02
		})
		return kind, object, err
	}
}

// framesOfJSON reads events in JSON.
func framesOfJSON(body *bufio.Reader) func(*[]byte) (kind string, object []byte, err error) {
	bounded := &io.LimitedReader{R: body}
	decoder := json.NewDecoder(bounded)
	return func(*[]byte) (string, []byte, error) {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		bounded.N = largestFrame
		err := decoder.Decode(&e)
		return e.Type, e.Object, err
	}
}
