// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/next/syncer"
)

// Options say how a session behaves. The zero value is usable.
type Options struct {
	// Cluster names the cluster in errors and logs.
	Cluster string
	// Version of the product, for the User-Agent.
	Version string
	// Pin is the identity that the cluster must have; nil: it may be any, and is then to stay
	// the same.
	Pin *Pin
	// Wrap observes requests, for metrics; nil does not.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Logger says each distinct warning of the server once; nil says nothing.
	Logger *slog.Logger
}

// Session is a way to one cluster: its own transport, shared with nothing. All methods are
// safe for concurrent use.
type Session struct{}

// Open connects and makes sure, before anything is read, of the identity of what answers.
func Open(ctx context.Context, cfg *rest.Config, o Options) (*Session, error) {
	return nil, errNoSession
}

// Clientset is the typed client. Requests other than watches are given up after a minute
// unless their context says otherwise. There is no limit of requests a second.
func (s *Session) Clientset() kubernetes.Interface { return nil }

// Host is the address of the server as configured; it holds no secret.
func (s *Session) Host() string { return "" }

// Identity is by what the cluster is known, the UID of its namespace kube-system; ""
// while it is by nothing.
func (s *Session) Identity() string { return "" }

// Version asks the server for its version.
func (s *Session) Version(ctx context.Context) (ServerVersion, error) { return ServerVersion{}, nil }

// ClockOffset is how far the server's clock is ahead of ours, by the Date of its answers,
// to about a second and at most an hour; negative: behind.
func (s *Session) ClockOffset() time.Duration { return 0 }

// LastContact is when the cluster last sent something; zero: never.
func (s *Session) LastContact() time.Time { return time.Time{} }

// Close ends all requests and connections. It may be called more than once.
func (s *Session) Close() {}

// State is what a consistent read says of an object.
type State uint8

// The states.
const (
	// CannotTell: nothing was learnt.
	CannotTell State = iota
	// There is an object of that name, whatever its UID.
	There
	// NotThere: the API server itself says that there is no object of that name.
	NotThere
)

// Answer is what came of a question for one object.
type Answer struct {
	State State
	// Object is set when it is There.
	Object runtime.Object
}

// Ask asks for one object in the cluster's etcd. The error is set when the answer is
// CannotTell, and only then.
func (s *Session) Ask(ctx context.Context, r Resource, key syncer.Key) (Answer, error) {
	return Answer{}, errNoSession
}

// List reads all objects of a resource in a namespace, or in all where it is empty, that
// have the labels.
func (s *Session) List(ctx context.Context, r Resource, namespace, labels string) ([]runtime.Object, error) {
	return nil, errNoSession
}

// Access holds the session in use.
type Access struct{}

// NewAccess returns an access that opens its first session when it is asked for.
func NewAccess(open func(context.Context) (*Session, error)) *Access { return &Access{} }

// Get returns the session in use, and opens it if there is none. Who asks while it is being
// opened shares the outcome.
func (a *Access) Get(ctx context.Context) (*Session, error) { return nil, errNoSession }

// Current returns the session in use; nil while there is none.
func (a *Access) Current() *Session { return nil }

// Swap goes over to another session of the same cluster: running watches resume through it
// at their revision, other requests of the old one are finished.
func (a *Access) Swap(s *Session) {}

// Close ends the session in use and those that are being finished.
func (a *Access) Close() {}

// ServerVersion is what a server says of itself.
type ServerVersion struct {
	// Git is the full version, such as "v1.36.3".
	Git          string
	Major, Minor int
}

// AtLeast reports whether the server is of that minor version or newer. A
// version that could not be read is older than any.
func (v ServerVersion) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// String returns the full version.
func (v ServerVersion) String() string { return v.Git }
