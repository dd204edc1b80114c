// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// isolate looks for what caused refused writes. It returns true when there is
// something new to leave out or to try: plan again.
func (r *Reconciler) isolate(a *attempt, receipts []write.Receipt) (again bool) {
	var writes []plan.RefusedWrite
	for i := range receipts {
		if one := &receipts[i]; one.Action.Verb != plan.Delete && (write.Refused(one.Err) || r.refusedForContent(a, one)) {
			causes, message := write.Causes(one.Err)
			writes = append(writes, plan.RefusedWrite{Action: one.Action, Causes: causes, Message: message, Large: kube.TooLarge(one.Err)})
		}
	}
	if len(writes) == 0 {
		return false
	}
	again = a.search.Refused(writes, a.contributions, a.current)
	a.tell(r)
	return again
}

// refusedForContent reports whether the ingress cluster fails at a write for what is in it:
// it has failed before, and takes the object without addresses. Who fails at that, too, is
// not well, and one who asks for a pause is, unless that is all he has said for long.
func (r *Reconciler) refusedForContent(a *attempt, one *write.Receipt) bool {
	object := one.Action.Object()
	if a.content[object] {
		return failsAt(one.Err)
	}
	pauses := kube.RetryAfter(one.Err) > 0
	if !failsAt(one.Err) || a.item.Attempt == 0 || pauses && r.pauses.Lasting(a.item.Key, time.Now()) == nil || one.Action.Endpoints == nil && one.Action.Slice == nil {
		return false
	}
	if accepted, _ := r.check(a)(one.Action.Emptied()); !accepted {
		return false
	}
	if a.content == nil {
		a.content = map[plan.Object]bool{}
	}
	a.content[object] = true
	return true
}

// failsAt reports an answer that tells nothing of what is in a write, nor that something else
// stands.
func failsAt(err error) bool {
	return kube.Answered(err) && kube.Denied(err) && !kube.NotAllowed(err) && !errors.Is(err, write.ErrStale)
}

// sure is how often a server must fail at the same write before that is taken for its answer.
const sure = 3

// check has the ingress cluster check updates of a replica that are not made.
func (r *Reconciler) check(a *attempt) plan.Try {
	return r.inTurn(a, func(writing context.Context, done func(), action *plan.Action) (bool, error) {
		defer done()
		item := a.item
		item.Lane = max(item.Lane, lanes.Addition) // it takes nothing away
		err := r.writer.Check(writing, item, action)
		fails := a.content[action.Object()]
		for n := 1; n < sure && fails && failsAt(err); n++ {
			err = r.writer.Check(writing, item, action)
		}
		switch {
		case kube.NoDryRun(err):
			return false, plan.ErrUncheckable
		case write.Refused(err), fails && failsAt(err):
			return false, nil
		}
		return err == nil, err
	})
}

// alone makes updates of a replica that take addresses away, one by one.
func (r *Reconciler) alone(a *attempt) plan.Try {
	return r.inTurn(a, func(writing context.Context, done func(), action *plan.Action) (bool, error) {
		whole := a.plan
		defer func() { a.plan = whole }()
		a.plan = plan.Single(a.current, action)
		receipts, err := r.execute(writing, writing, a.newer, a, done)
		r.noteReceipts(a, receipts)
		switch {
		case errors.Is(err, write.ErrInterrupted):
			return false, plan.ErrOvertaken
		case write.Refused(err):
			return false, nil
		}
		return err == nil, err
	})
}

// inTurn makes requests of a search as long as no removal comes, and this process leads.
func (r *Reconciler) inTurn(a *attempt, request func(writing context.Context, done func(), action *plan.Action) (bool, error)) plan.Try {
	return func(action *plan.Action) (accepted bool, err error) {
		a.heartbeat.Rest()
		defer a.heartbeat.Beat()
		if a.checks++; a.checks > 1 && a.newer.Err() != nil { // one is made each time, to get on
			return false, plan.ErrOvertaken
		}
		writing, done, leads := r.leadership.write()
		if !leads {
			return false, errStandby
		}
		r.queue.SetApart(a.item)
		return request(writing, done, action)
	}
}

// tell logs what has been left out since the last call.
func (a *attempt) tell(r *Reconciler) {
	left := a.search.LeftOut()
	for _, one := range left {
		known := func(list []plan.Refusal) bool { return slices.ContainsFunc(list, one.Is) }
		if !one.Untried && !known(a.former) && !known(a.told) {
			r.logger.Warn("the ingress cluster refused a write; what caused it is left out of the replica",
				"replica", a.item.Key.String(), "left_out", one.String(), "reason", one.Message)
		}
	}
	a.told = left
}

// giveUp reports a refusal whose cause was not found, or is none of the replica's.
func (a *attempt) giveUp(receipts []write.Receipt) {
	for i := range receipts {
		if one := &receipts[i]; write.Refused(one.Err) || kube.ByAuthorizer(one.Err) {
			a.plan.Conflicts = append(a.plan.Conflicts, plan.Conflict{Replica: a.item.Key, Reason: plan.ConflictRefused, Message: write.Shortened(one.Err.Error())})
			return
		}
	}
}

// failsAlone reports a replica that fails again and again while the ingress cluster takes
// what others write: its age does not count as lag any more. So does one that a server asks
// for one pause after the other, which counts as a failure then.
func (r *Reconciler) failsAlone(a *attempt, err error) {
	told := func(c plan.Conflict) bool { return c.Reason == plan.ConflictRefused }
	lasting := r.pauses.Lasting(a.item.Key, time.Now())
	fails := lasting != nil || a.item.Attempt+1 >= lanes.FailsAlone && kube.RetryAfter(err) == 0
	if err == nil || !fails || r.breaker.isOpen() || slices.ContainsFunc(a.plan.Conflicts, told) ||
		errors.Is(err, errWaiting) || errors.Is(err, errFight) || errors.Is(err, errNoRoom) || errors.Is(err, errStandby) {
		return
	}
	if lasting != nil {
		a.pause = 0
	}
	a.plan.Conflicts = append(a.plan.Conflicts, plan.Conflict{Replica: a.item.Key, Reason: plan.ConflictFailing, Message: write.Shortened(cmp.Or(lasting, err).Error())})
}

// undecided puts back what an attempt left aside and then failed for another reason: it
// has not shown that any of that is taken by now. The plan says so again.
func (r *Reconciler) undecided(a *attempt, err error) (left []plan.Refusal) {
	left = a.search.LeftOut()
	if err == nil || errors.Is(err, errWaiting) || errors.Is(err, errRefused) {
		return left
	}
	aside := slices.DeleteFunc(slices.Clone(a.former), func(f plan.Refusal) bool { return slices.ContainsFunc(left, f.Is) })
	if len(aside) == 0 {
		return left
	}
	left = append(left, aside...)
	a.search = plan.NewIsolation(left, nil, nil)
	held := a.held
	r.decide(a, r.opts.Source.Peek)
	a.held = held
	return left
}

// nothingTaken reports that a write was refused, and none was taken.
func nothingTaken(receipts []write.Receipt) bool {
	return slices.ContainsFunc(receipts, func(r write.Receipt) bool { return write.Refused(r.Err) }) &&
		!slices.ContainsFunc(receipts, func(r write.Receipt) bool { return r.Err == nil })
}

// lookAgain asks for a look at a replica when something that kept it back is over.
func (r *Reconciler) lookAgain(key syncer.Key) { r.look(key, "", eventResync, time.Now()) }

// hasNews reports whether a member has changed something.
func hasNews(causes []record.Cause) bool {
	return slices.ContainsFunc(causes, func(c record.Cause) bool { return c.Live && c.Cluster != "" })
}
