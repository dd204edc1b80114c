// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"maps"

	"tributary.dev/tributary/syncer"
)

// Options configure a Store.
type Options struct {
	// Replicate says which Services of the member have a replica; nil: all. It must be pure.
	// Services of type ExternalName have none whatever it says.
	Replicate func(*syncer.Service) bool
	// Syncer are the member's settings of the rules. Rules and Now are set for each
	// computation.
	Syncer syncer.Options
	// Rules are those of the configuration that apply to a Service; nil: none does. It must be
	// pure; it is asked when a Service is set, and by Configure.
	Rules func(*syncer.Service) syncer.Rules
}

// Store is what is known of one member: Pods, Services, and hand-written endpoints of
// Services without a selector. It has no lock: many may read at once, while nobody changes
// anything. Maps and lists of what is set, and of what is returned, are shared: nobody changes
// them. Strings are stored as they come: they must not be parts of larger ones.
type Store struct {
	options    Options
	namespaces map[string]*namespace
	endpoints  byHand[HandEndpoints]
	slices     byHand[HandSlice]
	templates  templates // what pods of one template share
}

// New returns an empty Store.
func New(options Options) *Store {
	return &Store{
		options:    options,
		namespaces: map[string]*namespace{},
		endpoints:  byHand[HandEndpoints]{},
		slices:     byHand[HandSlice]{},
		templates:  templates{},
	}
}

// Configure replaces the options, by which every contribution may differ. Which rules match a pod is
// stored with the pod: with other rules, set the pods anew before anybody reads.
func (s *Store) Configure(options Options) {
	s.options = options
	for _, ns := range s.namespaces {
		for _, svc := range ns.services {
			s.place(svc)
		}
	}
}

// namespace returns the namespace of a name, and creates it if need be.
func (s *Store) namespace(name string) *namespace {
	ns := s.namespaces[name]
	if ns == nil {
		ns = &namespace{
			name: name, pods: map[string]*record{}, services: map[string]*service{},
			groups: map[syncer.Labels]*group{}, buckets: map[string]*bucket{}, filed: map[string]int{},
		}
		s.namespaces[name] = ns
	}
	return ns
}

// sweep drops a namespace in which nothing is left.
func (s *Store) sweep(ns *namespace) {
	if len(ns.pods) == 0 && len(ns.services) == 0 {
		delete(s.namespaces, ns.name)
	}
}

func (s *Store) record(key syncer.Key) *record {
	if ns := s.namespaces[key.Namespace]; ns != nil {
		return ns.pods[key.Name]
	}
	return nil
}

// replica returns the Service of a replica, or nil.
func (s *Store) replica(key syncer.Key) *service {
	if svc := s.service(key); svc != nil && svc.replicated {
		return svc
	}
	return nil
}

func (s *Store) service(key syncer.Key) *service {
	if ns := s.namespaces[key.Namespace]; ns != nil {
		return ns.services[key.Name]
	}
	return nil
}

// in are the namespaces of a name; "" is the name of all.
func (s *Store) in(name string) iter.Seq[*namespace] {
	if name == "" {
		return maps.Values(s.namespaces)
	}
	return func(yield func(*namespace) bool) {
		if ns := s.namespaces[name]; ns != nil {
			yield(ns)
		}
	}
}
