// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Current is what stands in the ingress cluster under one replica's name,
// whoever owns it. Nil pointers mean that the object does not exist.
type Current struct {
	// Key is the replica's name; needed only where nothing is wanted, because a
	// wanted Replica brings its own.
	Key       syncer.Key
	Service   *CurrentService
	Endpoints *CurrentEndpoints
	// Slices are those whose kubernetes.io/service-name label names the replica,
	// sorted by name, foreign ones included (Meta.Owned is false).
	Slices []CurrentSlice
	// Occupied are names that slices of the replica could have, and slices of others do;
	// sorted.
	Occupied []string
	// Namespace is the state of the namespace the replica lives in.
	Namespace NamespaceState
	// clusters and known are what NewCurrent has read; nil: nothing.
	clusters []string
	known    func() *shares
}

// NamespaceState says whether objects can be created in a namespace.
type NamespaceState uint8

// The states of a namespace.
const (
	NamespaceMissing NamespaceState = iota
	NamespaceActive
	NamespaceTerminating
	// NamespaceUnreadable is one of which nobody tells what stands: nothing follows from that.
	NamespaceUnreadable
)

// Meta is the metadata of a standing object that decides about writes.
type Meta struct {
	Name            string
	UID             string
	ResourceVersion string
	Labels          map[string]string
	Annotations     map[string]string
	// Claim is what the object says of whose it is, and Owned whether it is ours; see
	// Own. Labels and annotations of an object without the mark are not known.
	Claim Claim
	Owned bool
	// Mutations are what the server made of what we wrote last.
	Mutations Mutations
	// OwnerUID is the UID of the Service in ownerReferences; slices only.
	OwnerUID string
	// Deleting is true once deletionTimestamp is set.
	Deleting bool
}

// CurrentService is a standing Service: the fields that Tributary writes.
type CurrentService struct {
	Meta
	Headless bool
	Selector map[string]string
	Ports    []syncer.ServicePort
	Record
	// Stray names the fields that are set though no replica has them.
	Stray []string
}

// CurrentEndpoints is a standing Endpoints object.
type CurrentEndpoints struct {
	Meta
	Subsets []syncer.Subset
	Owners  Owners
	// Trigger is the last-change-trigger-time annotation; zero when absent.
	Trigger time.Time
}

// CurrentSlice is a standing EndpointSlice. Cluster is the value of its
// multicluster.kubernetes.io/source-cluster label.
type CurrentSlice struct {
	Meta
	Cluster string
	syncer.Slice
	// Malformed is true when the slice holds something that the value form cannot
	// express (a nil condition, a port without number): rewrite it if it is ours. So it is
	// where it is Hinted: endpoints say for whom they are.
	Malformed, Hinted bool
	// Serves is true of a slice that is not ours and has endpoints, other than those
	// that the mirroring controller makes of Endpoints.
	Serves bool
}

// objects are those that stand, whoever owns them.
func (o *Current) objects(yield func(Kind, *Meta) bool) {
	if o.Service != nil && !yield(KindService, &o.Service.Meta) || o.Endpoints != nil && !yield(KindEndpoints, &o.Endpoints.Meta) {
		return
	}
	for i := range o.Slices {
		if !yield(KindEndpointSlice, &o.Slices[i].Meta) {
			return
		}
	}
}

func (o *Current) some(is func(*Meta) bool) bool {
	for _, m := range o.objects {
		if is(m) {
			return true
		}
	}
	return false
}

// slicesOf are the slices of ours that are of one of the clusters.
func (o *Current) slicesOf(in func(cluster string) bool) (of []*CurrentSlice) {
	for i := range o.Slices {
		if s := &o.Slices[i]; s.Owned && in(s.Cluster) {
			of = append(of, s)
		}
	}
	return of
}

func only(cluster string) func(string) bool {
	return func(one string) bool { return one == cluster }
}

func every(string) bool { return true }

// ours are the Endpoints, if they are.
func (o *Current) ours() *CurrentEndpoints {
	if e := o.Endpoints; e != nil && e.Owned {
		return e
	}
	return &CurrentEndpoints{}
}

// all are the addresses of Endpoints, as endpoints that are in those alone.
func (e *CurrentEndpoints) all() iter.Seq[syncer.Endpoint] { return endpointsIn(e.Subsets) }

func endpointsIn(subsets []syncer.Subset) iter.Seq[syncer.Endpoint] {
	return func(yield func(syncer.Endpoint) bool) {
		for i := range subsets {
			s := &subsets[i]
			for j, list := range [][]syncer.Address{s.Ready, s.NotReady} {
				ready := j == 0
				for _, a := range list {
					if !yield(syncer.Endpoint{Addr: a.Addr, Ports: s.Ports, Ready: ready, Serving: ready, Only: syncer.KindEndpoints,
						NodeName: a.NodeName, Hostname: a.Hostname, Target: a.Target}) {
						return
					}
				}
			}
		}
	}
}

// all are the endpoints of a slice with its ports.
func (s *CurrentSlice) all() iter.Seq[syncer.Endpoint] {
	return func(yield func(syncer.Endpoint) bool) {
		for _, e := range s.Endpoints {
			e.Ports = s.Ports
			if !yield(e) {
				return
			}
		}
	}
}

// states are addresses, each as ready as it is anywhere.
type states map[netip.Addr]traffic

func (s states) add(endpoints iter.Seq[syncer.Endpoint]) states {
	for e := range endpoints {
		s[e.Addr] = max(s[e.Addr], stateOf(e.Ready))
	}
	return s
}

func statesOf(subsets []syncer.Subset) states { return states{}.add(endpointsIn(subsets)) }

func stateOf(isReady bool) traffic {
	if isReady {
		return ready
	}
	return notReady
}

// states are the addresses that an action writes.
func (a *Action) states() states {
	switch {
	case a.Endpoints != nil:
		return statesOf(a.Endpoints.Subsets)
	case a.Slice != nil:
		return states{}.add(slices.Values(a.Slice.Endpoints))
	}
	return nil
}

// states are those of the object that an action writes, as it stands.
func (o *Current) states(a *Action) states {
	if stands := o.unchanged(a.Object()); stands != nil {
		return stands.states()
	}
	return nil
}

// unchanged is an update of an object, Endpoints or a slice, that makes it what it is; nil
// where there is none.
func (o *Current) unchanged(object Object) *Action {
	if object.Kind == KindEndpoints && o.Endpoints != nil {
		return o.Endpoints.Unchanged()
	}
	for i := range o.Slices {
		if s := &o.Slices[i]; object.Kind == KindEndpointSlice && s.Meta.Name == object.Name {
			return s.Unchanged()
		}
	}
	return nil
}

// Unchanged is an update that changes nothing.
func (e *CurrentEndpoints) Unchanged() *Action {
	return &Action{Verb: Update, Kind: KindEndpoints, Name: e.Name, Standing: &e.Meta, reduces: true,
		Endpoints: &EndpointsSpec{Subsets: e.Subsets, Labels: e.Labels, Annotations: e.Annotations, Trigger: e.Trigger}}
}

// Unchanged is an update that changes nothing.
func (s *CurrentSlice) Unchanged() *Action {
	return &Action{Verb: Update, Kind: KindEndpointSlice, Name: s.Meta.Name, Standing: &s.Meta, reduces: true,
		Slice: &SliceSpec{Cluster: s.Cluster, Slice: s.Slice, Labels: s.Labels, Annotations: s.Annotations}}
}
