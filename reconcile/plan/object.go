// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Kind is a kind of object that Tributary writes.
type Kind uint8

// The kinds, in the order in which they are created.
const (
	KindNamespace Kind = iota
	KindService
	KindEndpointSlice
	KindEndpoints
)

// String names the kind as the API does.
func (k Kind) String() string {
	return [...]string{"Namespace", "Service", "EndpointSlice", "Endpoints"}[k%4]
}

// Object names an object of the ingress cluster. That of a namespace has no Namespace.
type Object struct {
	Kind            Kind
	Namespace, Name string
}

// String renders it for people: "Service shop/web".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind.String() + " " + o.Name
	}
	return o.Kind.String() + " " + o.Namespace + "/" + o.Name
}

// Owned reports whose replica an object of ours is: it carries both labels, and the
// annotation that names its replica. A Service or Endpoints under another name than that is
// a copy, and a copy is nobody's; so is anything in another namespace.
func Owned(kind Kind, key syncer.Key, labels, annotations map[string]string, instance string) (replica syncer.Key, ours bool) {
	if labels[syncer.LabelManagedBy] != syncer.ManagedBy || instance == "" || labels[syncer.LabelInstance] != instance {
		return syncer.Key{}, false
	}
	replica, named := syncer.ParseKey(annotations[syncer.AnnotationReplica])
	if !named || replica.Namespace != key.Namespace || kind != KindEndpointSlice && replica != key {
		return syncer.Key{}, false
	}
	return replica, true
}

// object is Endpoints or a slice of ours that stands.
type object struct {
	*Meta
	kind  Kind
	name  string
	slice *Slice // nil: Endpoints
	// member is whose a slice is, see memberOf.
	member string
	// endpoints have their ports.
	endpoints []syncer.Endpoint
	subsets   []syncer.Subset
}

// object finds one; nil where there is none of ours.
func (c *Current) object(kind Kind, name string) *object {
	switch e := c.Endpoints; {
	case kind == KindEndpointSlice:
		if s := c.slice(name); s != nil && s.Owned {
			return c.objectOf(s)
		}
	case kind == KindEndpoints && e != nil && e.Owned:
		return &object{Meta: &e.Meta, kind: kind, name: name, subsets: e.Subsets, endpoints: slices.Collect(endpointsIn(e.Subsets))}
	}
	return nil
}

func (c *Current) objectOf(s *Slice) *object {
	return &object{Meta: &s.Meta, kind: KindEndpointSlice, name: s.Name, slice: s, endpoints: slices.Collect(endpointsOf(&s.Slice))}
}

// endpointsOf are the endpoints of a slice with its ports.
func endpointsOf(s *syncer.Slice) iter.Seq[syncer.Endpoint] {
	return func(yield func(syncer.Endpoint) bool) {
		for _, e := range s.Endpoints {
			if e.Ports = s.Ports; !yield(e) {
				return
			}
		}
	}
}

// portless are endpoints as a slice has them.
func portless(endpoints []syncer.Endpoint) []syncer.Endpoint {
	out := slices.Clone(endpoints)
	for i := range out {
		out[i].Ports, out[i].Only = nil, 0
	}
	return out
}

// inSubsets reports whether Endpoints have an endpoint.
func inSubsets(e *syncer.Endpoint) bool {
	return e.In(syncer.KindEndpoints) && (e.Ready || !e.Terminating)
}

// endpointsIn are the addresses of subsets, as endpoints of Endpoints alone.
func endpointsIn(subsets []syncer.Subset) iter.Seq[syncer.Endpoint] {
	return func(yield func(syncer.Endpoint) bool) {
		for i := range subsets {
			s := &subsets[i]
			for j, list := range [][]syncer.Address{s.Ready, s.NotReady} {
				for _, a := range list {
					e := syncer.Endpoint{Addr: a.Addr, Ports: s.Ports, Ready: j == 0, Serving: j == 0, Only: syncer.KindEndpoints,
						NodeName: a.NodeName, Hostname: a.Hostname, Target: a.Target}
					e.Grade = e.StandingGrade(false)
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}
