// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// maxRounds bounds how often a replica is compared; three rounds make a new one.
const maxRounds = 20

// Foresee plays what a replica comes to when every write succeeds: the actions to its end, and
// what is in the way then.
func Foresee(now Current, shares []Share, s Settings) (all []Action, waiting Waiting) {
	for range maxRounds {
		var actions []Action
		if actions, waiting = Actions(now, Merge(now.Key, now, shares, s)); len(actions) == 0 {
			break
		}
		all, now = append(all, actions...), now.After(actions)
	}
	waiting.More = false
	return all, waiting
}

// Change is what the actions together change for traffic: an address that leaves one object and
// stands in another has not left.
func Change(now Current, actions []Action) Delta {
	after := now.After(actions)
	return deltaOf(now.endpoints(), after.endpoints())
}

// endpoints are all of ours.
func (c *Current) endpoints() iter.Seq[syncer.Endpoint] {
	return func(yield func(syncer.Endpoint) bool) {
		for i := range c.Slices {
			for e := range endpointsOf(&c.Slices[i].Slice) {
				if c.Slices[i].Owned && !yield(e) {
					return
				}
			}
		}
		if c.Endpoints != nil && c.Endpoints.Owned {
			endpointsIn(c.Endpoints.Subsets)(yield)
		}
	}
}

// planned is the UID of a Service that does not stand yet.
const planned = "planned"

// After is what stands when the actions have been carried out.
func (c Current) After(actions []Action) Current {
	c.Slices = slices.Clone(c.Slices)
	for i := range actions {
		c.apply(&actions[i])
	}
	return c
}

func (c *Current) apply(a *Action) {
	m := Meta{UID: a.UID, ResourceVersion: a.ResourceVersion, Owned: true, Labels: syncer.LabelsOf(a.Labels), Annotations: a.Annotations, Rest: a.Rest}
	if m.UID == "" {
		m.UID = planned
	}
	at, found := slices.BinarySearchFunc(c.Slices, a.Name, func(s Slice, name string) int { return strings.Compare(s.Name, name) })
	switch {
	case a.Kind == KindNamespace:
		c.Namespace = NamespaceActive
	case a.Kind == KindService && a.Verb == Delete:
		c.Service, c.Endpoints = nil, nil
		c.Slices = slices.DeleteFunc(c.Slices, func(s Slice) bool { return s.Owned && s.Owner == a.UID })
	case a.Kind == KindService:
		c.Service = &Service{Meta: m, ClusterIP: syncer.ClusterIPNone, Ports: a.Service.Ports}
	case a.Kind == KindEndpoints && a.Verb == Delete:
		c.Endpoints = nil
	case a.Kind == KindEndpoints:
		c.Endpoints = &Endpoints{Meta: m, Subsets: a.Endpoints.Subsets}
	case a.Verb == Delete && found:
		c.Slices = slices.Delete(c.Slices, at, at+1)
	case a.Verb == Delete:
	default:
		s := Slice{Meta: m, Owner: a.Owner, Slice: *a.Slice}
		if found {
			c.Slices[at] = s
		} else {
			c.Slices = slices.Insert(c.Slices, at, s)
		}
	}
}
