// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// patience is how long a removal that comes waits for the answers to what was sent before:
// far beyond what a request takes. After that it waits for those of its own objects alone.
const patience = 250 * time.Millisecond

// errBusy is why an object is not written: a request about it has no answer yet.
var errBusy = errors.New("the ingress cluster has not answered an earlier write")

// execute carries out the plan of an attempt. Objects of requests that have no answer, and
// those that the server wants left alone, are left out. done is called when all requests are
// answered, which may be later.
func (r *Reconciler) execute(ctx, rest, newer context.Context, a *attempt, done func()) ([]write.Receipt, error) {
	late, key := make(chan struct{}), a.item.Key
	stop := context.AfterFunc(newer, func() { time.AfterFunc(patience, func() { close(late) }) })
	defer stop()
	held := func(o plan.Object, takesAway bool) error {
		if a.busy[o] != nil {
			return errBusy
		}
		return r.pauses.Held(key, o, takesAway, time.Now())
	}
	answered := func(receipts []write.Receipt) {
		r.pauses.Note(key, receipts)
		for i := range receipts {
			r.answered(key, &receipts[i])
			if receipts[i].Kind == plan.KindService && receipts[i].Err != nil {
				a.late.Store(&receipts[i].Err)
			}
		}
	}
	a.heartbeat.Rest()
	defer a.heartbeat.Beat()
	receipts, busy, err := r.writer.Execute(ctx, a.item, &a.plan, write.Turn{Rest: rest, Late: late, Held: held, Answered: answered})
	r.pauses.Note(key, receipts)
	if len(busy) == 0 {
		done()
		return receipts, err
	}
	if a.busy == nil {
		a.busy = map[plan.Object]<-chan struct{}{}
	}
	maps.Copy(a.busy, busy)
	go func() {
		defer done()
		for _, answered := range busy {
			<-answered
		}
	}()
	return receipts, err
}

// besideBusy takes out of a plan what has to wait for requests without an answer: what adds,
// so that it does not meet the same fault; for a Service that stands, nothing but itself.
func (a *attempt) besideBusy() {
	busy := func(o plan.Object) bool { return a.busy[o] != nil }
	service := plan.Object{Kind: plan.KindService, Name: a.item.Key.Name}
	switch {
	case len(a.busy) == 0 || a.plan.Empty():
	case len(a.busy) == 1 && busy(service) && a.current.Service != nil:
		a.plan = a.plan.Except(busy)
	default:
		a.plan = a.plan.TakingAway(nil)
	}
}

// failed reports that a write was answered with an error: it is tried again though others are
// not answered.
func failed(receipts []write.Receipt) bool {
	return slices.ContainsFunc(receipts, func(r write.Receipt) bool { return r.Asked && r.Err != nil })
}

// inVain reports that the server keeps something else than it was sent.
func inVain(receipts []write.Receipt) bool {
	return slices.ContainsFunc(receipts, func(r write.Receipt) bool { return r.InVain })
}

// lacksRecord reports that the server made something of an object that has to be recorded.
func lacksRecord(receipts []write.Receipt) bool {
	return slices.ContainsFunc(receipts, func(r write.Receipt) bool { return r.Unrecorded })
}

// awaitAnswers waits for what is under way, unless a removal comes that is newer.
func (a *attempt) awaitAnswers(newer context.Context) {
	a.heartbeat.Rest()
	defer a.heartbeat.Beat()
	for object, answered := range a.busy {
		select {
		case <-answered:
			delete(a.busy, object)
		case <-newer.Done():
		}
	}
}
