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

// opened is the first event of every stream.
const opened watch.EventType = "opened"

// event is one event as read off the wire.
type event struct {
	kind watch.EventType
	// content is the object in protobuf, a part of the frame.
	content []byte
	frame   *[]byte
	// arrived is when the event's bytes had been read, with a monotonic reading.
	arrived time.Time
	// err is why it makes no sense.
	err error
}

// watch reads a stream of what happens after a revision until that ends; nil: in order. It reads
// it itself rather than through rest.Request.Watch, which reports a dead connection as an empty
// stream, mixes undecodable objects with broken connections, and stamps nothing.
func (s *Session) watch(ctx context.Context, q query, revision uint64, each func(event)) error {
	body, err := s.request(q, metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: strconv.FormatUint(revision, 10),
		TimeoutSeconds: new(int64(watchTime / time.Second)),
	}).SetHeader("Accept", streamTypes).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	each(event{kind: opened, arrived: time.Now()})
	if err = s.events(body, q.resource, each); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// events reads events off the body of a stream. Its error is io.EOF at an orderly end.
func (s *Session) events(from io.Reader, r Resource, each func(event)) error {
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
		each(e)
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
