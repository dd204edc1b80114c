// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// FreezeWatches holds back all events of a resource until ThawWatches: a watch
// that lags behind the reads.
func (s *Server) FreezeWatches(resource string) { s.setFrozen(resource, true) }

// ThawWatches lets the held events of a resource go.
func (s *Server) ThawWatches(resource string) { s.setFrozen(resource, false) }

// FreezeStreams holds back for ever what the watches would bring that are open now, as a
// proxy does that lost its other end. Others are as ever.
func (s *Server) FreezeStreams() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.lost = s.store.opened
}

func (s *Server) setFrozen(resource string, frozen bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.tables[kindOf(resource)].frozen = frozen
	s.store.lockedAnnounce()
}

// DropWatches ends every open watch, as a restarting server does.
func (s *Server) DropWatches() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.dropped++
	s.store.lockedAnnounce()
}

// Expire makes watches of a resource from any revision so far answer 410.
func (s *Server) Expire(resource string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	t := s.store.tables[kindOf(resource)]
	t.history, t.expired = nil, s.store.rv
}

// stream is one open watch.
type stream struct {
	w       http.ResponseWriter
	flush   http.Flusher
	encoder *json.Encoder
	kind    *kind
	ns      string
	after   uint64
	number  int
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
	_, rv := s.store.list(k, req.Namespace)
	err := tooLarge(r, rv)
	if s.noStreams.Load() && r.URL.Query().Get("sendInitialEvents") != "" {
		err = apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")})
	}
	if err != nil {
		answer, code := failure(err)
		respond(w, answer, code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	st := &stream{w: w, flush: w.(http.Flusher), encoder: json.NewEncoder(w), kind: k, ns: req.Namespace, selects: selects(r)}
	st.flush.Flush()
	if !s.begin(st, r) {
		return
	}
	s.follow(st, r)
}

// begin sends the initial events and finds the revision to follow from.
func (s *Server) begin(st *stream, r *http.Request) bool {
	query := r.URL.Query()
	asked, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	initial := query.Get("sendInitialEvents") == "true"
	if asked != 0 && !initial {
		st.after = asked
		return true
	}
	items, rv := s.store.list(st.kind, st.ns)
	for _, obj := range items {
		if st.selects(obj) && !st.send(watch.Added, obj) {
			return false
		}
	}
	st.after = rv
	if !initial {
		return true
	}
	end := st.kind.empty()
	end.GetObjectKind().SetGroupVersionKind(st.kind.GroupVersionKind)
	end.SetResourceVersion(strconv.FormatUint(rv, 10))
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return st.send(watch.Bookmark, end)
}

// follow sends events until the client leaves, its time is over or the watch is dropped.
func (s *Server) follow(st *stream, r *http.Request) {
	var over <-chan time.Time
	if seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		over = timer.C
	}
	s.store.mu.Lock()
	dropped := s.store.dropped
	s.store.opened++
	st.number = s.store.opened
	s.store.mu.Unlock()
	for {
		events, changed, expired, ended := s.store.since(st, dropped)
		switch {
		case ended:
			return
		case expired:
			status := apierrors.NewResourceExpired("too old resource version").Status()
			st.send(watch.Error, &status)
			return
		}
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
func (s *store) since(st *stream, dropped int) (events []event, changed chan struct{}, expired, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[st.kind]
	switch {
	case s.dropped != dropped:
		return nil, nil, false, true
	case st.after < t.expired:
		return nil, nil, true, false
	case t.frozen, st.number <= s.lost:
		return nil, s.changed, false, false
	}
	for _, e := range t.history {
		if e.rv > st.after && (st.ns == "" || e.object.GetNamespace() == st.ns) {
			events = append(events, e)
		}
	}
	return events, s.changed, false, false
}
