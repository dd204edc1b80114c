// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

var errCut = errors.New("stream ended")

// words are the last that was said of each object: by an event, by itself in a list, or
// by the answer to a read. That a list lacks something says nothing.
type words struct {
	pods     map[string]podWord // by name
	services map[string]serviceWord
	manuals  map[manualID]manualWord
	// fed are the Services that were on record in a replica at the start.
	fed map[string]map[string]bool
	// lived are the addresses of pods that lived before the store went back.
	lived map[string]netip.Addr
	// byHand are the Services without selector, as they were shown last, doubted or not.
	byHand map[string]bool
}

type podWord struct {
	pod  syncer.Pod
	gone bool
	rv   uint64
	// asked is true for an answer, which may come when nobody waits for it any more.
	asked bool
}

type serviceWord struct {
	service syncer.Service
	gone    bool
	rv      uint64
}

type manualID struct {
	service string
	slice   bool
}

// manualWord is known once a list or an event spoke of the Service's object.
type manualWord struct {
	ips  []int
	gone bool
	rv   uint64
	// absent is set by a list that lacks the object: weak, but it is known then.
	absent bool
}

func newWords() words {
	return words{pods: map[string]podWord{}, services: map[string]serviceWord{}, manuals: map[manualID]manualWord{}, lived: map[string]netip.Addr{}, fed: map[string]map[string]bool{}, byHand: map[string]bool{}}
}

// forget takes back all words: the store went back in time. Who lived then may live
// again, and what fed a replica may feed it.
func (w *words) forget() {
	old := *w
	*w = newWords()
	w.fed, w.lived, w.byHand = old.fed, old.lived, old.byHand
	for name := range old.services {
		if w.fed[replicaOf(name)] == nil {
			w.fed[replicaOf(name)] = map[string]bool{}
		}
		w.fed[replicaOf(name)][name] = true
	}
	for _, word := range old.pods {
		if !word.gone {
			w.lived[word.pod.UID] = word.pod.IPs[0].Addr
		}
	}
}

// baseline notes which Services feed what stands.
func (w *words) baseline(sources map[string]map[string]bool) {
	w.fed = map[string]map[string]bool{}
	for replica, names := range sources {
		w.fed[replica] = maps.Clone(names)
	}
}

func (w *words) hear(s *shell, e Event) {
	was := maps.Clone(w.byHand)
	switch e := e.(type) {
	case Listed[syncer.Service]:
		clear(w.byHand)
		for _, v := range e.Items {
			w.byHand[v.Object.Name] = v.Object.Selector == nil
		}
	case Seen[syncer.Service]:
		w.byHand[e.Object.Name] = e.Object.Selector == nil
	case Gone[syncer.Service]:
		delete(w.byHand, e.Object.Name)
	}
	for name, is := range w.byHand {
		if is && !was[name] { // a list must speak of it
			s.watches[Endpoints].want, s.watches[Slices].want = true, true
		}
	}
	switch e := e.(type) {
	case Restored:
		w.forget()
		return
	case Listed[syncer.Pod]:
		if e.Older {
			w.forget()
			return
		}
	case Listed[syncer.Service]:
		if e.Older {
			w.forget()
			return
		}
	case Listed[store.Endpoints]:
		if e.Older {
			w.forget()
			return
		}
	case Listed[store.Slice]:
		if e.Older {
			w.forget()
			return
		}
	}
	switch e := e.(type) {
	case Listed[syncer.Pod]:
		for _, v := range e.Items {
			if s.quarantined() {
				v.Object.Labels = nil // of a list in doubt only what takes away counts
			}
			w.podSays(v)
		}
	case Seen[syncer.Pod]:
		w.podSays(e.Versioned)
	case Gone[syncer.Pod]:
		if known := w.pods[e.Object.Name]; e.RV >= known.rv {
			w.pods[e.Object.Name] = podWord{pod: e.Object, gone: true, rv: e.RV}
		}
	case Listed[syncer.Service]:
		for _, v := range e.Items {
			w.serviceSays(v)
		}
	case Seen[syncer.Service]:
		w.serviceSays(e.Versioned)
	case Gone[syncer.Service]:
		if known := w.services[e.Object.Name]; e.RV >= known.rv {
			w.services[e.Object.Name] = serviceWord{e.Object, true, e.RV}
		}
	case Listed[store.Endpoints]:
		if s.quarantined() {
			return
		}
		for _, key := range e.Services {
			id := manualID{key.Name, false}
			if known, ok := w.manuals[id]; !ok {
				w.manuals[id] = manualWord{absent: true, rv: known.rv}
			}
		}
		for _, v := range e.Items {
			w.manualSays(manualID{v.Object.Name, false}, ipsOf(v.Object), v.RV)
		}
	case Listed[store.Slice]:
		if s.quarantined() {
			return
		}
		for _, key := range e.Services {
			id := manualID{key.Name, true}
			if known, ok := w.manuals[id]; !ok {
				w.manuals[id] = manualWord{absent: true, rv: known.rv}
			}
		}
		for _, v := range e.Items {
			w.manualSays(manualID{v.Object.Service, true}, sliceIPs(v.Object), v.RV)
		}
	case Seen[store.Endpoints]:
		w.manualSays(manualID{e.Object.Name, false}, ipsOf(e.Object), e.RV)
	case Seen[store.Slice]:
		w.manualSays(manualID{e.Object.Service, true}, sliceIPs(e.Object), e.RV)
	case Gone[store.Endpoints]:
		w.manuals[manualID{e.Object.Name, false}] = manualWord{gone: true, rv: e.RV}
	case Gone[store.Slice]:
		w.manuals[manualID{e.Object.Service, true}] = manualWord{gone: true, rv: e.RV}
	case Answer:
		w.answered(e)
	}
}

func (w *words) answered(a Answer) {
	switch {
	case a.Outcome == There:
		switch v := a.Object.(type) {
		case store.Versioned[syncer.Pod]:
			w.pods[v.Object.Name] = podWord{pod: v.Object, gone: v.Object.Terminal, rv: v.RV, asked: true}
		case store.Versioned[syncer.Service]:
			w.services[v.Object.Name] = serviceWord{v.Object, false, v.RV}
		case store.Versioned[store.Endpoints]:
			w.manualSays(manualID{v.Object.Name, false}, ipsOf(v.Object), v.RV)
		case store.Versioned[store.Slice]:
			w.manualSays(manualID{v.Object.Service, true}, sliceIPs(v.Object), v.RV)
		}
	case a.Outcome == NotFound && a.Kind == Pods:
		word := w.pods[a.Key.Name]
		word.gone = true
		w.pods[a.Key.Name] = word
	case a.Outcome == NotFound && a.Kind == Services:
		word := w.services[a.Key.Name]
		word.gone = true
		w.services[a.Key.Name] = word
	case a.Outcome == NotFound && a.Kind == Endpoints:
		w.manuals[manualID{a.Key.Name, false}] = manualWord{gone: true}
	case a.Outcome == NotFound && a.Kind == Slices:
		name := a.Key.Name[:len(a.Key.Name)-len("-1")]
		w.manuals[manualID{name, true}] = manualWord{gone: true}
	}
}

func (w *words) podSays(v store.Versioned[syncer.Pod]) {
	if known := w.pods[v.Object.Name]; v.RV >= known.rv {
		w.pods[v.Object.Name] = podWord{pod: v.Object, gone: v.Object.Terminal, rv: v.RV}
	}
}

func (w *words) serviceSays(v store.Versioned[syncer.Service]) {
	if known := w.services[v.Object.Name]; v.RV >= known.rv {
		w.services[v.Object.Name] = serviceWord{v.Object, false, v.RV}
	}
}

func (w *words) manualSays(id manualID, ips []int, rv uint64) {
	if known := w.manuals[id]; rv >= known.rv {
		w.manuals[id] = manualWord{ips: ips, rv: rv}
	}
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

// manualServices are the Services whose hand-written endpoints are followed.
func (w *words) manualServices() (keys []syncer.Key) {
	for _, name := range slices.Sorted(maps.Keys(w.byHand)) {
		if w.byHand[name] {
			keys = append(keys, syncer.Key{Namespace: namespace, Name: name})
		}
	}
	return keys
}

// manualKnown reports whether all was heard that is written by hand for a Service.
func (w *words) manualKnown(service string) bool {
	_, a := w.manuals[manualID{service, false}]
	_, b := w.manuals[manualID{service, true}]
	return a && b
}
