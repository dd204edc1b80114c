// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// WrittenObject names what gives hand-written endpoints to a Service: a slice by
// its name, or the Endpoints, which have the Service's.
type WrittenObject struct {
	Service syncer.Key
	Slice   string // "" for the Endpoints
}

// WrittenReplacement is a complete list of one kind of hand-written endpoints that
// has been compared with what is held and not been applied. Absent objects can be
// kept like absent pods, each for itself: see PodReplacement. The store does not
// remember which are: whoever keeps them does.
type WrittenReplacement struct {
	// Absent are the objects that are held and not in the list, sorted; only those of
	// Services that are known whole, for nothing is served yet of others.
	Absent []AbsentWritten
	// Impact of removing all of them. An address that the other kind gives as well,
	// or another slice, is not lost.
	Impact Impact
	// First are the Services that are known whole with this list and were not before,
	// sorted.
	First []FirstWritten
	// Ready counts the ready addresses that the Services of the list would have.
	Ready int

	store    *Store
	rv       uint64
	services []syncer.Key
	slices   bool // not Endpoints
	put      writtenPut
}

// AbsentWritten is an object that a list does not show.
type AbsentWritten struct {
	WrittenObject
	// Replica is where the Service is placed.
	Replica syncer.Key
}

// FirstWritten is a Service whose hand-written endpoints have been read for the
// first time.
type FirstWritten struct {
	Service, Replica syncer.Key
	// Ready counts what the replica would have of this member.
	Ready int
}

// writtenPut makes a list the truth for one Service. It calls keep for each object
// that is held and not in the list.
type writtenPut func(service syncer.Key, w *handWritten, keep func(WrittenObject) bool)

// PlanReplaceEndpoints compares a complete list, read at revision rv (0: unknown),
// with what is held of the Endpoints of some Services; others in it are left out.
// No event of theirs may come between it and Apply.
func (s *Store) PlanReplaceEndpoints(services []syncer.Key, list []Versioned[Endpoints], rv uint64) *WrittenReplacement {
	listed := make(map[syncer.Key]*Versioned[Endpoints], len(list))
	for i := range list {
		listed[list[i].Object.Key] = &list[i]
	}
	r := &WrittenReplacement{store: s, rv: rv, services: services}
	r.put = func(service syncer.Key, w *handWritten, keep func(WrittenObject) bool) {
		v := listed[service]
		if v == nil && w.exists && keep(WrittenObject{Service: service}) {
			kept := w.endpoints
			kept.RV = min(kept.RV, rv)
			v = &kept
		}
		w.replaceEndpoints(v, rv)
	}
	r.compare()
	return r
}

// PlanReplaceSlices is PlanReplaceEndpoints for slices: none for a member whose API
// has none. A slice that is listed as another Service's is not absent: it has gone
// over.
func (s *Store) PlanReplaceSlices(services []syncer.Key, list []Versioned[Slice], rv uint64) *WrittenReplacement {
	listed, shown := map[syncer.Key]map[string]Versioned[Slice]{}, map[syncer.Key]bool{}
	for _, v := range list {
		service := v.Object.service()
		shown[v.Object.Key] = true
		if listed[service] == nil {
			listed[service] = map[string]Versioned[Slice]{}
		}
		listed[service][v.Object.Name] = v
	}
	r := &WrittenReplacement{store: s, rv: rv, services: services, slices: true}
	r.put = func(service syncer.Key, w *handWritten, keep func(WrittenObject) bool) {
		is := maps.Clone(listed[service])
		if is == nil {
			is = map[string]Versioned[Slice]{}
		}
		for name, v := range w.slices {
			if !shown[v.Object.Key] && !v.Object.Derived && keep(WrittenObject{service, name}) {
				v.RV = min(v.RV, rv)
				is[name] = v
			}
		}
		w.replaceSlices(is, rv)
	}
	r.compare()
	return r
}

// compare fills in what is to be judged.
func (r *WrittenReplacement) compare() {
	s := r.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	left, gone := map[*service]int{}, map[*service]int{}
	for _, key := range r.services {
		svc := s.service(key)
		if svc == nil || !svc.needsWritten() {
			continue
		}
		before, after, kept := handWritten{}, handWritten{}, handWritten{}
		if w := s.written[key]; w != nil {
			before, after, kept = *w, *w, *w
		}
		r.put(key, &after, func(o WrittenObject) bool {
			if before.known() {
				r.Absent = append(r.Absent, AbsentWritten{o, svc.replica})
			}
			return false
		})
		r.put(key, &kept, func(WrittenObject) bool { return true })
		ready, _ := after.count()
		with, _ := kept.count()
		left[svc] = ready
		r.Ready += ready
		switch {
		case before.known():
			gone[svc] = with - ready
		case after.known():
			r.First = append(r.First, FirstWritten{key, svc.replica, ready + s.readyBeside(svc)})
		}
	}
	slices.SortFunc(r.First, func(a, b FirstWritten) int { return a.Service.Compare(b.Service) })
	slices.SortFunc(r.Absent, func(a, b AbsentWritten) int {
		return cmp.Or(a.Service.Compare(b.Service), cmp.Compare(a.Slice, b.Slice))
	})
	if len(r.Absent) > 0 {
		r.Impact = s.writtenImpact(left, gone)
	}
}

// readyBeside counts the ready endpoints that other Services give to a replica.
func (s *Store) readyBeside(svc *service) (ready int) {
	for _, other := range s.replicas[svc.replica] {
		if other != svc {
			n, _ := s.endpoints(other)
			ready += n
		}
	}
	return ready
}

// About reports whether the list would show an object if it was there.
func (r *WrittenReplacement) About(o WrittenObject) bool {
	return r.slices == (o.Slice != "") && slices.Contains(r.services, o.Service)
}

// Apply makes the list the truth, whatever the revisions. keep says which absent
// objects stay, withhold which Services of First are to be read once more, in both
// kinds, before anything of them is used; nil is none.
func (r *WrittenReplacement) Apply(keep func(AbsentWritten) bool, withhold func(FirstWritten) bool) []Dirty {
	kept, withheld := map[WrittenObject]bool{}, map[syncer.Key]bool{}
	for _, a := range r.Absent {
		kept[a.WrittenObject] = keep != nil && keep(a)
	}
	for _, f := range r.First {
		withheld[f.Service] = withhold != nil && withhold(f)
	}
	var d dirtyList
	for _, key := range r.services {
		dirty := r.store.changeWritten(key, func(w *handWritten) bool {
			r.put(key, w, func(o WrittenObject) bool { return kept[o] })
			if withheld[key] {
				w.endpointsKnown, w.slicesKnown = false, false
			}
			return true
		})
		for _, one := range dirty {
			d.addPair(one.Replica, one.Source, one.Effect)
		}
	}
	return d.sorted()
}

// HasSlice reports whether a slice is held as a Service's.
func (s *Store) HasSlice(service syncer.Key, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := s.written[service]
	if w == nil {
		return false
	}
	_, ok := w.slices[name]
	return ok
}

// Refuse takes nothing of the list in: all stays as it is, and follows its events
// even if the list is one from the past.
func (r *WrittenReplacement) Refuse() {
	for _, key := range r.services {
		if r.slices {
			r.store.KeepSlices(key, r.rv)
		} else {
			r.store.KeepEndpoints(key, r.rv)
		}
	}
}

// BelieveWritten makes what was withheld of a Service the truth.
func (s *Store) BelieveWritten(service syncer.Key) []Dirty {
	return s.changeWritten(service, func(w *handWritten) bool {
		w.endpointsKnown, w.slicesKnown = true, true
		return true
	})
}
