// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"errors"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/reconcile/sinks/state"
	"tributary.dev/tributary/syncer"
)

const (
	// savePace is the time between two writings of what was acknowledged.
	savePace = 10 * time.Second
	// believed is after how many times it is believed that the state may not be read: an API
	// server that has just started denies what it grants a moment later. patience is for how
	// long it is tried to read it otherwise, before everything is told; readPause the time
	// between.
	believed  = 3
	patience  = 5 * time.Second
	readPause = 500 * time.Millisecond
	// ahead is by how much generations begin after the clock where it is not known which were
	// given: more than processes that followed one another claimed, and clocks differ.
	ahead = 10 * time.Minute
	// share bounds how much of the time is spent on a state that cannot be written, while
	// something is to be told: this many times as long as it took it is not tried.
	share = 4
)

// memory is what a sink remembers of its last term where that could not be written down.
type memory struct {
	records    []ledger.Record
	generation int64
	// written is when something was last on record.
	written time.Time
}

// keeping is how what was acknowledged is kept in a term.
type keeping struct {
	*state.Keeper
	// unkept is set while it cannot be written down; it is said once.
	unkept bool
	// changed is set when there is something to write down, at the time due; retry paces what
	// fails.
	changed bool
	due     time.Time
	retry   wait.Backoff
	// bare are the Services that were told since the last writing without being on record as
	// in doubt; until blocked it is not tried to put others there.
	bare    map[syncer.Key]bool
	blocked time.Time
}

func newKeeping(where state.Where, receiver string, unkept bool) keeping {
	return keeping{Keeper: state.NewKeeper(where, receiver), unkept: unkept, bare: map[syncer.Key]bool{}, retry: retries()}
}

// retries are the pauses of what is tried again at a pace of its own.
func retries() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: savePace}
}

// touch says that there is something to write down.
func (k *keeping) touch(now time.Time) {
	if !k.changed {
		k.changed, k.due = true, later(k.due, now.Add(savePace))
	}
}

// begin reads what the receiver acknowledged; false: ctx is done. What cannot be read in time
// is told, and tried to be read again.
func (t *term) begin(ctx context.Context) bool {
	began := time.Now()
	for tries := 1; ctx.Err() == nil; tries++ {
		kept, err := t.keeping.Load(ctx)
		switch {
		case err == nil:
			t.start(kept)
			return true
		case errors.Is(err, state.ErrUnreadable):
			t.logger.Error("what the receiver acknowledged cannot be read: it is told everything", "error", err)
			t.start(kept)
			return true
		case apierrors.IsForbidden(err) && tries >= believed, errors.Is(err, state.ErrForeign), time.Since(began) >= patience:
			t.start(kept)
			t.written(ctx, time.Now(), err)
			return true
		}
		t.note(func(s *Status) { s.LastError = err.Error() })
		timer := time.NewTimer(readPause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return false
}

// start begins to tell. What this process remembers is the whole truth, unless another has
// written since.
func (t *term) start(kept state.Kept) {
	now := time.Now()
	since := kept.Written
	if since.IsZero() && !t.keeping.Unread() {
		since = now // nobody told
	}
	if kept.Generation == 0 || t.keeping.Unread() {
		kept.Generation = now.Add(ahead).UnixMicro()
	}
	t.mu.Lock()
	t.ledger.Begin(t.memory.records, t.memory.generation, now)
	remembers := t.memory.records != nil
	if remembers {
		t.keeping.changed, t.keeping.due = true, now
	}
	if !remembers || !kept.Written.Equal(t.memory.written) {
		t.ledger.Learn(kept.Records, kept.Generation, now)
	}
	t.ledger.Suspect(since, now)
	t.status.Telling = true
	t.mu.Unlock()
	t.lookAtUnknown()
}

func (t *term) lookAtUnknown() {
	t.mu.Lock()
	unknown := t.ledger.Unknown()
	t.mu.Unlock()
	for _, key := range unknown {
		t.Look(key)
	}
}

// learn reads what could not be read before.
func (t *term) learn(ctx context.Context) error {
	if !t.keeping.Unread() {
		return nil
	}
	kept, err := t.keeping.Load(ctx)
	if err != nil && t.keeping.Unread() {
		return err
	}
	t.mu.Lock()
	t.ledger.Learn(kept.Records, kept.Generation, time.Now())
	t.mu.Unlock()
	t.lookAtUnknown()
	return nil
}

// mark puts on record of which Services something may be told that was not acknowledged, if
// that is not known yet. What cannot be put there is told all the same: this process
// remembers it, and others who listened suspect it.
func (t *term) mark(ctx context.Context, batch []ledger.Change, pending []syncer.Key, generation int64) {
	keys := make([]syncer.Key, len(batch))
	for i := range batch {
		keys[i] = batch[i].Key
	}
	k := &t.keeping
	if k.Marked(keys, generation) {
		return
	}
	if began := time.Now(); !began.Before(k.blocked) {
		for key := range k.bare {
			pending = append(pending, key)
		}
		t.written(ctx, began, k.Mark(ctx, pending, generation))
		if k.Marked(keys, generation) {
			return
		}
	}
	for _, key := range keys {
		k.bare[key] = true
	}
}

// save writes down what was acknowledged. With last, nothing is told after it.
func (t *term) save(ctx context.Context, last bool) {
	began := time.Now()
	err := t.learn(ctx)
	if err == nil {
		t.mu.Lock()
		records, generation := t.ledger.Records(), t.ledger.State().Generation
		t.mu.Unlock()
		t.keeping.changed = false
		if err = t.keeping.Save(ctx, records, generation, last); err == nil {
			clear(t.keeping.bare)
			t.keeping.due, t.keeping.retry = time.Now().Add(savePace), retries()
		}
	}
	t.written(ctx, began, err)
}

// written notes how a writing went. What failed is tried again by save.
func (t *term) written(ctx context.Context, began time.Time, err error) {
	k := &t.keeping
	if err == nil {
		if k.unkept && len(k.bare) == 0 {
			k.unkept = false
			t.logger.Info("what the receiver acknowledged is written down again")
			t.note(func(s *Status) { s.Unkept = "" })
		}
		return
	}
	now := time.Now()
	k.blocked = now.Add(share * now.Sub(began))
	next := now.Add(max(k.retry.Step(), share*now.Sub(began)))
	if !k.changed || !now.Before(k.due) || next.Before(k.due) {
		k.changed, k.due = true, next
	}
	if ctx.Err() != nil {
		return
	}
	if !k.unkept {
		t.logger.Error("what the receiver acknowledged cannot be kept, which is tried again: a restart until then tells it anew", "error", err)
	}
	k.unkept = true
	t.note(func(s *Status) { s.Unkept = err.Error() })
}

// end writes down what was acknowledged, as long as this process may, and remembers what
// could not be.
func (t *term) end() {
	if _, free, held := t.Hold(context.Background()); held {
		free()
		t.save(context.Background(), true)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.memory = memory{}
	if t.keeping.unkept || len(t.keeping.bare) > 0 {
		t.memory = memory{t.ledger.Records(), t.ledger.State().Generation, t.keeping.Written()}
	}
	t.ledger.End()
	t.status.Telling, t.status.Failing = false, false
}
