// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"tributary.dev/tributary/syncer"
)

// Placement says which replica a Service of the member contributes to; ok is
// false for a Service that is not replicated. It must be pure: a function of the
// Service alone that does not call the Store. Services of type ExternalName are
// not replicated whatever it says.
type Placement func(svc *syncer.Service) (replica syncer.Key, ok bool)

// Options configure a Store.
type Options struct {
	// Placement is required.
	Placement Placement
	// Rules are the member's settings for the computation. Zone is ignored: the
	// store answers from the Nodes it was told of.
	Rules syncer.Options
}

// Store is what is known of one member: Pods, Services, hand-written endpoints
// and the zones of Nodes. All methods are safe for concurrent use; changes of
// one kind must come in the order of their stream.
//
// A lock is never held while a function of the caller runs or a contribution is
// computed, so a watch never waits for a Service of 5,000 pods. Values that were
// handed out are never changed; an update replaces them.
type Store struct {
	// placing serialises whatever calls Placement, which happens before mu is
	// taken. Guards placement.
	placing   sync.Mutex
	placement Placement

	mu    sync.RWMutex // guards all below
	rules syncer.Options
	seed  maphash.Seed

	namespaces map[string]*namespace
	replicas   map[syncer.Key][]*service // never an empty list
	written    map[syncer.Key]*handWritten
	nodes      map[string]*node
	// zones is the part of nodes that computations read without the lock: it is
	// replaced, never changed.
	zones   map[string]string
	strings sharedStrings
	ports   sharedPorts

	podSequence, serviceSequence sequence
	count                        counts
}

// counts are kept by the changes, so that reading them costs nothing.
type counts struct {
	pods, services, placed         int
	heldPods, heldServices         int
	outdatedPods, outdatedServices uint64
}

// New returns an empty Store.
func New(opts Options) *Store {
	return &Store{
		placement:  opts.Placement,
		rules:      opts.Rules,
		seed:       maphash.MakeSeed(),
		namespaces: map[string]*namespace{},
		replicas:   map[syncer.Key][]*service{},
		written:    map[syncer.Key]*handWritten{},
		nodes:      map[string]*node{},
		strings:    sharedStrings{},
		ports:      sharedPorts{},
	}
}

// SetRules replaces the settings of the computation and returns every placed
// Service: announce them in bulk.
func (s *Store) SetRules(rules syncer.Options) []Dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
	var d dirtyList
	for _, services := range s.replicas {
		for _, svc := range services {
			d.add(svc, syncer.Addition)
		}
	}
	return d.sorted()
}

// Replicas returns the replicas that this member contributes to, sorted.
func (s *Store) Replicas() []syncer.Key {
	s.mu.RLock()
	keys := slices.Collect(maps.Keys(s.replicas))
	s.mu.RUnlock()
	slices.SortFunc(keys, syncer.Key.Compare) // events need not wait for this
	return keys
}

// Sources returns the Services of this member that contribute to a replica,
// sorted.
func (s *Store) Sources(replica syncer.Key) []syncer.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []syncer.Key
	for _, svc := range s.replicas[replica] {
		keys = append(keys, svc.current.Key)
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	return keys
}

// Pod returns a pod as it is held, or nil.
func (s *Store) Pod(key syncer.Key) *syncer.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if rec := s.record(key); rec != nil {
		return &rec.Pod
	}
	return nil
}

// Service returns a Service as it is held, or nil.
func (s *Store) Service(key syncer.Key) *syncer.Service {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if svc := s.service(key); svc != nil {
		return svc.current
	}
	return nil
}

// Pods returns all pods at this moment, in no order.
func (s *Store) Pods() []*syncer.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pods := make([]*syncer.Pod, 0, s.count.pods)
	for _, ns := range s.namespaces {
		for _, rec := range ns.pods {
			pods = append(pods, &rec.Pod)
		}
	}
	return pods
}

// ReplicasOf returns the replicas that a pod may be an endpoint of, sorted.
func (s *Store) ReplicasOf(pod syncer.Key) []syncer.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	rec := s.record(pod)
	if rec == nil {
		return nil
	}
	var keys []syncer.Key
	for _, svc := range rec.group.services {
		keys = append(keys, svc.replica)
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	return slices.Compact(keys)
}

func (s *Store) record(key syncer.Key) *record {
	if ns := s.namespaces[key.Namespace]; ns != nil {
		return ns.pods[key.Name]
	}
	return nil
}

func (s *Store) service(key syncer.Key) *service {
	if ns := s.namespaces[key.Namespace]; ns != nil {
		return ns.services[key.Name]
	}
	return nil
}
