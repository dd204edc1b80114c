// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"
	"maps"
	"net/netip"
	"strings"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

var errCut = errors.New("stream ended")

// words are the last that was said of each object: by an event, by itself in a list, or
// by the answer to a read. That a list lacks something says nothing.
type words struct {
	pods     map[string]*word[syncer.Pod] // by name
	services map[string]*word[syncer.Service]
	manuals  map[manualID]*word[[]int] // addresses
	// fed are the Services that were on record in a replica at the start.
	fed map[string]map[string]bool
	// lived are pods with an address that they were shown alive with, whenever.
	lived map[livedAt]bool
	// dead are UIDs that were answered to be gone.
	dead [kinds]map[string]bool
	// whole are the Services of which it was asked what is written for them, all of it.
	whole map[string]bool
	// read are those of which a list has spoken that was believed.
	read map[manualID]bool
	// doubted is until when lists of a kind are doubted, past the revision of that which
	// brought the doubt.
	doubted [kinds]time.Time
	past    [kinds]uint64
}

// word is what an object said last, or what was said of it.
type word[T any] struct {
	is   T
	gone bool
	rv   uint64
	// asked is true for an answer, which may come when nobody waits for it any more.
	asked bool
	// stale is true for a word of before the store went back. Its revision counts yet.
	stale bool
	// absent is set by a list that lacks a hand-written object of which nothing was known:
	// weak, but it is known then.
	absent bool
	// lost is true with absent where it was known before the store went back.
	lost bool
	// past is true for a word of a list from the past: what else was known then may be
	// forgotten by now.
	past bool
	// first is true for the first word of an object since the start.
	first bool
	// lacked is true once a list lacks it: whether its revision is known yet, nobody says.
	lacked bool
	// maybe is what a list in doubt showed of one that is lacked: it counts, or not.
	maybe *word[T]
}

type livedAt struct {
	uid  string
	addr netip.Addr
}

type manualID struct {
	service string
	slice   bool
}

func newWords() words {
	return words{pods: map[string]*word[syncer.Pod]{}, services: map[string]*word[syncer.Service]{}, manuals: map[manualID]*word[[]int]{},
		lived: map[livedAt]bool{}, fed: map[string]map[string]bool{}, whole: map[string]bool{}, read: map[manualID]bool{}}
}

// pod is the word of a pod that counts, nil if there is none.
func (w *words) pod(name string) *word[syncer.Pod] { return valid(w.pods[name]) }

func valid[T any](w *word[T]) *word[T] {
	if w == nil || w.stale {
		return nil
	}
	return w
}

// baseline notes which Services feed what stands.
func (w *words) baseline(sources map[string]map[string]bool) {
	w.fed = map[string]map[string]bool{}
	for replica, names := range sources {
		w.fed[replica] = maps.Clone(names)
	}
}

// took reports that what was said of a kind is of another past: who lived then may live
// again, and what fed a replica may feed it.
func (w *words) wentBack(kind Kind) {
	w.dead[kind] = nil
	switch kind {
	case Pods:
		for _, x := range w.pods {
			if !x.stale && !x.gone {
				w.lived[livedAt{x.is.UID, x.is.IPs[0].Addr}] = true
			}
			x.stale = true
		}
	case Services:
		for name, x := range w.services {
			if replica := replicaOf(name); w.fed[replica] == nil {
				w.fed[replica] = map[string]bool{name: true}
			} else {
				w.fed[replica][name] = true
			}
			x.stale = true
		}
	default:
		for id, x := range w.manuals {
			x.stale = x.stale || id.slice == (kind == Slices)
		}
	}
}

// listed hears the items of a list. Of one that is doubted only that counts which is
// later than what was known, or where nothing was, than the list that brought the doubt.
func listed[K comparable, T any](s *shell, kind Kind, known map[K]*word[T], older bool, revision uint64, items map[K]word[T]) {
	w := &s.words
	for id, item := range items {
		had := known[id]
		older = older || had != nil && !had.gone && item.rv < had.rv && had.rv <= revision
	}
	doubt := older || s.now.Before(w.doubted[kind])
	if older {
		w.wentBack(kind)
		w.doubted[kind], w.past[kind] = s.now.Add(s.cfg.ConfirmAfter), revision
	}
	if !doubt {
		w.doubted[kind] = time.Time{}
	}
	for id, had := range known {
		if _, shown := items[id]; !shown {
			if had.lacked = true; older {
				had.rv = 0
			}
		}
	}
	for id, item := range items {
		had := known[id]
		item.first = had == nil
		floor := w.past[kind]
		if had != nil && !had.gone && had.rv != 0 {
			floor = had.rv
		}
		switch {
		case !doubt:
			if had == nil || had.stale || item.rv >= had.rv {
				known[id] = &item
			}
		case item.rv > floor && had != nil && had.lacked:
			had.stale, had.maybe = true, &item
		case item.rv > floor:
			item.past = older
			known[id] = &item
		case older && had != nil:
			had.rv = min(had.rv, item.rv)
		}
	}
}

// said hears an event, or an answer: one that repeats what was said before the store
// went back is no news.
func said[K comparable, T any](known map[K]*word[T], id K, is word[T]) {
	is.first = known[id] == nil
	if had := known[id]; is.asked && had != nil && had.maybe != nil && is.rv <= had.maybe.rv {
		return
	}
	if had := known[id]; had == nil || is.rv > had.rv || is.rv == had.rv && !(is.asked && had.stale) {
		known[id] = &is
	}
}

func (w *words) hear(s *shell, e Event) {
	switch e := e.(type) {
	case Restored:
		for k := range kinds {
			w.wentBack(k)
		}
	case Release:
		if e.Replica == nil {
			w.doubted = [kinds]time.Time{}
		}
		for id, x := range w.manuals { // what an answer said of what goes by it counts no more
			if a := s.state.absent[objectOf(id.service, id.slice)]; a != nil && !a.since.IsZero() {
				x.lacked = true
			}
		}
	case Listed[syncer.Pod]:
		items := map[string]word[syncer.Pod]{}
		for _, v := range e.Items {
			items[v.Object.Name] = word[syncer.Pod]{is: v.Object, rv: v.RV, gone: v.Object.Terminal}
			w.lived[livedAt{v.Object.UID, v.Object.IPs[0].Addr}] = true
		}
		listed(s, Pods, w.pods, e.Older, e.Revision, items)
	case *Seen[syncer.Pod]:
		if w.dead[Pods][e.Object.UID] {
			return
		}
		said(w.pods, e.Object.Name, word[syncer.Pod]{is: e.Object, rv: e.RV, gone: e.Object.Terminal})
	case *Gone[syncer.Pod]:
		said(w.pods, e.Object.Name, word[syncer.Pod]{is: e.Object, rv: e.RV, gone: true})
	case Listed[syncer.Service]:
		items := map[string]word[syncer.Service]{}
		for _, v := range e.Items {
			items[v.Object.Name] = word[syncer.Service]{is: v.Object, rv: v.RV}
		}
		listed(s, Services, w.services, e.Older, e.Revision, items)
	case *Seen[syncer.Service]:
		if w.dead[Services][e.Object.UID] {
			return
		}
		said(w.services, e.Object.Name, word[syncer.Service]{is: e.Object, rv: e.RV})
	case *Gone[syncer.Service]:
		said(w.services, e.Object.Name, word[syncer.Service]{is: e.Object, rv: e.RV, gone: true})
	case Listed[store.Endpoints]:
		items := map[manualID]word[[]int]{}
		for _, v := range e.Items {
			if !s.hears(v.Object.Name) {
				continue
			}
			items[manualID{v.Object.Name, false}] = word[[]int]{is: ipsOf(v.Object), rv: v.RV}
		}
		w.listedManual(s, Endpoints, e.Older, e.Revision, items, e.Services)
	case Listed[store.Slice]:
		items := map[manualID]word[[]int]{}
		for _, v := range e.Items {
			if !s.hears(v.Object.Service) {
				continue
			}
			items[manualID{v.Object.Service, true}] = word[[]int]{is: sliceIPs(v.Object), rv: v.RV}
		}
		w.listedManual(s, Slices, e.Older, e.Revision, items, e.Services)
	case *Seen[store.Endpoints]:
		if w.dead[Endpoints][e.Object.UID] {
			return
		}
		s.saidManual(manualID{e.Object.Name, false}, word[[]int]{is: ipsOf(e.Object), rv: e.RV})
	case *Seen[store.Slice]:
		if w.dead[Slices][e.Object.UID] {
			return
		}
		s.saidManual(manualID{e.Object.Service, true}, word[[]int]{is: sliceIPs(e.Object), rv: e.RV})
	case *Gone[store.Endpoints]:
		s.saidManual(manualID{e.Object.Name, false}, word[[]int]{gone: true, rv: e.RV})
	case *Gone[store.Slice]:
		s.saidManual(manualID{e.Object.Service, true}, word[[]int]{gone: true, rv: e.RV})
	case Answer:
		if e.Epoch != s.state.quarantine.epochs[e.Kind] {
			return // of before the store went back
		}
		if s.unnoticed && e.Kind == Manual {
			return // its objects may be older than what is known, and nobody knows why
		}
		if e.Outcome != NotFound || e.UID != "" || s.state.absent[object{e.Kind, e.Key}] != nil { // else it was shown since
			w.answered(s, e)
		}
	}
}

// hears reports whether what is written by hand for a Service counts.
func (s *shell) hears(service string) bool {
	return s.heardOf[syncer.Key{Namespace: namespace, Name: service}] > 0
}

func (s *shell) saidManual(id manualID, is word[[]int]) {
	if s.hears(id.service) {
		said(s.words.manuals, id, is)
	}
}

// forgetManual forgets what was written by hand for Services that do not need it, or did
// not for a while: nobody looked at it.
func (w *words) forgetManual(before, now map[syncer.Key]uint64) {
	for key, n := range before {
		if now[key] != n {
			for _, slice := range []bool{false, true} {
				delete(w.manuals, manualID{key.Name, slice})
				delete(w.read, manualID{key.Name, slice})
			}
			delete(w.whole, key.Name)
		}
	}
}

func (w *words) listedManual(s *shell, kind Kind, older bool, revision uint64, items map[manualID]word[[]int], services []syncer.Key) {
	known := map[manualID]*word[[]int]{}
	for id, x := range w.manuals {
		if id.slice == (kind == Slices) {
			known[id] = x
		}
	}
	listed(s, kind, known, older, revision, items)
	maps.Copy(w.manuals, known)
	if !w.doubted[kind].IsZero() {
		return
	}
	for _, key := range services {
		if !s.hears(key.Name) {
			continue
		}
		w.read[manualID{key.Name, kind == Slices}] = true
		if id := (manualID{key.Name, kind == Slices}); valid(w.manuals[id]) == nil {
			w.manuals[id] = &word[[]int]{absent: true, lost: w.manuals[id] != nil}
		}
	}
}

func (w *words) answered(s *shell, a Answer) {
	if a.Kind == Manual && (a.Outcome == There || a.Outcome == NotFound) {
		w.whole[a.Key.Name] = true
	}
	switch a.Outcome {
	case There:
		if a.Kind < kinds && !w.doubted[a.Kind].IsZero() && revisionOf(a) <= w.past[a.Kind] {
			return // of a store that went back
		}
		switch v := a.Object.(type) {
		case podVersion:
			w.lived[livedAt{v.Object.UID, v.Object.IPs[0].Addr}] = true
			said(w.pods, v.Object.Name, word[syncer.Pod]{is: v.Object, gone: v.Object.Terminal, rv: v.RV, asked: true})
		case serviceVersion:
			said(w.services, v.Object.Name, word[syncer.Service]{is: v.Object, rv: v.RV, asked: true})
		case endpointsVersion:
			said(w.manuals, manualID{v.Object.Name, false}, word[[]int]{is: ipsOf(v.Object), rv: v.RV, asked: true})
		case sliceVersion:
			said(w.manuals, manualID{v.Object.Service, true}, word[[]int]{is: sliceIPs(v.Object), rv: v.RV, asked: true})
		case Written:
			w.nothingWritten(s, a)
			if v.Endpoints != nil {
				said(w.manuals, manualID{a.Key.Name, false}, word[[]int]{is: ipsOf(v.Endpoints.Object), rv: v.Endpoints.RV, asked: true})
			}
			for _, slice := range v.Slices {
				said(w.manuals, manualID{a.Key.Name, true}, word[[]int]{is: sliceIPs(slice.Object), rv: slice.RV, asked: true})
			}
		}
	case NotFound:
		if a.Kind < kinds && a.UID != "" && !s.state.lost(a.Kind, a.Key.Namespace) {
			if w.dead[a.Kind] == nil {
				w.dead[a.Kind] = map[string]bool{}
			}
			w.dead[a.Kind][a.UID] = true
		}
		switch a.Kind {
		case Pods:
			if x := w.pods[a.Key.Name]; x == nil || x.is.UID == a.UID {
				notFound(w.pods, a.Key.Name)
			}
		case Services:
			if x := w.services[a.Key.Name]; x == nil || x.is.UID == a.UID {
				notFound(w.services, a.Key.Name)
			}
		case Endpoints:
			notFound(w.manuals, manualID{a.Key.Name, false})
		case Slices:
			notFound(w.manuals, manualID{strings.TrimSuffix(a.Key.Name, "-1"), true})
		case Manual:
			w.nothingWritten(s, a)
		}
	}
}

// nothingWritten hears that nothing is written by hand for a Service. Of what was lost with
// a store that went back that says nothing, nor of what was said later.
func (w *words) nothingWritten(s *shell, answer Answer) {
	service := answer.Key.Name
	for _, slice := range []bool{false, true} {
		if x := w.manuals[manualID{service, slice}]; x != nil && x.rv > answer.Revision {
			continue
		}
		if a := s.state.absent[objectOf(service, slice)]; a != nil && a.past {
			continue // the store that answers has lost it, perhaps
		}
		if id := (manualID{service, slice}); w.manuals[id] == nil || !w.manuals[id].stale && !w.manuals[id].lost {
			notFound(w.manuals, id)
		}
	}
}

func objectOf(service string, slice bool) object {
	if slice {
		return object{Slices, syncer.Key{Namespace: namespace, Name: service + "-1"}}
	}
	return object{Endpoints, syncer.Key{Namespace: namespace, Name: service}}
}

func notFound[K comparable, T any](known map[K]*word[T], id K) {
	if known[id] == nil {
		known[id] = &word[T]{}
	}
	known[id].gone, known[id].absent, known[id].is = true, false, *new(T)
}

func ipsOf(e store.Endpoints) (ips []int) {
	for _, s := range e.Subsets {
		for _, a := range s.Ready {
			b := a.Addr.As4()
			ips = append(ips, int(b[2])<<8|int(b[3]))
		}
	}
	return ips
}

func sliceIPs(s store.Slice) (ips []int) {
	for _, e := range s.Content.Endpoints {
		b := e.Addr.As4()
		ips = append(ips, int(b[2])<<8|int(b[3]))
	}
	return ips
}

// readWhole reports whether lists of both kinds of what is written by hand for a Service
// were believed.
func (w *words) readWhole(service string) bool {
	return w.read[manualID{service, false}] && w.read[manualID{service, true}]
}

// manualKnown reports whether all was heard that is written by hand for a Service.
func (w *words) manualKnown(service string) bool {
	for _, id := range []manualID{{service, false}, {service, true}} {
		if valid(w.manuals[id]) == nil || !w.read[id] {
			return false
		}
	}
	return true
}
