// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"strings"
	"sync/atomic"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// replicaObjects is all that stands under one replica's name.
type replicaObjects struct {
	service   *Object
	endpoints *Object
	slices    []*Object // sorted by name
	// current is the same as rules see it; nil when one of them has changed since.
	current atomic.Pointer[plan.Current]
	// owned: it is counted as ours.
	owned bool
}

// lockedCurrent is what stands as rules see it, shared and immutable.
func (s *replicaObjects) lockedCurrent(replica syncer.Key) *plan.Current {
	if known := s.current.Load(); known != nil {
		return known
	}
	var service *plan.CurrentService
	if s.service != nil {
		service = new(*s.service.Service)
	}
	var endpoints *plan.CurrentEndpoints
	if s.endpoints != nil {
		endpoints = new(*s.endpoints.Endpoints)
	}
	var sliced []plan.CurrentSlice
	for _, f := range s.slices {
		sliced = append(sliced, *f.Slice)
	}
	out := plan.NewCurrent(replica, service, endpoints, sliced)
	s.current.Store(out)
	return out
}

// Current returns what stands under a replica's name. The values are shared
// and immutable.
func (c *Cache) Current(replica syncer.Key) plan.Current {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := plan.Current{Key: replica}
	if s := c.byReplica[replica]; s != nil {
		out = *s.lockedCurrent(replica)
	}
	if ns := c.entries[NamespaceID(replica.Namespace)]; ns != nil {
		out.Namespace = ns.Namespace
	}
	for name := range c.strangers[replica.Namespace] {
		if strings.HasPrefix(name, replica.Name+"-") {
			out.Occupied = append(out.Occupied, name)
		}
	}
	slices.Sort(out.Occupied)
	return out
}

func (c *Cache) lockedLink(f *Object) {
	if f.ID.Kind == plan.KindNamespace {
		return
	}
	s := c.byReplica[f.Replica]
	if s == nil {
		s = &replicaObjects{}
		c.byReplica[f.Replica] = s
	}
	switch f.ID.Kind {
	case plan.KindService:
		s.service = f
	case plan.KindEndpoints:
		s.endpoints = f
	case plan.KindEndpointSlice:
		i, _ := slices.BinarySearchFunc(s.slices, f.ID.Name, compareFound)
		s.slices = slices.Insert(s.slices, i, f)
		if f.Claim == plan.ClaimRecorded {
			break
		}
		if c.strangers[f.ID.Namespace] == nil {
			c.strangers[f.ID.Namespace] = map[string]bool{}
		}
		c.strangers[f.ID.Namespace][f.ID.Name] = true
	}
	s.current.Store(nil)
}

func (c *Cache) lockedUnlink(f *Object) {
	s := c.byReplica[f.Replica]
	if s == nil {
		return
	}
	switch f.ID.Kind {
	case plan.KindService:
		s.service = nil
	case plan.KindEndpoints:
		s.endpoints = nil
	case plan.KindEndpointSlice:
		if i, ok := slices.BinarySearchFunc(s.slices, f.ID.Name, compareFound); ok {
			s.slices = slices.Delete(s.slices, i, i+1)
		}
		if names := c.strangers[f.ID.Namespace]; names[f.ID.Name] {
			delete(names, f.ID.Name)
			if len(names) == 0 {
				delete(c.strangers, f.ID.Namespace)
			}
		}
	}
	if s.service == nil && s.endpoints == nil && len(s.slices) == 0 {
		if delete(c.byReplica, f.Replica); s.owned {
			c.owned--
		}
		return
	}
	s.current.Store(nil)
}

func compareFound(f *Object, name string) int { return strings.Compare(f.ID.Name, name) }
