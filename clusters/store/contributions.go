// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/syncer"
)

// SourceContribution is what one Service of this member gives to a replica.
type SourceContribution struct {
	Source syncer.Key
	syncer.Contribution
	// Pending is true for a Service without selector whose hand-written endpoints
	// have not been read yet. It says nothing about endpoints then: keep what
	// stands.
	Pending bool
}

// Input is all that one contribution is computed from, as of one moment.
type Input struct {
	service   *syncer.Service // as it is
	effective *syncer.Service // as it is computed from
	computed  bool            // from pods
	pods      []*syncer.Pod
	manual    manual
	rules     syncer.Options
	trigger   *trigger
	kept      []syncer.Endpoint // see Keep
	keeps     bool
	// writtenIn are the objects that what is kept stood in, if stood.
	writtenIn []string
	stood     bool
}

// Inputs returns what the contributions to a replica are computed from: one for each
// of this member's Services that are placed there, sorted by source: nearly always
// none or one. It takes the time to copy the pods' pointers; the computation may come
// when the Store has gone on.
func (s *Store) Inputs(replica syncer.Key) []Input {
	services := s.replicas[replica]
	if len(services) == 0 {
		return nil
	}
	rules := s.options
	rules.Zone = nil
	if zones := s.zones; len(zones) > 0 {
		rules.Zone = func(node string) string { return zones[node] }
	}
	inputs := make([]Input, 0, len(services))
	for _, svc := range services {
		in := Input{service: svc.current, effective: svc.effective, computed: svc.computed(), rules: rules, trigger: svc.trigger}
		if in.computed {
			in.pods = svc.ruledPods()
		} else if m := s.manual[svc.current.Key]; m != nil {
			in.manual = *m
		}
		inputs = append(inputs, in)
	}
	slices.SortFunc(inputs, func(a, b Input) int { return a.service.Key.Compare(b.service.Key) })
	return inputs
}

// Source is the Service that the input is of.
func (in *Input) Source() syncer.Key { return in.service.Key }

// Pending reports whether the contribution is one that is Pending.
func (in *Input) Pending() bool { return !in.computed && !in.manual.known() }

// Keep adds endpoints that are kept as they stand. One that is Pending has these and no
// others.
func (in *Input) Keep(endpoints []syncer.Endpoint) { in.kept, in.keeps = endpoints, true }

// Stood names the objects that its hand-written endpoints stood in while some are kept; nil is
// unknown.
func (in *Input) Stood(writtenIn []string) { in.writtenIn, in.stood = writtenIn, true }

// Substitute puts other readings of pods in their place; nil leaves one as it is.
func (in *Input) Substitute(other func(*syncer.Pod) *syncer.Pod) {
	for i, p := range in.pods {
		if o := other(p); o != nil {
			in.pods[i] = o
		}
	}
}

// Gather computes contributions in two steps: the trigger times that it returns are
// returned again, if nothing older comes up, until commit is called. Call commit
// when the contributions have been written or were found to change nothing.
// Upstream forgets a trigger time at the attempt, so its retry removes the
// annotation.
//
// Two calls for one replica must not be under way at once.
func Gather(inputs []Input) (contributions []SourceContribution, commit func()) {
	return contributionsOf(inputs, (*trigger).next), func() {
		for i := range inputs {
			inputs[i].trigger.deliver()
		}
	}
}

// Peek is Gather for those who only look: it has no effect on what later calls
// return.
func Peek(inputs []Input) []SourceContribution { return contributionsOf(inputs, (*trigger).peek) }

func contributionsOf(inputs []Input, changed func(*trigger, *syncer.Service, []*syncer.Pod) time.Time) (all []SourceContribution) {
	for i := range inputs {
		in := &inputs[i]
		c := in.compute()
		if in.computed {
			c.Trigger = changed(in.trigger, in.service, in.pods)
		}
		all = append(all, c)
	}
	return all
}

func (svc *service) podList() []*syncer.Pod {
	n := 0
	for g := range svc.groups {
		n += len(g.pods)
	}
	pods := make([]*syncer.Pod, 0, n)
	for rec := range svc.records {
		pods = append(pods, &rec.Pod)
	}
	return pods
}

// ruledPods are the pods that are endpoints, as rules have them.
func (svc *service) ruledPods() []*syncer.Pod {
	if len(svc.rulings) == 0 {
		return svc.podList()
	}
	var pods []*syncer.Pod
	for rec := range svc.records {
		if p := svc.as(rec); p != nil {
			pods = append(pods, p)
		}
	}
	return pods
}

// compute applies the rules.
func (in *Input) compute() SourceContribution {
	out := in.computeOwn()
	if len(in.kept) > 0 {
		type own struct { // pods of one host share its address
			netip.Addr
			syncer.TargetRef
		}
		has := map[own]bool{}
		for i := range out.Endpoints {
			has[own{out.Endpoints[i].Addr, out.Endpoints[i].Target}] = true
		}
		kept := slices.DeleteFunc(slices.Clone(in.kept), func(e syncer.Endpoint) bool { return has[own{e.Addr, e.Target}] })
		if out.Endpoints = slices.Concat(out.Endpoints, kept); len(kept) > 0 {
			out.Subsets = nil // they follow from the endpoints
			slices.SortFunc(out.Endpoints, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
		}
	}
	if in.stood && in.writtenIn == nil {
		out.WrittenIn = nil
	} else if in.stood && out.HandWritten {
		out.WrittenIn = slices.Concat(out.WrittenIn, in.writtenIn)
		slices.Sort(out.WrittenIn)
		out.WrittenIn = slices.Compact(out.WrittenIn)
	}
	out.Pending = out.Pending && !in.keeps
	return out
}

func (in *Input) computeOwn() SourceContribution {
	out := SourceContribution{Source: in.service.Key}
	switch {
	case in.computed:
		out.Contribution = syncer.Compute(in.effective, slices.Values(in.pods), in.rules)
		out.Contribution.Service = in.service
	case in.manual.known():
		w := &in.manual
		out.Contribution = syncer.HandWritten(in.effective, w.endpoints.Object.Subsets, w.handSlices(),
			w.endpoints.Object.SkipMirror, in.rules)
		out.Contribution.Service = in.service
	default:
		out.Contribution = syncer.Contribution{Service: in.service}
		out.Pending = true
	}
	return out
}

// trigger finds the time for the annotation last-change-trigger-time of one
// Service.
type trigger struct {
	mu      sync.Mutex
	state   syncer.TriggerState
	pending time.Time // returned and not delivered
}

// next notes the times of the pods and returns the earliest that is news.
func (t *trigger) next(svc *syncer.Service, pods []*syncer.Pod) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	var at time.Time
	t.state, at = syncer.NextTrigger(t.state, svc, slices.Values(pods))
	t.pending = earlier(t.pending, at)
	return t.pending
}

func (t *trigger) deliver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = time.Time{}
}

// peek is next without the note.
func (t *trigger) peek(svc *syncer.Service, pods []*syncer.Pod) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, at := syncer.NextTrigger(maps.Clone(t.state), svc, slices.Values(pods))
	return earlier(t.pending, at)
}

// earlier returns the earlier of two times, of which either may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
