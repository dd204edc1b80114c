// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Writer carries out plans; nothing else in Tributary changes replicas. Every request
// has a time limit, every update and deletion the resourceVersion and UID of what the
// plan was compared with, and every answer goes into the cache before the plan's next
// stage.
//
// It uses the REST client below the typed one: the typed one waits out a
// server's Retry-After inside the call, up to ten times, with the worker held.
type Writer struct {
	core, discovery rest.Interface
	queue           *lanes.Queue
	cache           *cache.Cache
	decoder         cache.Decoder
	observer        Observer
	// timeout is the limit of one request; heartbeats are told that each ends.
	timeout    time.Duration
	heartbeats *metrics.Heartbeats
	namespaces singleflight.Group
}

// Observer is told of each request that was made.
type Observer interface {
	Write(kind, verb string, result metrics.WriteResult, took time.Duration)
}

const (
	// maxParallel bounds the writes of one stage that are under way: a replica of
	// thousands of endpoints has dozens of slices.
	maxParallel = 8
	// patience is for how long one of them holds back those behind it.
	patience = 100 * time.Millisecond
	// servicePatience is for how long the update of a Service holds back what comes after it,
	// once it is sent: nothing needs it.
	servicePatience = time.Second
)

func New(client kubernetes.Interface, queue *lanes.Queue, v *cache.Cache, d cache.Decoder, observer Observer, timeout time.Duration, heartbeats *metrics.Heartbeats) *Writer {
	return &Writer{
		core: client.CoreV1().RESTClient(), discovery: client.DiscoveryV1().RESTClient(),
		queue: queue, cache: v, decoder: d, observer: observer, timeout: timeout, heartbeats: heartbeats,
	}
}

// Receipt is what became of one action.
type Receipt struct {
	Kind   plan.Kind
	Action *plan.Action
	// Sent and acked bound the request on the monotonic clock.
	Sent, Acked time.Time
	// TakesAway is true where the action does nothing else than take addresses away.
	TakesAway bool
	// Asked is false where nothing was sent.
	Asked bool
	// Made is the version that the write made; zero for a deletion, or when
	// nothing was changed.
	Made record.Ref
	// Unrecorded is true where the server made something of the object that is not on record.
	Unrecorded bool
	// InVain is true where it serves something else than was written.
	InVain bool
	// version of the object that the answer showed.
	version string
	Err     error
}

// Turn is how far the execution of a plan may go.
type Turn struct {
	// Rest is for the second half alone: when it is done, what waits of that, and what a
	// removal does not touch, is given up.
	Rest context.Context
	// Late is done when requests that have no answer are not waited for any more.
	Late <-chan struct{}
	// Held is why an object is not to be written now, or to be written only by what takes
	// addresses away; nil: it is.
	Held func(o plan.Object, takesAway bool) error
	// Answered takes what is answered after Execute has returned; it must be safe for
	// concurrent use.
	Answered func([]Receipt)
}

// Execute carries out the plan for an item: the first half, then its stages, which are as
// urgent as what adds. Whatever is refused or fails, the others go on; only what needs it
// is left out. It ends early where the server does not answer, or asks for a pause, and with
// ErrInterrupted where its turn is over. The receipts are in the order of the actions; err
// joins their errors. busy are the objects of requests that go on, until the channels are
// closed.
func (w *Writer) Execute(ctx context.Context, item lanes.Item, p *plan.Plan, turn Turn) (receipts []Receipt, busy map[plan.Object]<-chan struct{}, err error) {
	e := execution{Writer: w, Turn: turn, item: item, replica: p.Replica, made: map[plan.Object]string{},
		failed: map[plan.Object]error{}, busy: map[plan.Object]<-chan struct{}{}}
	for i, stage := range p.Sequence() {
		if i > 0 && len(p.Removals) > 0 {
			e.item.Lane = max(item.Lane, lanes.Addition)
		}
		e.rest = turn.Rest
		if e.first = i == 0 && len(p.Removals) > 0; e.first {
			e.rest = ctx
		}
		e.run(ctx, stage)
		if e.over {
			break
		}
	}
	return e.receipts, e.busy, errors.Join(e.errs...)
}

// execution is one run of a plan.
type execution struct {
	*Writer
	Turn
	item    lanes.Item
	replica syncer.Key
	// rest and first are of the stage in hand.
	rest     context.Context //nolint:containedctx // of the stage in hand
	first    bool
	receipts []Receipt
	errs     []error
	// made are the versions of what has been updated: one object may come twice.
	made   map[plan.Object]string
	failed map[plan.Object]error
	busy   map[plan.Object]<-chan struct{}
	// over is true when the server is away or has asked for a pause, or the turn is over.
	over bool
}

// sending is a write that is under way.
type sending struct {
	action    *plan.Action
	takesAway bool
	answered  chan struct{}
	receipts  []Receipt
	// sent is closed when the update of a Service is; late is set when it is not waited for
	// any more.
	sent chan struct{}
	late bool
	// left is true once either side has turned to something else: the one that comes second
	// has the receipts.
	left atomic.Bool
}

// run carries out the actions of one stage side by side.
func (e *execution) run(ctx context.Context, stage []plan.Action) {
	var writes []*sending
	limit, over := make(chan struct{}, maxParallel), make(chan struct{})
	for i := range stage {
		if a := e.ready(&stage[i]); a != nil {
			s := &sending{action: a, answered: make(chan struct{})}
			writes = append(writes, s)
			s.takesAway = e.takesAway(a)
			if a.Kind == plan.KindService && a.Verb == plan.Update {
				s.sent = make(chan struct{})
			}
			go e.send(ctx, e.rest, e.item, s, limit, over)
		}
	}
	for _, s := range writes {
		e.await(s)
	}
	close(over)
	for _, s := range writes {
		if (e.over || s.late) && s.left.CompareAndSwap(false, true) {
			object := s.action.Object()
			e.busy[object], e.failed[object] = s.answered, ErrInterrupted
			e.errs = append(e.errs, ErrInterrupted)
			continue
		}
		<-s.answered
		e.receipts = append(e.receipts, s.receipts...)
		for i := range s.receipts {
			e.note(&s.receipts[i])
		}
	}
}

// await waits for an answer as long as what comes after it has to.
func (e *execution) await(s *sending) {
	sent, slow := s.sent, (<-chan time.Time)(nil)
	for {
		select {
		case <-s.answered:
			return
		case <-sent:
			sent, slow = nil, time.After(servicePatience)
		case <-slow:
			s.late = true
			return
		case <-e.Late:
			e.over = true
			return
		}
	}
}

// send carries out one action when fewer than limit are under way and not late, unless over
// is closed by then.
func (e *execution) send(ctx, rest context.Context, item lanes.Item, s *sending, limit chan struct{}, over <-chan struct{}) {
	defer close(s.answered)
	select {
	case limit <- struct{}{}:
	case <-over:
		return
	}
	leave := func() { <-limit }
	late := time.AfterFunc(patience, leave)
	s.receipts = e.do(ctx, rest, item, e.replica, s.action, s.sent)
	for i := range s.receipts {
		s.receipts[i].TakesAway = s.takesAway || i > 0
	}
	if late.Stop() {
		leave()
	}
	if !s.left.CompareAndSwap(false, true) {
		e.Answered(s.receipts)
	}
}

// ready returns the action with the version that the first half has made, or nil where
// what it needs has failed.
func (e *execution) ready(a *plan.Action) *plan.Action {
	if held := e.Held(a.Object(), e.takesAway(a)); held != nil {
		e.failed[a.Object()] = held
		e.errs = append(e.errs, held)
		return nil
	}
	lacks := slices.ContainsFunc(a.Needs, func(o plan.Object) bool { return e.failed[o] != nil })
	if err := e.failed[a.Object()]; lacks || err != nil && !Refused(err) {
		e.failed[a.Object()] = cmp.Or(err, errNeeds)
		return nil
	}
	if version := e.made[a.Object()]; version != "" && a.Standing != nil {
		next, standing := *a, *a.Standing
		standing.ResourceVersion = version
		next.Standing = &standing
		return &next
	}
	return a
}

// takesAway reports whether an action of the stage in hand does nothing else.
func (e *execution) takesAway(a *plan.Action) bool {
	return e.first && (a.Otherwise == nil || a.Verb == plan.Delete)
}

// errNeeds is why an action was left out.
var errNeeds = errors.New("what it needs has failed")

// ErrInterrupted is why an action was given up.
var ErrInterrupted = errors.New("a removal came first")

func (e *execution) note(r *Receipt) {
	object := r.Action.Object()
	if r.Err == nil {
		if r.version != "" {
			e.made[object] = r.version
		}
		return
	}
	e.errs = append(e.errs, r.Err)
	e.failed[object] = r.Err
	e.over = e.over || !Answered(r.Err) || kube.RetryAfter(r.Err) > 0
}

// do carries out one action and, where a server answers and does not take it, the one that
// may take its place: an object that cannot be deleted can perhaps be emptied. Webhooks
// choose their codes freely, so it does not matter which it is; an update that failed for
// want of the server's health is tried once more as it is.
func (w *Writer) do(ctx, rest context.Context, item lanes.Item, replica syncer.Key, a *plan.Action, sent chan struct{}) []Receipt {
	r := w.one(ctx, rest, item, replica, a, sent)
	if a.Otherwise == nil || r.Err == nil || errors.Is(r.Err, ErrStale) || !Answered(r.Err) || a.Verb != plan.Delete && errors.Is(r.Err, ErrUnclear) {
		return []Receipt{r}
	}
	return []Receipt{r, w.one(ctx, rest, item, replica, a.Otherwise, nil)}
}

// one makes one write when the item has a slot for it. The error, if any, is a *WriteError, and wraps ErrStale or
// errUnclear when the object has been looked at. When rest is done it waits no longer
// for a slot, nor for the answer to what no removal needs; who reads the object next
// learns what became of it.
func (w *Writer) one(ctx, rest context.Context, item lanes.Item, replica syncer.Key, a *plan.Action, sent chan struct{}) Receipt {
	id := objectID(replica, a)
	// Several replicas may make one namespace at once, so it has no own writes.
	tracked := a.Kind != plan.KindNamespace
	r := Receipt{Kind: a.Kind, Action: a, Sent: time.Now()}
	slot, err := w.queue.Acquire(accepting(rest), item)
	if err != nil {
		if rest.Err() != nil && ctx.Err() == nil {
			err = ErrInterrupted
		}
		r.Err = &Error{Verb: a.Verb, Kind: a.Kind, Object: id.String(), Err: err}
		return r
	}
	if tracked {
		w.cache.Begin(id)
	}
	r.Sent, r.Asked = time.Now(), true
	if sent != nil {
		close(sent)
	}
	sending := rest
	if a.Verb == plan.Update && (a.Endpoints != nil || a.Slice != nil) {
		sending = ctx // a removal would have to wait for it, or to find out
	}
	result, err := w.send(sending, replica, a, false)
	r.Acked = time.Now()
	if err != nil && sending.Err() != nil && ctx.Err() == nil {
		slot.End(lanes.Unmeasured)
		w.cache.Finish(id, cache.Outcome{})
		r.Asked, r.Err = false, &Error{Verb: a.Verb, Kind: a.Kind, Object: id.String(), Err: ErrInterrupted}
		return r
	}
	v := classify(err)
	slot.End(measured(v))
	w.observer.Write(string(a.Kind), string(a.Verb), v.result, r.Acked.Sub(r.Sent))
	out := cache.Outcome{}
	switch {
	case err == nil && a.Verb == plan.Delete:
		out.Gone = &cache.Object{ID: id, Replica: replica, Claim: plan.ClaimRecorded, UID: a.Standing.UID, Revision: cache.Revision(a.Standing.ResourceVersion)}
	case err == nil:
		if tracked {
			r.InVain = !a.Answered(result.Service, result.Endpoints, result.Slice, w.cache.OwnerUID(replica, a.Standing))
		}
		out.Object, out.Answered = result, tracked
		r.Unrecorded = result.Unrecorded()
		r.version = result.Version()
		out.Wrote = tracked && (a.Standing == nil || result.Revision != cache.Revision(a.Standing.ResourceVersion))
		if out.Wrote {
			r.Made = cache.RefOf(result)
		}
	case v.verify:
		out, err = w.verify(ctx, item, id, a.Standing, v, err)
	case kube.NamespaceTerminating(err):
		err = fmt.Errorf("%w: %w", ErrNamespaceTerminating, err)
	}
	w.cache.Finish(id, out)
	if err != nil {
		r.Err = &Error{Verb: a.Verb, Kind: a.Kind, Object: id.String(), Err: err}
	}
	return r
}
