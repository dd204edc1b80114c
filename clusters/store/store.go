// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"

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
// and the zones of Nodes. It has no lock: many may read at once, while nobody
// changes anything. Changes of one kind come in the order of their stream.
//
// Values that were handed out are never changed; an update replaces them. So what
// Inputs returns may be computed while the Store goes on.
type Store struct {
	placement Placement
	options   syncer.Options
	seed      maphash.Seed

	namespaces map[string]*namespace
	replicas   map[syncer.Key][]*service // never an empty list
	// manual has the placed Services without selector; manualEdits counts the changes
	// of the set.
	manual      map[syncer.Key]*manual
	manualEdits uint64
	// owners are the Services that slices were last seen to belong to: the label that
	// says so can be changed.
	owners map[syncer.Key]syncer.Key
	// nodes are those that pods run on.
	nodes sharedStrings
	// zones has the nodes that are known; it is replaced, never changed: computations read it.
	zones   map[string]string
	strings sharedStrings
	ports   sharedPorts

	// rules are those in force, or the last that are coming into force; unkept is true since
	// less was kept of an object than they need.
	rules       *Edit
	formerRules *Edit // while some Services go by them; nil: none does
	unkept      bool

	pods, services table
	// count has what Stats counts but replicas and endpoints. Changes keep it, so that reading
	// it costs nothing.
	count    Stats
	journal  Journal
	notePods bool
}

// New returns an empty Store.
func New(opts Options) *Store {
	return &Store{
		placement:  opts.Placement,
		options:    opts.Rules,
		seed:       maphash.MakeSeed(),
		namespaces: map[string]*namespace{},
		replicas:   map[syncer.Key][]*service{},
		manual:     map[syncer.Key]*manual{},
		owners:     map[syncer.Key]syncer.Key{},
		nodes:      sharedStrings{},
		strings:    sharedStrings{},
		ports:      sharedPorts{},
		rules:      &Edit{},
	}
}

// SetRules replaces the settings of the computation and returns every placed
// Service: announce them in bulk.
func (s *Store) SetRules(rules syncer.Options) []Dirty {
	s.options = rules
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
	return slices.SortedFunc(maps.Keys(s.replicas), syncer.Key.Compare)
}

// Sources returns the Services of this member that contribute to a replica,
// sorted.
func (s *Store) Sources(replica syncer.Key) []syncer.Key {
	var keys []syncer.Key
	for _, svc := range s.replicas[replica] {
		keys = append(keys, svc.current.Key)
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	return keys
}

// Pod returns a pod as it is held, or nil.
func (s *Store) Pod(key syncer.Key) *syncer.Pod {
	if rec := s.record(key); rec != nil {
		return &rec.Pod
	}
	return nil
}

// Service returns a Service as it is held, or nil.
func (s *Store) Service(key syncer.Key) *syncer.Service {
	if svc := s.service(key); svc != nil {
		return svc.current
	}
	return nil
}

// Pods returns all pods at this moment, in no order.
func (s *Store) Pods() []*syncer.Pod {
	pods := make([]*syncer.Pod, 0, s.count.Pods)
	for _, ns := range s.namespaces {
		for _, rec := range ns.pods {
			pods = append(pods, &rec.Pod)
		}
	}
	return pods
}

// PodsIn are those of a namespace.
func (s *Store) PodsIn(namespace string) iter.Seq[*syncer.Pod] {
	return func(yield func(*syncer.Pod) bool) {
		if ns := s.namespaces[namespace]; ns != nil {
			for _, rec := range ns.pods {
				if !yield(&rec.Pod) {
					return
				}
			}
		}
	}
}

// ReplicasOf returns the replicas that a pod may be an endpoint of, sorted.
func (s *Store) ReplicasOf(pod syncer.Key) []syncer.Key {
	if rec := s.record(pod); rec != nil {
		return s.ReplicasFor(&rec.Pod)
	}
	return nil
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

// Placed returns the replica that a Service contributes to; ok is false for one that
// does not, or is not held.
func (s *Store) Placed(service syncer.Key) (replica syncer.Key, ok bool) {
	svc := s.service(service)
	if svc == nil {
		return syncer.Key{}, false
	}
	return svc.replica, svc.placed
}

// PodRevision is the revision at which a pod is held; ok is false where none is.
func (s *Store) PodRevision(key syncer.Key) (rv uint64, ok bool) {
	if rec := s.record(key); rec != nil {
		return rec.rv, true
	}
	return 0, false
}

// ServiceRevision is PodRevision for a Service.
func (s *Store) ServiceRevision(key syncer.Key) (rv uint64, ok bool) {
	if svc := s.service(key); svc != nil {
		return svc.rv, true
	}
	return 0, false
}
