// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"slices"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// maxIsolations bounds the writes of one pass that may be refused until the cause
// is found; then the key waits for its backoff.
const maxIsolations = 16

// isolation is how far the search for the cause of refused writes has come in one
// pass. What is known to be refused is left out of the next plan, so that the rest
// of the replica is written.
type isolation struct {
	known []plan.Refusal
	// former is what had to be left out before this pass; it is suspected first.
	former []plan.Refusal
	// met is true when a write of this pass was refused, rounds how many.
	met    bool
	rounds int
	// suspects lists the members of the last plan, the likeliest first.
	suspects func() []string
	// trials are the shares to leave out one at a time because the server did not
	// say what it objects to; nil until that is needed.
	trials []plan.Refusal
}

// isolate looks for what caused refused writes. It returns true when there is
// something new to leave out: plan again.
func (r *Reconciler) isolate(p *pass, receipts []receipt) (again bool) {
	before := slices.Clone(p.known)
	unexplained := ""
	for i := range receipts {
		one := &receipts[i]
		if !refused(one.err) || one.action.Verb == plan.Delete {
			continue
		}
		p.met = true
		causes, message := refusalCauses(one.err)
		blamed := plan.Blame(one.action, causes)
		if len(blamed) == 0 && one.action.Slice != nil { // a slice has one member
			blamed = []plan.Refusal{{Scope: plan.RefusedShare, Cluster: one.action.Slice.Cluster}}
		}
		// Several writes may have been refused for one cause.
		fresh := slices.DeleteFunc(blamed, func(b plan.Refusal) bool { return slices.ContainsFunc(before, b.Is) })
		p.learn(r, fresh, message)
		again = again || len(fresh) > 0
		if len(fresh) == 0 && one.action.Slice == nil {
			unexplained = message
		}
	}
	if unexplained != "" && !again {
		again = p.tryNext(r, unexplained)
	}
	if p.rounds++; again && p.rounds <= maxIsolations {
		return true
	}
	if p.met {
		p.giveUp(receipts)
	}
	return false
}

// learn adds what was not known yet.
func (p *pass) learn(r *Reconciler, blamed []plan.Refusal, message string) (learnt bool) {
	for _, b := range blamed {
		if slices.ContainsFunc(p.known, b.Is) {
			continue
		}
		if b.Message == "" {
			b.Message = message
		}
		if !slices.ContainsFunc(p.former, b.Is) {
			r.logger.Warn("the ingress cluster refused a write; what caused it is left out of the replica",
				"replica", p.item.Key.String(), "left_out", b.String(), "reason", b.Message)
		}
		p.known = append(p.known, b)
		learnt = true
	}
	return learnt
}

// tryNext leaves out the share of one member after the other, and at last all, when
// the server did not say what it objects to.
func (p *pass) tryNext(r *Reconciler, message string) bool {
	if p.trials == nil {
		p.trials = trialsOf(p.suspects(), p.former)
	} else {
		p.acquit()
	}
	for len(p.trials) > 0 {
		if p.learn(r, p.trials[:1], message) {
			return true
		}
		p.trials = p.trials[1:]
	}
	return false
}

// acquit ends the trial under way: the write was refused without that share too.
func (p *pass) acquit() {
	if len(p.trials) == 0 {
		return
	}
	p.known = slices.DeleteFunc(p.known, p.trials[0].Is)
	p.trials = p.trials[1:]
}

// trialsOf orders the shares to leave out: what had to be before, then by
// likelihood, then all of them.
func trialsOf(suspects []string, former []plan.Refusal) []plan.Refusal {
	trials := []plan.Refusal{}
	add := func(cluster string) {
		t := plan.Refusal{Scope: plan.RefusedShare, Cluster: cluster}
		if !slices.ContainsFunc(trials, t.Is) {
			trials = append(trials, t)
		}
	}
	for _, f := range former {
		if f.Scope == plan.RefusedShare && (f.Cluster == "" || slices.Contains(suspects, f.Cluster)) {
			add(f.Cluster)
		}
	}
	for _, cluster := range suspects {
		add(cluster)
	}
	if len(suspects) > 1 {
		add("")
	}
	return trials
}

// giveUp reports a refusal whose cause was not found.
func (p *pass) giveUp(receipts []receipt) {
	p.acquit()
	for i := range receipts {
		if one := &receipts[i]; refused(one.err) {
			p.plan.Conflicts = append(p.plan.Conflicts, plan.Conflict{Replica: p.item.Key, Reason: plan.ConflictRefused, Message: shortened(one.err.Error())})
			return
		}
	}
}

// undecided puts back what a pass left aside and then failed for another reason: it
// has not shown that any of that is taken by now. The plan says so again.
func (r *Reconciler) undecided(p *pass, err error) {
	if err == nil || errors.Is(err, errWaiting) || refused(err) {
		return
	}
	aside := slices.DeleteFunc(slices.Clone(p.former), func(f plan.Refusal) bool { return slices.ContainsFunc(p.known, f.Is) })
	if len(aside) == 0 {
		return
	}
	p.known = append(p.known, aside...)
	held := p.held
	r.decide(p, r.opts.Source.Peek)
	p.held = held
}

// nothingTaken reports that a write was refused, and none was taken.
func nothingTaken(receipts []receipt) bool {
	return slices.ContainsFunc(receipts, func(r receipt) bool { return refused(r.err) }) &&
		!slices.ContainsFunc(receipts, func(r receipt) bool { return r.err == nil })
}

// retryRefused asks for a look at a replica of which something was left out.
func (r *Reconciler) retryRefused(key syncer.Key) {
	r.queue.Add(key, lanes.Bulk, metrics.Cause{Kind: "Service", Namespace: key.Namespace, Name: key.Name, Event: eventResync, Arrival: time.Now()})
}

// hasNews reports whether a member has changed something.
func hasNews(causes []metrics.Cause) bool {
	return slices.ContainsFunc(causes, func(c metrics.Cause) bool { return c.Live && c.Cluster != "" })
}
