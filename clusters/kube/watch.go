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
	// streamBuffer lets reading go on, and arrival times stay true, while the sink is busy.
	// Whatever more there is waits in the connection.
	streamBuffer = 32
	// largestEvent bounds what is read of an event.
	largestEvent = 16 << 20
)

// opened is the first event of every stream.
const opened watch.EventType = "opened"

// event is one event as read off the wire.
type event struct {
	kind    watch.EventType
	content []byte // the object in protobuf
	// arrived is when the event's bytes had been read, with a monotonic reading.
	arrived time.Time
	// err is why it cannot be decoded.
	err error
}

// watch reads a stream of the changes after a revision until it ends; nil: in order. It does not
// use rest.Request.Watch, which reports a dead connection as an empty stream, mixes undecodable
// objects with broken connections, and has no arrival times.
func (s *Session) watch(ctx context.Context, q Query, revision uint64, each func(event)) error {
	if err := s.proveAgain(ctx); err != nil {
		return err
	}
	body, err := s.request(q, metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: strconv.FormatUint(revision, 10),
		TimeoutSeconds: new(int64(watchTime / time.Second)),
	}).SetHeader("Accept", streamTypes).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	each(event{kind: opened, arrived: time.Now()})
	if err = s.events(body, q.Resource, each); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// events reads events off the body of a stream. Its error is io.EOF at an orderly end.
func (s *Session) events(body io.Reader, r Resource, each func(event)) error {
	bounded := &io.LimitedReader{R: body, N: largestEvent}
	text := bufio.NewReader(bounded)
	first, err := text.Peek(1)
	if err != nil {
		return err
	}
	format := runtime.ContentTypeProtobuf
	if first[0] == '{' { // which none in protobuf is long enough to begin with
		format = runtime.ContentTypeJSON
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), format)
	frames := streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(text)), info.StreamSerializer)
	for {
		var read metav1.WatchEvent
		bounded.N = largestEvent
		if _, _, err := frames.Decode(nil, &read); err != nil {
			return err
		}
		s.pool.heard.now()
		e := event{kind: watch.EventType(read.Type), arrived: time.Now()}
		e.content, e.err = r.content(read.Object.Raw, "")
		switch e.kind {
		case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		case watch.Error:
			return cmp.Or(e.err, ErrUndecodable)
		default:
			e.err = fmt.Errorf("%w: an event of type %.32q", ErrUndecodable, e.kind)
		}
		each(e)
	}
}
