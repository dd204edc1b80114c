// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"strings"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// replica is all that stands under one replica's name.
type replica struct {
	service, endpoints *Object
	slices             []*Object // sorted by name
}

func (r *replica) collect(now *plan.Current) {
	if r.service != nil {
		now.Service = r.service.Service
	}
	if r.endpoints != nil {
		now.Endpoints = r.endpoints.Endpoints
	}
	now.Slices = make([]plan.Slice, len(r.slices))
	for i, o := range r.slices {
		now.Slices[i] = *o.Slice
	}
}

func (r *replica) owned() bool {
	return r.service != nil && r.service.Owned || r.endpoints != nil && r.endpoints.Owned ||
		slices.ContainsFunc(r.slices, func(o *Object) bool { return o.Owned })
}

// lockedLink puts an object under its replica.
func (c *Cache) lockedLink(o *Object) {
	if o.Kind == plan.KindEndpointSlice && !o.Owned {
		if c.foreign[o.Object.Namespace] == nil {
			c.foreign[o.Object.Namespace] = map[string]bool{}
		}
		c.foreign[o.Object.Namespace][o.Name] = true
	}
	if o.Replica == (syncer.Key{}) {
		return
	}
	r := c.replicas[o.Replica]
	if r == nil {
		r = &replica{}
		c.replicas[o.Replica] = r
	}
	switch o.Kind {
	case plan.KindService:
		r.service = o
	case plan.KindEndpoints:
		r.endpoints = o
	case plan.KindEndpointSlice:
		at, _ := slices.BinarySearchFunc(r.slices, o.Name, compareName)
		r.slices = slices.Insert(r.slices, at, o)
	}
}

func (c *Cache) lockedUnlink(o *Object) {
	if names := c.foreign[o.Object.Namespace]; o.Kind == plan.KindEndpointSlice && !o.Owned {
		if delete(names, o.Name); len(names) == 0 {
			delete(c.foreign, o.Object.Namespace)
		}
	}
	r := c.replicas[o.Replica]
	if r == nil {
		return
	}
	switch o.Kind {
	case plan.KindService:
		r.service = nil
	case plan.KindEndpoints:
		r.endpoints = nil
	case plan.KindEndpointSlice:
		if at, ok := slices.BinarySearchFunc(r.slices, o.Name, compareName); ok {
			r.slices = slices.Delete(r.slices, at, at+1)
		}
	}
	if r.service == nil && r.endpoints == nil && len(r.slices) == 0 {
		delete(c.replicas, o.Replica)
	}
}

func compareName(o *Object, name string) int { return strings.Compare(o.Name, name) }
