// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// ListWatcher is where a Loop reads from: one resource through one client. Both
// functions block, honour their context and may be called concurrently.
type ListWatcher struct {
	// List answers one page of a list.
	List func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	// Watch returns once the server has accepted the watch. The context governs
	// the whole life of the stream.
	Watch func(ctx context.Context, opts metav1.ListOptions) (Stream, error)
	// Scopes are the namespaces that are read each by itself, in the place of List and Watch;
	// nil: it is all one. See Across.
	Scopes []Scope
	// StreamingList says that the server offers the list as a watch (KEP-3157).
	// The loop falls back to List whenever that fails.
	StreamingList bool
	// Confirm returns nil unless a list that was read before the call may be another
	// cluster's. Nil is not called.
	Confirm func(ctx context.Context) error
	// Retired is called once, when the loop has gone over to another source or has
	// ended and uses this one no more. It must not block. Nil is not called.
	Retired func()
}

// Stream is an open watch.
type Stream interface {
	// Events is closed when the stream has ended, for whatever reason.
	Events() <-chan Event
	// Stop ends the stream and returns when nothing of it runs any more. It may
	// be called more than once.
	Stop()
	// Err tells why the stream ended; nil when the server closed it in order.
	// Valid once Events is closed.
	Err() error
}

// refused is a source that sends nothing and fails.
func refused(err error) ListWatcher {
	return ListWatcher{
		List:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, err },
		Watch: func(context.Context, metav1.ListOptions) (Stream, error) { return nil, err },
	}
}

func (s ListWatcher) confirm(ctx context.Context) error {
	if s.Confirm == nil {
		return nil
	}
	return s.Confirm(ctx)
}

// scopeOpened is the type of an event that says that a scope is shown from now on that was
// refused until now.
const scopeOpened watch.EventType = "SCOPE OPENED"

// Event is one event as read off the wire.
type Event struct {
	Type   watch.EventType
	Object runtime.Object
	// Arrival is when the event's bytes had been read, with a monotonic reading.
	Arrival time.Time
	// Scope is that of the stream which brought it; see ListWatcher.Scopes.
	Scope string
	// Err is set when the event was there but its object could not be decoded.
	Err error
}
