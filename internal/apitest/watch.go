// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/internal/apitest/model"
)

// FreezeWatches holds back all events of a resource until ThawWatches: a watch
// that lags behind the reads.
func (s *Server) FreezeWatches(resource string) { s.setFrozen(model.Kind(resource), true) }

// ThawWatches sends the events of a resource that FreezeWatches held back.
func (s *Server) ThawWatches(resource string) { s.setFrozen(model.Kind(resource), false) }

func (s *Server) setFrozen(kind model.Kind, frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen[kind] = frozen
	s.lockedAnnounce()
}

// watch sends events until the client leaves or its time is over; without a revision it begins with
// the objects that exist.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, q model.Query) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	var over <-chan time.Time
	if seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		over = timer.C
	}
	s.mu.Lock()
	var events []model.Event // that were not sent yet, under the lock
	from, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	if from == 0 {
		page, _, _ := s.model.List(q, 0, nil)
		for _, o := range page.Items {
			events = append(events, model.Event{Type: watch.Added, Object: o})
		}
		from = page.Revision
	}
	stream := s.model.Watch(q, from, func(e model.Event) { events = append(events, e) })
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		stream.End(nil)
	}()
	for encoder := json.NewEncoder(w); ; {
		s.mu.Lock()
		changed, send := s.changed, []model.Event{}
		if !s.frozen[q.Kind] {
			send, events = events, nil
		}
		s.mu.Unlock()
		for _, e := range send {
			if encoder.Encode(map[string]any{"type": e.Type, "object": typed(e.Object)}) != nil {
				return // the client left
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}
