// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// maxPasses bounds how often one key is planned anew before it goes back to the
// queue: conflicts are settled at once, but not for ever.
const maxPasses = 5

// maxUnclear is how many unclear answers a pass may follow at once with another try: a
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

// workerBound is for how long a worker may be at one plan: the requests of one have their
// own limits, and wait for their turn.
const workerBound = 5 * time.Minute

// pass is the state of the work on one key.
type pass struct {
	item lanes.Item
	// taken is when the item was handed out.
	taken     time.Time
	heartbeat *metrics.Heartbeat
	rec       record.Change
	plan      plan.Plan
	// rejected are the addresses that the members named and nobody may have.
	rejected []plan.ClusterRejection
	held     []metrics.HeldChange
	commit   func()
	refs     []record.Ref
	repair   bool
	// asked is set once a request was made of the ingress cluster.
	asked bool
	// contributions and current are what the plan was made of.
	contributions []plan.Contribution
	current       plan.Current
	// replica is what is wanted, whatever the ingress cluster refuses of it; nil where nobody
	// wants it. wantedKnown is false where that is not certain.
	replica     *plan.Desired
	wantedKnown bool
	// search finds what the server refuses; former is what had to be left out before
	// this pass, told what was logged in it.
	search       *plan.Isolation
	former, told []plan.Refusal
}

// process brings one replica up to date, records what came of it and ends the
// item: with Done when the replica is as it should be or waits for an event
// that is watched, with Retry in all other cases. ended is false where it was only
// compared, and waits in its lane to be written. lane is that of its difference.
func (r *Reconciler) process(ctx context.Context, item lanes.Item, heartbeat *metrics.Heartbeat, taken time.Time) (lane lanes.Lane, ended bool) {
	p := &pass{item: item, taken: taken, heartbeat: heartbeat, repair: repairOnly(item.Causes)}
	if p.repair && item.Attempt > 0 && r.throttle.Held(item.Key, taken) > 0 {
		r.queue.Retry(item, 0) // what is wrong was told when it was first held
		return item.Lane, true
	}
	p.rec = record.Begin(item.Key.Namespace, item.Key.Name, item.Lane.String(), item.Causes, item.Dropped, taken)
	p.rec.Attempt = item.Attempt
	known, former := r.refusals.Known(item.Key, item.Lane == lanes.Removal, hasNews(item.Causes), taken)
	if p.former = former; len(known) > 0 {
		former = nil // it is not their turn
	}
	p.search = plan.NewIsolation(known, former)
	result, err := r.attempt(ctx, p)
	if errors.Is(err, errNoRoom) {
		return item.Lane, false
	}
	r.failsAlone(p, err)
	r.contested(p)
	met, now := p.search.Met(), time.Now()
	settled := err == nil || errors.Is(err, errWaiting) || errors.Is(err, errRefused)
	r.refusals.Settle(item.Key, r.undecided(p, err), met, errors.Is(err, errRefused), now)
	p.rec.Lane = p.item.Lane.String()
	p.rec.End(now, result, cmp.Or(err, p.obstacle(result)))
	r.report(p)
	leads := r.leadership.leads()
	settled = settled && (leads || result != record.Held)          // who leads tells what keeps a replica from being written
	if leads && (item.Attempt == 0 || !errors.Is(err, errFight)) { // a slowed repair is told once
		seq := r.recorder.Change(p.rec)
		r.recorder.Expect(seq, &p.rec, p.refs)
	}
	if settled {
		if p.commit != nil && err == nil {
			p.commit()
		}
		r.queue.Done(item.Key)
	} else {
		r.queue.Retry(p.item, write.RetryAfter(err))
	}
	if item.Trial && !p.asked && !errors.Is(err, errStandby) { // nothing was learnt of the ingress cluster
		r.queue.RetryNow()
	}
	return p.item.Lane, true
}

// repairOnly reports whether nothing but the ingress cluster itself asked for
// the work.
func repairOnly(causes []record.Cause) bool {
	for i := range causes {
		if causes[i].Event != cache.EventRepair {
			return false
		}
	}
	return len(causes) > 0
}

// obstacle says in the record why a change was held that no error stopped.
func (p *pass) obstacle(result record.Result) error {
	switch {
	case result != record.Held:
		return nil
	case len(p.plan.Conflicts) > 0:
		return fmt.Errorf("conflict: %s: %s", p.plan.Conflicts[0].Reason, p.plan.Conflicts[0].Message)
	case len(p.plan.Held) > 0:
		return fmt.Errorf("%s: the last ready endpoints of %s stay", p.plan.Held[0].Reason, p.plan.Held[0].Cluster)
	case len(p.held) > 0:
		return fmt.Errorf("%s: %s", p.held[0].Reason, p.held[0].Message)
	}
	return nil
}

// errWaiting wraps the reason for which a replica waits for an event.
var errWaiting = errors.New("waiting")

// errRefused wraps refusals of which no cause was found that could be left out.
var errRefused = errors.New("refused as it is")

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

// attempt plans and writes until nothing is left to do, an error ends it, or
// passes run out.
func (r *Reconciler) attempt(ctx context.Context, p *pass) (record.Result, error) {
	var err error
	unclear, interrupts, admitted := 0, 0, false
	for n := 0; n < maxPasses; n++ {
		p.heartbeat.Beat()
		newer, interrupt := context.WithCancel(ctx)
		defer interrupt()
		if interrupts < maxInterrupts {
			r.queue.OnRemoval(p.item, interrupt) // from before what is known is asked for
		}
		r.refresh(p)
		r.decide(p, r.opts.Source.Gather)
		r.announce(p)
		now := time.Now()
		if p.rec.Stages.Compute == 0 {
			p.rec.Computed(now)
		}
		if p.repair && r.throttle.Held(p.item.Key, now) > 0 {
			if !p.plan.Empty() {
				p.held = append(p.held, metrics.HeldChange{Reason: "repair_fight", Message: errFight.Error()})
			}
			return record.Held, errFight
		}
		if p.plan.Empty() {
			if p.search.Accepted() {
				n--
				continue
			}
			if n == 0 && p.repair { // to look costs, too
				r.throttle.Repaired(p.item.Key, now)
			}
			return r.finished(p)
		}
		if unclear > maxUnclear {
			return record.Failed, err
		}
		if lane := urgency(p.item.Lane, &p.plan.Delta); !admitted && !r.queue.Admit(&p.item, lane) {
			return record.Held, errNoRoom
		}
		admitted = true
		writing, done, leads := r.leadership.write()
		if !leads {
			return record.Held, errStandby
		}
		if p.plan.Delta.Lost {
			p.item.Lane = lanes.Removal // perhaps since an earlier attempt
		}
		rest, cancel := context.WithCancel(writing)
		unlink := context.AfterFunc(newer, cancel)
		var receipts []write.Receipt
		receipts, err = r.writer.Execute(writing, rest, p.item, &p.plan)
		unlink()
		cancel()
		done()
		r.book(p, receipts)
		switch {
		case errors.Is(err, write.ErrInterrupted):
			interrupts++
			n--
		case err == nil && p.search.Accepted():
			n-- // the search has a bound of its own
		case err == nil && p.plan.Again:
		case err == nil:
			r.repaired(p, now)
			if p.plan.Waiting != "" {
				return record.Held, waiting(&p.plan)
			}
			return record.Written, nil
		case write.RetryAfter(err) > 0:
			return record.Failed, err
		case r.isolate(p, receipts):
			n--
		case errors.Is(err, write.ErrUnclear):
			unclear++
		case !errors.Is(err, write.ErrStale):
			p.giveUp(receipts)
			return record.Failed, withoutRemedy(receipts, err)
		}
	}
	if err == nil {
		err = fmt.Errorf("replica %s is not settled after %d passes", p.item.Key, maxPasses)
	}
	return record.Failed, err
}

// refresh takes in what has come since the item was handed out, such as the removal that
// broke off an attempt: what is decided next is for that, too, and is recorded with it.
func (r *Reconciler) refresh(p *pass) {
	if !r.queue.Refresh(&p.item) {
		return
	}
	fresh := record.Begin(p.item.Key.Namespace, p.item.Key.Name, p.rec.Lane, p.item.Causes, p.item.Dropped, p.taken)
	p.rec.Cluster, p.rec.Cause, p.rec.Causes, p.rec.CausesDropped = fresh.Cluster, fresh.Cause, fresh.Causes, fresh.CausesDropped
	p.rec.Stages.Queue = fresh.Stages.Queue
	p.repair = repairOnly(p.item.Causes)
}

// finished ends a pass that has nothing (more) to write.
func (r *Reconciler) finished(p *pass) (record.Result, error) {
	switch {
	case p.plan.Waiting != "":
		return record.Held, waiting(&p.plan)
	case p.rec.Writes > 0:
		return record.Written, nil
	case len(p.plan.Conflicts) > 0 || len(p.plan.Held) > 0 || len(p.held) > 0:
		return record.Held, nil
	}
	return record.Dropped, nil
}

func waiting(p *plan.Plan) error {
	return fmt.Errorf("replica %s: %w for the ingress cluster: %s", p.Replica, errWaiting, p.Waiting)
}

// decide gathers and plans.
func (r *Reconciler) decide(p *pass, gather func(syncer.Key) Snapshot) {
	key := p.item.Key
	current := r.cache.Current(key)
	p.current = current
	p.replica, p.wantedKnown = nil, false
	g := gather(key)
	settings := g.Settings
	if settings.MayWrite != nil && !settings.MayWrite(key.Namespace) || r.opts.Only != nil && !slices.Contains(r.opts.Only, key.Namespace) {
		p.plan, p.commit, p.rejected, p.held, p.contributions = plan.OutOfBounds(current), nil, nil, nil, nil
		return
	}
	p.commit, p.rejected, p.held = g.Commit, nil, nil
	contributions, known := completed(g, current)
	p.contributions = contributions
	var left []plan.Refusal
	if p.search != nil {
		left = p.search.LeftOut()
	}
	accepted, refused := plan.Without(key, contributions, left, current)
	plan.Steer(key, accepted, settings.Policy)
	switch {
	case len(accepted) > 0 && key.Name != "": // slices that lost their Service's name are nobody's
		replica := plan.Merge(key, accepted, current, settings.Settings)
		p.rejected = replica.Rejected
		p.plan = plan.Diff(current, &replica, settings.Settings)
		p.replica = &replica
	case len(refused) > 0: // nothing stands, and nothing is accepted
		p.plan = plan.Plan{Replica: key}
	case !known && current.Ours():
		p.plan = plan.Plan{Replica: key}
		p.held = []metrics.HeldChange{{Reason: heldUnseen, Message: "nobody wants this replica, but not every member has been seen yet"}}
	default:
		p.plan = plan.Diff(current, nil, settings.Settings)
	}
	if p.wantedKnown = known; len(left) > 0 && len(contributions) > 0 {
		plan.Steer(key, contributions, settings.Policy)
		replica := plan.Merge(key, contributions, current, settings.Settings)
		p.replica = &replica
	}
	p.plan.Conflicts = append(p.plan.Conflicts, refused...)
}

// heard takes from an answer, or from its absence, what it tells of the ingress cluster.
func (r *Reconciler) heard(replica syncer.Key, one *write.Receipt) {
	if !one.Asked {
		return
	}
	if one.Err == nil || write.Answered(one.Err) {
		r.contact.Store(one.Acked.UnixNano())
	}
	switch {
	case one.Err == nil:
		r.takenIn.Store(&replica.Namespace)
	case write.Denied(one.Err):
		r.deniedIn.Store(&replica.Namespace)
	}
	r.breaker.answer(one.Err)
}

// book enters what was written into the record.
func (r *Reconciler) book(p *pass, receipts []write.Receipt) {
	d := &p.plan.Delta
	rec := &p.rec
	if nothingTaken(receipts) {
		d = &plan.Delta{} // what was refused has not changed anything
	}
	rec.Added, rec.Removed = united(rec.Added, d.Added), united(rec.Removed, d.Removed)
	rec.Readied, rec.Unreadied = united(rec.Readied, d.Readied), united(rec.Unreadied, d.Unreadied)
	spans := map[plan.Kind][2]time.Time{}
	for i := range receipts {
		one := &receipts[i]
		r.heard(p.item.Key, one)
		p.asked = p.asked || one.Asked
		if one.Err != nil {
			continue
		}
		rec.Writes++
		if one.Made != (record.Ref{}) {
			p.refs = append(p.refs, one.Made)
		}
		span, ok := spans[one.Kind]
		if !ok || one.Sent.Before(span[0]) {
			span[0] = one.Sent
		}
		if one.Acked.After(span[1]) {
			span[1] = one.Acked
		}
		spans[one.Kind] = span
	}
	for kind, span := range spans {
		took := span[1].Sub(span[0])
		switch kind {
		case plan.KindService:
			rec.Stages.WriteService += took
		case plan.KindEndpoints:
			rec.Stages.WriteEndpoints += took
		case plan.KindEndpointSlice:
			rec.Stages.WriteSlices += took
		}
	}
}

// united returns both sorted lists as one; nearly always one is empty.
func united(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// repaired notes a finished repair.
func (r *Reconciler) repaired(p *pass, now time.Time) {
	if p.repair && r.throttle.Repaired(p.item.Key, now) {
		r.logger.Warn(errFight.Error(), "replica", p.item.Key.String(), "cause", p.rec.Cause.String())
	}
}

// report tells what is wrong with the replica after the pass.
func (r *Reconciler) report(p *pass) {
	t := metrics.Trouble{Held: p.held}
	for _, c := range p.plan.Conflicts {
		t.Conflicts = append(t.Conflicts, metrics.Conflict{Reason: string(c.Reason), Cluster: c.Cluster, Message: c.Message})
	}
	for _, h := range p.plan.Held {
		t.Held = append(t.Held, metrics.HeldChange{Cluster: h.Cluster, Reason: string(h.Reason), Message: "the last ready endpoints stay"})
	}
	if w := p.plan.Waiting; w != "" {
		t.Held = append(t.Held, metrics.HeldChange{Reason: string(w), Message: "the replica waits for the ingress cluster"})
	}
	for _, rejected := range p.rejected {
		t.Rejected = append(t.Rejected, metrics.Rejection{
			Cluster: rejected.Cluster, Address: rejected.Address, Reason: string(rejected.Reason),
		})
	}
	r.recorder.Report(p.item.Key.Namespace, p.item.Key.Name, t)
	r.events.report(p.item.Key, p.plan.Conflicts)
}

// PlanAll returns what Run would do now, for every replica, sorted; most plans have
// nothing to do or to report. Nothing is written. It needs a running Observe (or Run),
// and members that have synced as far as they can.
func (r *Reconciler) PlanAll(ctx context.Context) ([]plan.Plan, error) {
	if err := r.WaitForSync(ctx); err != nil {
		return nil, fmt.Errorf("listing the ingress cluster: %w", errors.Join(err, r.Trouble()))
	}
	keys := r.cache.Replicas(nil)
	keys = slices.AppendSeq(keys, r.opts.Source.Replicas())
	slices.SortFunc(keys, syncer.Key.Compare)
	keys = slices.Compact(keys)
	plans := make([]plan.Plan, 0, len(keys))
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := &pass{item: lanes.Item{Key: key}}
		r.decide(p, r.opts.Source.Peek)
		plans = append(plans, p.plan)
	}
	return plans, nil
}
