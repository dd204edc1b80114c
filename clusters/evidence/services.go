// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

type serviceVersion = store.Versioned[syncer.Service]

// services is the table of Services.
type services struct{ plain[syncer.Service] }

func (services) kind() Kind                   { return Services }
func (services) id(o *syncer.Service) object  { return object{Services, o.Key} }
func (services) uid(o *syncer.Service) string { return o.UID }
func (services) begin(s *State, rv uint64, older bool) {
	s.store.BeginServices(rv, older, s.leftOut.names(Services)...)
}
func (services) outdated(s *State, v serviceVersion) bool { return s.store.ServiceOutdated(v) }

func (services) listed(s *State, v serviceVersion) bool {
	return s.store.ListsService(v.Object.Namespace, v.RV)
}

func (services) revision(s *State, o *syncer.Service) (uint64, bool) {
	return s.store.ServiceRevision(o.Key)
}

func (services) mark(s *State, o *syncer.Service, rv uint64, older bool) {
	s.store.MarkService(o.Key, rv, older)
}

func (services) room(s *State, o *syncer.Service) bool {
	_, n := s.store.Shown()
	return s.store.Service(o.Key) != nil || !s.full(Services, n)
}

func (services) cause(o *syncer.Service, rv uint64, event string) Cause {
	return objectCause("Service", o.Key, o.UID, rv, event)
}

func (t services) hear(s *State, now time.Time, v serviceVersion, _ *Effects) []store.Dirty {
	return t.put(s, now, v)
}

func (services) put(s *State, now time.Time, v serviceVersion) []store.Dirty {
	key := v.Object.Key
	was := s.store.Service(key)
	isNew := was == nil
	if isNew {
		s.noteUnread(&v.Object)
	}
	former, replicated := s.store.Placed(key)
	published := s.store.Publishes(key)
	var dirty []store.Dirty
	if keeps := s.keepsSelector(&v.Object); s.selectors[key] || !isNew && !sameSelector(was.Selector, v.Object.Selector) {
		dirty = s.reselects(now, key, func() []store.Dirty { return s.setSelector(v, keeps) })
	} else {
		dirty = s.store.SetService(v)
	}
	replica, placed := s.store.Placed(key)
	if !isNew && replica != former {
		s.moved(&former)
	}
	s.noteWithdrawn(now, key, replicated, published)
	switch held := s.ruling.held[replica]; {
	case !placed || !isNew:
	case held != nil:
		dirty = append(dirty, s.store.HoldNew(key, held.names())...)
	default: // what stands of it is judged by the rules, as at the start
		waits := s.store.DeferRules(key, func(p *syncer.Pod) bool { return s.standsReady(p, replica) })
		s.ruling.met, dirty = s.ruling.met || len(waits) > 0, append(dirty, waits...)
	}
	return merged(dirty)
}

// sameSelector tells nil, which selects nothing, from empty, which selects all.
func sameSelector(a, b map[string]string) bool { return (a == nil) == (b == nil) && maps.Equal(a, b) }

// reselects makes a change after which a Service may select other pods than before, and
// remembers which leave it by that.
func (s *State) reselects(now time.Time, service syncer.Key, change func() []store.Dirty) []store.Dirty {
	replica, _ := s.store.Placed(service)
	before := s.had(replica, Pods, s.store.ReadyEndpoints(replica))
	var selected []*syncer.Pod
	if pods, effective := s.store.Selected(service); effective != nil {
		selected = slices.Collect(pods)
	}
	dirty := change()
	for _, p := range selected {
		s.noteLeft(now, p, []syncer.Key{service})
	}
	return append(dirty, s.keepSelected(now, service, before)...)
}

func (services) met(s *State, now time.Time, o *syncer.Service, out *Effects) {
	s.sure(now, o.Key)
	s.recallService(now, o.Key)
	if s.ruling.met {
		s.enforce(now, out)
	}
	s.serviceShown(now, o.Key, out)
}

func (services) remove(s *State, now time.Time, v serviceVersion) []store.Dirty {
	s.departures.note(now, Departed{Key: v.Object.Key})
	return s.store.DeleteService(v)
}

func (services) missed(s *State, o *syncer.Service, known bool, cause Cause, out *Effects) {
	if !known || len(s.baseline.fedBy(o.Key)) > 0 {
		s.baselineSourceGone(o.Key, cause, out)
	}
}

func (t services) lacking(s *State, ns string, rv uint64, older bool, yield func(lost)) int {
	return s.store.LackingServices(ns, rv, older, func(o *syncer.Service) { yield(t.lost(s, o)) })
}

func (services) lost(s *State, o *syncer.Service) lost {
	return lost{id: object{Services, o.Key}, uid: o.UID, replicas: s.replicaOf(o.Key)}
}

// replicaOf is where a Service is placed, if it is.
func (s *State) replicaOf(service syncer.Key) []syncer.Key {
	if replica, placed := s.store.Placed(service); placed {
		return []syncer.Key{replica}
	}
	return nil
}

func (services) ended(s *State, now time.Time, _ map[syncer.Key]int, out *Effects) {
	s.markListed(now, Services, out)
}
