// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// maxRounds bounds how often one key is planned anew before it goes back to the
// queue: conflicts are settled at once, but not for ever.
const maxRounds = 5

// maxUnclear is how many unclear answers an attempt may follow at once with another try: a
// cut connection is mended by one. A server that keeps failing is given time.
const maxUnclear = 1

// work is one worker: it takes keys until ctx is done and ends them with the
// longer-lived writing context.
func (r *Reconciler) work(ctx, writing context.Context) {
	heartbeat := r.opts.Heartbeats.Start("a worker", workerBound)
	defer heartbeat.End()
	for {
		heartbeat.Rest()
		item, ok := r.queue.Get(ctx)
		if !ok {
			return
		}
		taken := time.Now()
		if lane, ended := r.process(writing, item, heartbeat, taken); ended {
			r.recorder.WorkDone(lane.String(), time.Since(taken))
		}
	}
}

// workerBound is for how long a worker may be at one plan. While its requests wait for their
// turn, for which there is no limit, and while they are under way, it rests: they have
// heartbeats of their own.
const workerBound = time.Minute

// process brings one replica up to date, records what came of it and ends the
// item: with Done when the replica is as it should be or waits for an event
// that is watched, with Retry in all other cases. ended is false where it was only
// compared, and waits in its lane to be written. lane is that of its difference.
func (r *Reconciler) process(ctx context.Context, item lanes.Item, heartbeat *metrics.Heartbeat, taken time.Time) (lane lanes.Lane, ended bool) {
	a := &attempt{item: item, taken: taken, heartbeat: heartbeat, repair: repairOnly(item.Causes)}
	if a.repair && item.Attempt > 0 && r.throttle.Held(item.Key, taken) > 0 {
		r.queue.Retry(item, 0) // what is wrong was told when it was first held
		return item.Lane, true
	}
	a.rec = record.Begin(item.Key.Namespace, item.Key.Name, item.Lane.String(), item.Causes, item.Dropped, taken)
	a.rec.Attempt = item.Attempt
	known, former := r.refusals.Known(item.Key, item.Lane == lanes.Removal, hasNews(item.Causes), taken)
	if a.former = former; len(known) > 0 {
		former = nil // it is not their turn
	}
	r.withhold(a, slices.Concat(known, a.former))
	a.search = plan.NewIsolation(known, former, r.check(a))
	a.search.Make = r.alone(a)
	a.search.Shuffle = func(all []netip.Addr) {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	result, err := r.settle(ctx, a)
	if errors.Is(err, errNoRoom) {
		return item.Lane, false
	}
	r.failsAlone(a, err)
	r.contested(a)
	now, stuck := time.Now(), errors.Is(err, errRefused)
	settled := err == nil || errors.Is(err, errWaiting) || stuck
	left := r.undecided(a, err)
	r.refusals.Settle(item.Key, left, write.Pass{
		Refused: a.search.Met() || errors.Is(err, errInVain), Stuck: stuck, Whole: stuck || a.search.Whole(), Taken: a.rec.Writes > 0}, now)
	r.withhold(a, left)
	a.rec.Lane = a.item.Lane.String()
	a.rec.End(now, result, cmp.Or(err, a.obstacle(result)))
	r.report(a)
	leads := r.leadership.leads()
	settled = settled && (leads || result != record.Held)                              // who leads tells what keeps a replica from being written
	if leads && (item.Attempt == 0 || a.rec.Writes > 0 || !errors.Is(err, errFight)) { // a slowed repair is told once
		seq := r.recorder.Change(a.rec)
		r.recorder.Expect(seq, &a.rec, a.refs)
	}
	if settled {
		r.pauses.Settled(item.Key)
		if a.commit != nil && err == nil {
			a.commit()
		}
		r.queue.Done(item.Key)
	} else {
		r.queue.Retry(a.item, a.pause)
	}
	if item.Trial && !a.asked && !errors.Is(err, errStandby) { // nothing was learnt of the ingress cluster
		r.queue.RetryNow()
	}
	return a.item.Lane, true
}

// errWaiting wraps the reason for which a replica waits for an event.
var errWaiting = errors.New("waiting")

// errRefused wraps refusals of which no cause was found that could be left out.
var errRefused = errors.New("refused as it is")

// errInVain is why what was taken is tried again.
var errInVain = errors.New("the ingress cluster takes what is written and keeps something else: a webhook edits it; let it pass over what has label " + plan.LabelManagedBy + ": " + plan.ManagedBy)

// withoutRemedy marks an error as such a refusal, unless there is more to it. It is
// tried again at the pace of refusals, not at that of failures.
func withoutRemedy(receipts []write.Receipt, err error) error {
	if slices.ContainsFunc(receipts, func(r write.Receipt) bool { return r.Err != nil && !write.Refused(r.Err) }) {
		return err
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}

// errFight is why a repair waits.
var errFight = errors.New("somebody keeps changing this replica; repairs are slowed down")

// errRival is why what another process has just written is not undone.
var errRival = fmt.Errorf("another process of this installation has just written the contrary: %w", errFight)

// maxInterrupts bounds how often removals may break off the rest of the work on a key.
const maxInterrupts = 3

// errNoRoom says that the key waits in the lane of its difference.
var errNoRoom = errors.New("others are written before")

// urgency is the lane that a difference asks for, whatever news it came from: only what
// changes traffic goes before bulk work.
func urgency(news lanes.Lane, d *plan.Delta) lanes.Lane {
	switch {
	case d.Lost:
		return lanes.Removal
	case news != lanes.Bulk && len(d.Added)+len(d.Readied)+len(d.Removed) > 0:
		return lanes.Addition
	default:
		return lanes.Bulk
	}
}

// settle plans and writes until nothing is left to do, an error ends it, or
// rounds run out.
func (r *Reconciler) settle(ctx context.Context, a *attempt) (record.Result, error) {
	defer a.awaitAnswers(context.Background()) // before another worker has the key
	var err error
	unclear, failures, interrupts, admitted := 0, 0, 0, false
	for n := 0; n < maxRounds; n++ {
		a.heartbeat.Beat()
		newer, interrupt := context.WithCancel(ctx)
		defer interrupt()
		r.queue.OnRemoval(a.item, interrupt) // from before what is known is asked for
		a.newer, a.checks = newer, 0
		r.refresh(a)
		r.decide(a, r.opts.Source.Gather)
		now := time.Now()
		if a.search.Knows() && a.plan.Bares(a.contributions) && r.refusals.TryNow(a.item.Key, now) {
			a.search.Again()
			r.decide(a, r.opts.Source.Gather)
		}
		r.announce(a)
		if a.rec.Stages.Compute == 0 {
			a.rec.Computed(now)
		}
		if a.repair && r.throttle.Held(a.item.Key, now) > 0 {
			if !a.plan.Empty() {
				a.held = append(a.held, metrics.HeldChange{Reason: "repair_fight", Message: errFight.Error()})
			}
			return record.Held, errFight
		}
		yields := r.yield(a, now)
		a.besideBusy()
		if yields && a.plan.Empty() {
			a.held = append(a.held, metrics.HeldChange{Reason: "repair_fight", Message: errRival.Error()})
			return record.Held, errRival
		}
		if a.plan.Empty() {
			if len(a.busy) > 0 {
				awaiting, cancel := context.WithCancel(newer)
				r.queue.OnNews(a.item, cancel)
				a.awaitAnswers(awaiting)
				cancel()
				if failed := a.late.Swap(nil); failed != nil && len(a.busy) == 0 {
					return record.Failed, *failed
				}
				n--
				continue
			}
			if a.search.Accepted() {
				n--
				continue
			}
			if n == 0 && a.repair { // to look costs, too
				r.throttle.Repaired(a.item.Key, now)
			}
			return r.finished(a)
		}
		if unclear > maxUnclear {
			return record.Failed, err
		}
		if lane := urgency(a.item.Lane, &a.plan.Delta); !admitted && !r.queue.Admit(&a.item, lane) {
			return record.Held, errNoRoom
		}
		admitted = true
		writing, done, leads := r.leadership.write()
		if !leads {
			return record.Held, errStandby
		}
		if a.plan.Delta.Lost {
			a.item.Lane = lanes.Removal // perhaps since an earlier attempt
		}
		rest, cancel := context.WithCancel(writing)
		unlink := func() bool { return true }
		if interrupts < maxInterrupts {
			unlink = context.AfterFunc(newer, cancel)
		}
		var receipts []write.Receipt
		receipts, err = r.execute(writing, rest, newer, a, func() { cancel(); done() })
		unlink()
		r.noteReceipts(a, receipts)
		a.separate = a.separate || err != nil
		switch {
		case len(a.busy) > 0:
			interrupts++
			n--
			awaiting, cancel := context.WithCancel(newer)
			switch pause := r.pauses.Left(a.item.Key, time.Now()); {
			case r.isolate(a, receipts):
				cancel()
			case pause > 0:
				time.AfterFunc(pause, cancel)
			case failed(receipts):
				failures++
				time.AfterFunc(patience<<min(failures-1, 5), cancel)
			}
			r.queue.OnNews(a.item, cancel)
			a.awaitAnswers(awaiting)
			cancel()
			if failed := a.late.Swap(nil); failed != nil && len(a.busy) == 0 {
				return record.Failed, *failed
			}
		case errors.Is(err, write.ErrInterrupted):
			interrupts++
			n--
		case err == nil && a.search.Accepted():
			n-- // the search has a bound of its own
		case err == nil && inVain(receipts):
			a.plan.Conflicts = append(a.plan.Conflicts, plan.Conflict{Replica: a.item.Key, Reason: plan.ConflictMutated, Message: errInVain.Error()})
			return record.Failed, fmt.Errorf("%w: %w", errRefused, errInVain)
		case err == nil && (a.plan.Again || yields || lacksRecord(receipts)):
		case err == nil:
			r.repaired(a, now)
			if a.plan.Waiting != "" {
				return record.Held, waiting(&a.plan)
			}
			return record.Written, nil
		case r.isolate(a, receipts):
			n--
		case kube.RetryAfter(err) > 0 || errors.Is(err, write.ErrPaused):
			if !slices.ContainsFunc(receipts, func(one write.Receipt) bool { return one.Err != nil && kube.RetryAfter(one.Err) == 0 }) {
				a.pause = r.pauses.Left(a.item.Key, time.Now())
			}
			return record.Failed, err
		case errors.Is(err, write.ErrUnclear):
			unclear++
		case !errors.Is(err, write.ErrStale):
			a.giveUp(receipts)
			return record.Failed, withoutRemedy(receipts, err)
		}
	}
	if err == nil {
		err = fmt.Errorf("replica %s is not settled after %d rounds", a.item.Key, maxRounds)
	}
	return record.Failed, err
}

// finished ends an attempt that has nothing (more) to write.
func (r *Reconciler) finished(a *attempt) (record.Result, error) {
	switch {
	case a.plan.Waiting != "":
		return record.Held, waiting(&a.plan)
	case a.rec.Writes > 0:
		return record.Written, nil
	case len(a.plan.Conflicts) > 0 || len(a.plan.Held) > 0 || len(a.held) > 0:
		return record.Held, nil
	}
	return record.Dropped, nil
}

func waiting(p *plan.Plan) error {
	return fmt.Errorf("replica %s: %w for the ingress cluster: %s", p.Replica, errWaiting, p.Waiting)
}
