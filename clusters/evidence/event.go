// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/netip"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Kind is a kind of object that a member is asked for.
type Kind uint8

// The kinds. Endpoints and Slices are asked for where a Service has no selector.
const (
	Services Kind = iota
	Pods
	Nodes
	Endpoints
	Slices
	kinds
	// Manual is what is written by hand for a Service: its Endpoints and its slices, as far
	// as they are on record. They are asked for together, by name, where endpoints stand from
	// before this process.
	Manual = kinds
)

// String is the plural name of the resource.
func (k Kind) String() string {
	return [...]string{"services", "pods", "nodes", "endpoints", "endpointslices", "hand-written endpoints"}[min(k, kinds)]
}

// Object is what a member shows, by kind.
type Object interface {
	syncer.Service | syncer.Pod | store.Node | store.Endpoints | store.Slice
}

// Event is something that happened to a member. The set is closed: the types of this
// file.
type Event interface{ event() }

// Listed is a complete list of a kind. Events of the kind that came before it, and
// those that were laid over it, are in it. Its items belong to the state from here on.
// It may need more than one step: see Effects.Next; until those are done no other
// event of the kind may come.
type Listed[T Object] struct {
	Items []store.Versioned[T]
	// Revision of the list; 0 is unknown.
	Revision uint64
	// Begun is when it was asked for; zero: after all that is known.
	Begun time.Time
	// Older is true when that is below a revision that was seen before the list was
	// begun, or when it is the first since Restored: it may be from the past.
	Older bool
	// Clock is what the member's clock said at least when the list came; zero is unknown.
	Clock time.Time
	// Services are those that a list of Endpoints or Slices speaks of: it would show
	// their objects if there were any. Other kinds leave it nil.
	Services []syncer.Key
	LeftOut  LeftOut
}

// LeftOut are namespaces that are refused, or fail: a list says nothing of these, and none before it
// has shown those that are Unlisted.
type LeftOut struct{ Namespaces, Unlisted []string }

// Seen is an object that a watch shows: created, or changed. Like Gone it may be used
// again once Step has returned.
type Seen[T Object] struct {
	store.Versioned[T]
	Created bool
}

// name is the event's in records.
func (e *Seen[T]) name() string {
	if e.Created {
		return "added"
	}
	return "modified"
}

// Gone is an object that a watch shows to be deleted, or to have left the selector;
// the object is its last state.
type Gone[T Object] struct{ store.Versioned[T] }

// Answer is what came of a Read.
type Answer struct {
	Read
	Outcome Outcome
	// Object is a store.Versioned of the kind's type when the outcome is There; of Manual
	// it is Written, also where that is nothing. What it says of itself is hard evidence.
	Object any
}

// Written are the objects that give hand-written endpoints to a Service; nil is none. Those of
// Read.Objects that are in NotFound are no other Service's either.
type Written struct {
	Endpoints *store.Versioned[store.Endpoints]
	Slices    []store.Versioned[store.Slice]
	NotFound  []string
}

// Outcome is how a Read ended.
type Outcome uint8

// The outcomes. There is an object of that name, whatever its UID: the state compares.
const (
	Failed Outcome = iota
	NotFound
	There
	Refused // the right to `get` is missing
)

// Watched is a change of the state of a watch.
type Watched struct {
	Kind  Kind
	Phase Phase
	Fault Fault // why it waits or is refused
	// LeftOut are namespaces that it does not show while it follows the others: they are
	// refused, or fail, as Fault says.
	LeftOut []string
}

// Phase is what a watch is doing.
type Phase uint8

// The phases.
const (
	Listing Phase = iota
	Following
	Waiting // for another attempt
	Denied  // 401 or 403
)

// Connected is the outcome of an attempt at the first connection: no fault is success.
type Connected struct{ Fault Fault }

// Probed is the outcome of a probe.
type Probed struct{ Fault Fault }

// Reconnected is the outcome of an attempt at a connection that is to replace the one
// in use; no fault: it does, or none is needed.
type Reconnected struct{ Fault Fault }

// Rescoped says that lists and events may show namespaces from now on that were not read
// before. Each kind is listed anew after it.
type Rescoped struct{}

// Restored says that the member's store went back in time, as after an etcd was
// restored from a backup. Every kind is listed anew after it, and the first such list
// is Older. Err says what showed it.
type Restored struct{ Err error }

// Contact says that the member was heard of without news.
type Contact struct{}

// Baseline is what stands of the member in the ingress cluster from before this
// process. It comes before the first lists, or not at all.
type Baseline struct {
	Replicas map[syncer.Key]Standing
	// Gone is what was seen to go: see State.SeenGone.
	Gone []Departed
	// PanicAt is when the panic began in which the member was when this was written: what
	// stands ready though its pod is not was kept. Zero: it was in none.
	PanicAt time.Time
}

// Leading says that this process is about to write to the ingress cluster, where another
// did, and what stands there.
type Leading struct {
	// Replicas are all that stand, with what stands there of the member.
	Replicas map[syncer.Key]Standing
	// Served are those that have endpoints of whatever member.
	Served map[syncer.Key]bool
}

// Standing is what stands of a member in one replica.
type Standing struct {
	// Sources are the Services of the member that gave it.
	Sources []syncer.Key
	// Publishing are those of them that took every pod for ready, as far as it is on record.
	Publishing []syncer.Key
	// HandWritten are those whose endpoints are written by hand, as far as it is on record,
	// with the objects that these stand in: see Contribution.WrittenIn.
	HandWritten map[syncer.Key][]string
	// WrittenOf are the addresses of hand-written endpoints that name a pod, where others are
	// computed from pods.
	WrittenOf []netip.Addr
	// Endpoints as they stand. Those of pods name them with their UID in Target.
	Endpoints []syncer.Endpoint
}

// Configured is another configuration. The first one is given to New.
type Configured struct{ Config }

// Release lets go by hand of what is kept for one replica, or with nil for all: then
// a panic and a quarantine end, too.
type Release struct{ Replica *syncer.Key }

// Return lets an endpoint that waits return to a replica, which has no ready one of
// other members: see Effects.Alone.
type Return struct{ Replica syncer.Key }

// Tick is time that passes. It comes at least once a second.
type Tick struct{}

// Continue goes on with a list of the kind: see Effects.Next.
type Continue struct{ Kind Kind }

// Enforce goes on with rules that are coming into force: see Effects.Work.
type Enforce struct{}

// Stopped is the end of the member.
type Stopped struct{}

func (Listed[T]) event()   {}
func (*Seen[T]) event()    {}
func (*Gone[T]) event()    {}
func (Answer) event()      {}
func (Watched) event()     {}
func (Connected) event()   {}
func (Probed) event()      {}
func (Reconnected) event() {}
func (Rescoped) event()    {}
func (Restored) event()    {}
func (Contact) event()     {}
func (Baseline) event()    {}
func (Leading) event()     {}
func (Configured) event()  {}
func (Release) event()     {}
func (Return) event()      {}
func (Tick) event()        {}
func (Continue) event()    {}
func (Enforce) event()     {}
func (Stopped) event()     {}

// Fault is an error as far as it matters what it means; the zero value is none.
type Fault struct {
	Class Class
	Err   error
}

// isRefusal reports whether that which is asked for may not be read.
func (f Fault) isRefusal() bool { return f.Class == Denial || f.Class == Missing }

// Class is a class of errors.
type Class uint8

// The classes.
const (
	Well Class = iota
	Unreachable
	Denial       // 401, 403
	Missing      // 404
	OtherCluster // another cluster answers at the address
	NoKubeconfig // none was ever accepted
	TooMany      // more objects than allowed
	TooLarge     // a list too large to be read
)

// Config is what a member's configuration says about evidence.
type Config struct {
	Limits
	// StaleAfter is how long the member may be out of sight; 0: for ever.
	StaleAfter time.Duration
	// MaxObjects is how many objects of a kind are taken; 0: any number.
	MaxObjects int
	// Placement and Rules are those of store.Options.
	Placement store.Placement
	Rules     syncer.Options
	// Damping returns the settings of a Service; nil: nothing is damped. It is pure.
	Damping func(*syncer.Service) Damping
	// Decider has the configuration's rules; nil: there are none. What is kept of objects
	// that were decoded from now on is at least KeptSince.
	Decider   store.Decider
	KeptSince store.KeptSince
	// Follows says whether the configuration takes Services from a namespace of the
	// member; nil: from all.
	Follows func(namespace string) bool
	// Refused is why the kubeconfig as it stands is not in use; nil: it is.
	Refused error
}

// Limits say how much of a member may go on which evidence. The zero value holds
// back nothing.
type Limits struct {
	// Lists is whether lists are judged at all.
	Lists bool
	// MinEndpoints is how many ready endpoints the lists of a minute may take beyond
	// the replicas' shares, and the least number of pods that makes a panic.
	MinEndpoints int
	// Percent of the ready endpoints that a replica had is what a list may take of it
	// without being asked about.
	Percent int
	// Where objects may not be read one by one: up to ConfirmPercent of the member's
	// ready endpoints, a second list ConfirmAfter later confirms the first.
	ConfirmPercent int
	ConfirmAfter   time.Duration
	// PanicPercent: when more of the member's ready pods that serve turn not ready
	// within a minute, they are kept ready. 0 or 100 is never.
	PanicPercent int
	// HoldSilent is how long a pod stays ready that is not ready only because its
	// node fell silent. 0 is not at all.
	HoldSilent time.Duration
}
