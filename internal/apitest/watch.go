// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// FreezeWatches holds back all events of a resource until ThawWatches: a watch
// that lags behind the reads.
func (s *Server) FreezeWatches(resource string) { s.setFrozen(resource, true) }

// ThawWatches lets the held events of a resource go.
func (s *Server) ThawWatches(resource string) { s.setFrozen(resource, false) }

func (s *Server) setFrozen(resource string, frozen bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.tables[kindOf(resource)].frozen = frozen
	s.store.lockedAnnounce()
}

// stream is one open watch.
type stream struct {
	w       http.ResponseWriter
	flush   http.Flusher
	encoder *json.Encoder
	kind    *kind
	ns      string
	after   uint64
	selects func(Object) bool
}

func (s *stream) send(verb watch.EventType, object any) bool {
	if err := s.encoder.Encode(map[string]any{"type": verb, "object": object}); err != nil {
		return false
	}
	s.flush.Flush()
	return true
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, k *kind, req Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	st := &stream{w: w, flush: w.(http.Flusher), encoder: json.NewEncoder(w), kind: k, ns: req.Namespace, selects: selects(r)}
	st.flush.Flush()
	if s.begin(st, r) {
		s.follow(st, r)
	}
}

// begin sends the initial events and finds the revision to follow from.
func (s *Server) begin(st *stream, r *http.Request) bool {
	if st.after, _ = strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64); st.after != 0 {
		return true
	}
	items, rv := s.store.list(st.kind, st.ns)
	for _, obj := range items {
		if st.selects(obj) && !st.send(watch.Added, obj) {
			return false
		}
	}
	st.after = rv
	return true
}

// follow sends events until the client leaves or its time is over.
func (s *Server) follow(st *stream, r *http.Request) {
	var over <-chan time.Time
	if seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		over = timer.C
	}
	for {
		events, changed := s.store.since(st)
		for _, e := range events {
			if st.selects(e.object) && !st.send(e.kind, e.object) {
				return
			}
			st.after = e.rv
		}
		select {
		case <-changed:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// since returns what the stream has not sent yet, and the channel that closes
// at the next change.
func (s *store) since(st *stream) (events []event, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[st.kind]; !t.frozen {
		for _, e := range t.history {
			if e.rv > st.after && (st.ns == "" || e.object.GetNamespace() == st.ns) {
				events = append(events, e)
			}
		}
	}
	return events, s.changed
}
