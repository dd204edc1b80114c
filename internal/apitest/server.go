// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/internal/memnet"
)

// Server is the API server. All methods are safe for concurrent use.
type Server struct {
	http *httptest.Server
	// memory is how the server is reached instead of over the network; nil: it is not.
	memory *memnet.Listener

	mu        sync.Mutex
	model     *model.Server
	changed   chan struct{}       // closed and replaced at every change
	frozen    map[model.Kind]bool // whose watches lag behind
	intercept func(Request) *Fault
	writes    []Write
	allow     func(Request) bool
}

// Request is one call as a fault decides about it.
type Request struct {
	// Verb is get, list, watch, create, update, patch or delete, or ask (which changes
	// nothing).
	Verb string
	// Resource is "version" for a question about the server's version,
	// "selfsubjectaccessreviews" for one about the client's rights.
	Resource  string
	Namespace string
	Name      string
	UserAgent string

	kind model.Kind // "" of those two
}

// Fault is what happens to a request instead of an answer.
type Fault struct {
	// Status answers with this code without doing anything; 0: no answer.
	Status int
	// RetryAfter is the header's value in seconds; 0: no header.
	RetryAfter int
	// Do makes the server carry the request out before Cut.
	Do bool
	// Cut closes the connection without an answer.
	Cut bool
	// Hang sends no answer until the client gives up.
	Hang bool
}

// Write is one call that asked for a change, in the order of arrival of the
// answers.
type Write struct {
	Request
	// Code is the HTTP status of the answer; 0 when the connection was cut.
	Code int
}

// String renders a write as tests compare it: "create services shop/web 201".
func (w Write) String() string {
	return w.Verb + " " + w.Resource + " " + w.path() + " " + strconv.Itoa(w.Code)
}

func (w Write) path() string {
	if w.Namespace == "" {
		return w.Name
	}
	return w.Namespace + "/" + w.Name
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := newServer()
	s.http = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func newServer() *Server {
	s := &Server{model: model.NewServer(0, time.Now), changed: make(chan struct{}), frozen: map[model.Kind]bool{}}
	s.model.PageSize = 1 << 30
	s.model.Changed = func(model.Change) { s.lockedAnnounce() }
	return s
}

// NewInMemory starts a server that is reached over memory alone, so that a synctest
// bubble can hold both ends: start it there.
func NewInMemory(t testing.TB) *Server {
	t.Helper()
	s := newServer()
	s.memory = memnet.New()
	s.http = &httptest.Server{Listener: s.memory, Config: &http.Server{Handler: s}}
	s.http.Start()
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and every open watch. A second call does nothing.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Config is a client configuration without a client-side limit; typed clients send
// protobuf unless told otherwise.
func (s *Server) Config(userAgent string) *rest.Config {
	c := &rest.Config{Host: s.http.URL, UserAgent: userAgent, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	if s.memory != nil {
		c.Dial = s.memory.Dial
		c.Transport = &http.Transport{DialContext: s.memory.Dial} // client-go caches those that it makes
	}
	return c
}

// Client is a client of its own for the given user agent.
func (s *Server) Client(t testing.TB, userAgent string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config(userAgent))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Intercept sets the function that decides about faults; nil: none. It is
// called before the request is carried out and may block.
func (s *Server) Intercept(f func(Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// Allow sets the function that decides what clients may do; nil: all. It is asked before
// Intercept, and answers questions about rights; the user agent of these is that of the asker.
func (s *Server) Allow(f func(Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allow = f
}

func (s *Server) allowed(req Request) bool {
	s.mu.Lock()
	allow := s.allow
	s.mu.Unlock()
	return allow == nil || allow(req)
}

// Writes returns what a user agent wrote since the last ForgetWrites.
func (s *Server) Writes(userAgent string) []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Write
	for _, w := range s.writes {
		if w.UserAgent == userAgent {
			out = append(out, w)
		}
	}
	return out
}

// ForgetWrites empties the record of writes.
func (s *Server) ForgetWrites() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = nil
}
