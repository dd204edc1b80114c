// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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

// streamTypes are what a watch may answer in, the cheaper one first; a server or
// a proxy that has only JSON answers in JSON.
const streamTypes = "application/vnd.kubernetes.protobuf;stream=watch, application/json;stream=watch, application/json"

const (
	// watchTime is how long a watch lasts, and watchGrace how much later its end may come.
	watchTime  = 20 * time.Second
	watchGrace = 3 * time.Second
	// acceptTimeout bounds the wait for a server to accept a watch.
	acceptTimeout = 10 * time.Second
	// streamBuffer lets reading go on, and arrival times stay true, while the sink is busy.
	// Whatever more there is waits in the connection.
	streamBuffer = 32
)

// errNotAccepted is a watch that the server did not accept in time.
var errNotAccepted = errors.New("the server did not answer the watch in time")

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

	cancel context.CancelFunc
	body   io.Closer
	decode *decoder
	used   *conn // its connection
	done   chan struct{}
}

// watch opens a stream of what happens after a revision. It does so itself rather than
// through rest.Request.Watch, which reports a dead connection as an empty stream, mixes
// undecodable objects with broken connections, and stamps nothing.
func (s *Session) watch(ctx context.Context, q query, revision uint64) (*stream, error) {
	var used atomic.Pointer[conn]
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, using{}, &used))
	late := time.AfterFunc(acceptTimeout, func() { cancel(errNotAccepted) })
	resp, err := s.openWatch(ctx, q, revision)
	if !late.Stop() && err == nil {
		_ = resp.Body.Close()
		err = errNotAccepted
	}
	if err == nil {
		var decode *decoder
		if decode, err = newDecoder(resp, q.Resource, &s.heard); err == nil {
			st := &stream{
				events: make(chan event, streamBuffer), cancel: func() { cancel(nil) }, body: resp.Body, decode: decode,
				used: used.Load(), done: make(chan struct{}),
			}
			go st.run(ctx)
			return st, nil
		}
		_ = resp.Body.Close()
	}
	if context.Cause(ctx) == errNotAccepted {
		err = errNotAccepted
		if c := used.Load(); c != nil {
			_ = c.Close()
		}
	}
	cancel(nil)
	return nil, err
}

// openWatch returns the answer of a server that has accepted a watch.
func (s *Session) openWatch(ctx context.Context, q query, revision uint64) (*http.Response, error) {
	opts := metav1.ListOptions{
		Watch: true, AllowWatchBookmarks: true, ResourceVersion: strconv.FormatUint(revision, 10),
		TimeoutSeconds: new(int64(watchTime / time.Second)),
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.request(q, opts).URL().String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", streamTypes)
	resp, err := s.client(q.Resource).Client.Do(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	const limit = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, limit))
	if status := decodeStatus(body); status != nil {
		return nil, apierrors.FromObject(status)
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return nil, apierrors.NewGenericServerResponse(resp.StatusCode, "watch", q.Resource.GroupResource(), "", "", seconds, true)
}

// decodeStatus reads a failure in either encoding; nil when it is something else.
func decodeStatus(body []byte) *metav1.Status {
	var status metav1.Status
	if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		decoded, ok := object.(*metav1.Status)
		if !ok {
			return nil
		}
		status = *decoded
	} else if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return nil
	}
	if status.Status != metav1.StatusFailure {
		return nil
	}
	return &status
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
	if s.used != nil {
		_ = s.used.Close()
	}
	s.stop()
}

func (s *stream) run(ctx context.Context) {
	defer close(s.done)
	defer close(s.events)
	defer func() { _ = s.body.Close() }()
	for {
		e, err := s.decode.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
			return
		}
		select {
		case s.events <- e:
		case <-ctx.Done():
			return
		}
	}
}

// decoder reads watch events off a body.
type decoder struct {
	body   *trackedBody
	heard  *heard
	events streaming.Decoder
	object runtime.Decoder
}

// newDecoder picks the decoding of a stream by its content type.
func newDecoder(resp *http.Response, r Resource, heard *heard) (*decoder, error) {
	media, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("%w: content type: %w", ErrUndecodable, err)
	}
	negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), r.GroupVersion())
	object, events, framer, err := negotiator.StreamDecoder(media, params)
	if err != nil {
		return nil, fmt.Errorf("%w: content type %q", ErrUndecodable, media)
	}
	body := &trackedBody{ReadCloser: resp.Body}
	return &decoder{body: body, heard: heard, events: streaming.NewDecoder(framer.NewFrameReader(body), events), object: object}, nil
}

// next blocks for the next event. Its error is io.EOF at an orderly end, wraps
// ErrUndecodable for bytes that are no event, and is the connection's own otherwise.
func (d *decoder) next() (event, error) {
	var raw metav1.WatchEvent
	_, _, err := d.events.Decode(nil, &raw)
	e := event{kind: watch.EventType(raw.Type), arrived: time.Now()}
	if err != nil {
		return event{}, d.classify(err)
	}
	d.heard.now()
	if e.object, err = runtime.Decode(d.object, raw.Object.Raw); err != nil {
		e.err = fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return e, nil
}

// classify tells a failed connection from a stream that makes no sense.
func (d *decoder) classify(err error) error {
	switch {
	case d.body.err != nil && !errors.Is(d.body.err, io.EOF):
		return d.body.err
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF) && d.body.err != nil:
		return fmt.Errorf("the stream ended within an event: %w", io.ErrUnexpectedEOF)
	default:
		return fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
}

// trackedBody remembers how reading from the connection ended.
type trackedBody struct {
	io.ReadCloser
	err error
}

// Read implements io.Reader.
func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err = err
	}
	return n, err
}
