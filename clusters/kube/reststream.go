// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
)

// streamBuffer lets reading go on, and arrival times stay true, while the
// handler is busy. Whatever more there is waits in the connection.
const streamBuffer = 32

// restStream reads a response body in a goroutine of its own, which Stop waits for.
type restStream struct {
	body   io.Closer
	decode *eventDecoder
	events chan Event
	stop   chan struct{} // closed by the first Stop
	done   chan struct{} // closed when run has returned
	err    error         // set before events is closed
	once   sync.Once
}

func newRestStream(body io.Closer, decode *eventDecoder) *restStream {
	s := &restStream{
		body: body, decode: decode,
		events: make(chan Event, streamBuffer),
		stop:   make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// Events implements Stream.
func (s *restStream) Events() <-chan Event { return s.events }

// Err implements Stream.
func (s *restStream) Err() error { return s.err }

// Stop implements Stream.
func (s *restStream) Stop() {
	s.once.Do(func() {
		close(s.stop)
		_ = s.body.Close() // unblocks a read
	})
	<-s.done
}

func (s *restStream) run() {
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
		case <-s.stop:
			return
		}
	}
}

// eventDecoder reads watch events off a body.
type eventDecoder struct {
	body   *trackedBody
	events streaming.Decoder
	object runtime.Decoder
}

// next blocks for the next event. Its error is io.EOF at an orderly end, wraps
// ErrUndecodable for bytes that are no event, and is the connection's own otherwise.
func (d *eventDecoder) next() (Event, error) {
	var raw metav1.WatchEvent
	_, _, err := d.events.Decode(nil, &raw)
	arrival := time.Now()
	if err != nil {
		return Event{}, d.classify(err)
	}
	e := Event{Type: watch.EventType(raw.Type), Arrival: arrival}
	if e.Object, err = runtime.Decode(d.object, raw.Object.Raw); err != nil {
		e.Err = fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return e, nil
}

// classify tells a failed connection from a stream that makes no sense.
func (d *eventDecoder) classify(err error) error {
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
