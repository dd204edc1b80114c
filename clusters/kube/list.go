// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fetched is a complete list.
type fetched[T any] struct {
	items  []T
	rv     string
	scopes []string         // that it shows
	out    map[string]error // those that it does not, by why
	begun  time.Time
	took   time.Duration
	waited time.Duration // of that, for scopes that it does not show
	stream Stream        // what a streaming list goes on as; nil after a paged one
	err    error
}

// relist reads a complete list while no stream is open, and hands it on.
func (l *Loop[T]) relist(ctx context.Context) {
	l.leaveStream()
	source, generation := l.current()
	l.retire(generation)
	if l.due != FirstFill {
		if wait := l.pace.wait(time.Now()); wait > 0 {
			l.sleep(ctx, wait, false)
			return // the source may have changed, or the context ended
		}
	}
	if !l.doubted { // then it waits for a stream, whatever lists show
		l.cfg.Handler.Changed(State{Phase: Listing})
	}
	l.take(&l.requested) // this list answers it
	back := l.take(&l.back)
	attempt, cancel := l.attempt(ctx)
	f := l.fetch(attempt, source, source.StreamingList && l.noStream != generation)
	l.attempted()
	if f.stream == nil {
		cancel()
	} else {
		f.stream = stopAlso{f.stream, cancel}
	}
	l.listDone(f)
	if f.err != nil {
		l.keepBack(back)
		l.failed(ctx, f.err, generation)
		return
	}
	l.leaveOut(f.out)
	l.replace(f, l.due, l.at.newest(), back)
	l.due, l.stream, l.streamGen = "", f.stream, generation
}

// unansweredList is for how much the time of a list counts at most of which a page was not
// answered: a minute of waiting says nothing of the work that the next one makes.
const unansweredList = 5 * time.Second

// listDone notes that a list has ended.
func (l *Loop[T]) listDone(f fetched[T]) {
	took := f.took - f.waited
	if errors.Is(f.err, context.DeadlineExceeded) {
		took = min(took, unansweredList)
	}
	l.pace.done(time.Now(), took)
}

// replace hands a complete list to the handler and resumes from its revision. seen
// is the revision that had been seen before the list was begun; back says that the server
// is known to have gone back in time since.
func (l *Loop[T]) replace(f fetched[T], reason Reason, seen uint64, back bool) {
	l.spare(len(f.out) > 0, len(f.out) == 0 && reason == Requested)
	revision, before := number(f.rv), l.at
	l.at, l.broken = listedAt(f.scopes, f.rv), 0
	for _, scope := range f.scopes {
		l.listed[scope] = true
	}
	leftOut, _, _ := leftOut(f.out)
	for _, scope := range leftOut {
		l.at[scope] = position{}
		if reason != Rewound { // it is resumed from where it was
			l.at[scope] = before[scope]
		}
	}
	l.seen.Store(revision)
	older := back || revision != 0 && revision < seen
	older = l.settle(f.items, revision, older) || older
	l.cfg.Observer.Listed(l.cfg.Kind, reason, len(f.items), f.took)
	l.cfg.Handler.Replaced(f.items, Replacement{
		Reason: reason, ResourceVersion: f.rv, Older: older, Begun: f.begun, Finished: time.Now(), LeftOut: leftOut,
		Unlisted: slices.DeleteFunc(slices.Clone(leftOut), func(scope string) bool { return l.listed[scope] }),
	})
}

// fetch reads a complete list of the cluster that is meant.
func (l *Loop[T]) fetch(ctx context.Context, source ListWatcher, streaming bool) fetched[T] {
	f := l.read(ctx, source, streaming)
	if f.err != nil {
		return f
	}
	if f.err = source.confirm(ctx); f.err != nil && f.stream != nil {
		f.stream.Stop()
		f.stream = nil
	}
	return f
}

// read reads a complete list, as a stream where asked and possible, else page
// by page. It keeps no state of the loop but noStream and the log.
func (l *Loop[T]) read(ctx context.Context, source ListWatcher, streaming bool) fetched[T] {
	start := time.Now()
	if streaming {
		f := l.streamList(ctx, source)
		if f.err == nil || ctx.Err() != nil || errors.Is(f.err, ErrTooManyObjects) {
			f.begun, f.took, f.scopes = start, time.Since(start), []string{""}
			return f
		}
		if isUnsupported(f.err) {
			_, l.noStream = l.current()
		}
		l.cfg.Logger.Debug("streaming list failed, reading pages", "kind", l.cfg.Kind, "error", f.err)
	}
	f := l.pagedList(ctx, source)
	f.begun, f.took = start, time.Since(start)
	return f
}

// pagedList reads page by page. A continue token that expires meanwhile starts
// the list again with larger pages: nothing of the first attempt is used, since
// the two would not show one moment.
func (l *Loop[T]) pagedList(ctx context.Context, source ListWatcher) fetched[T] {
	const restarts, growth = 3, 4
	limit := l.cfg.PageSize
	for restart := 0; ; restart++ {
		f := l.listScopes(ctx, source, limit)
		if f.err == nil || !isExpired(f.err) || restart == restarts {
			return f
		}
		limit *= growth
	}
}

// pages reads all pages of a list and appends what they show to items. All show one moment:
// the revision of the list, where it is not to be another one.
func (l *Loop[T]) pages(ctx context.Context, source ListWatcher, limit int64, items []T, rv string) ([]T, string, error) {
	const emptyLimit, shrink = 100, 4
	opts := l.cfg.Options
	exact := rv != ""
	if opts.Limit = limit; exact {
		opts.ResourceVersion, opts.ResourceVersionMatch = rv, metav1.ResourceVersionMatchExact
	}
	for empty := 0; empty < emptyLimit; {
		page, err := l.page(ctx, source, opts)
		if errors.Is(err, ErrTooLarge) && opts.Limit > 1 {
			// The token goes on from where it stands, with fewer objects.
			opts.Limit = max(1, opts.Limit/shrink)
			continue
		}
		if err != nil {
			return nil, "", err
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return nil, "", fmt.Errorf("list %s: %w: %w", l.cfg.Kind, errNoList, err)
		}
		switch at := accessor.GetResourceVersion(); {
		case at == "" && (rv == "" || exact):
			return nil, "", fmt.Errorf("list %s: %w", l.cfg.Kind, errNoList)
		case rv == "":
			rv = at // all pages show this moment
		case exact && at != rv:
			return nil, "", fmt.Errorf("list %s: %w", l.cfg.Kind, errTorn)
		}
		before := len(items)
		if items, err = l.appendItems(items, page); err != nil {
			return nil, "", err
		}
		if opts.Continue = accessor.GetContinue(); opts.Continue == "" {
			return items, rv, nil
		}
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
		if len(items) == before {
			empty++
		}
	}
	return nil, "", errListNeverEnds
}

func (l *Loop[T]) page(ctx context.Context, source ListWatcher, opts metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err := source.List(ctx, opts)
	if err == nil && page == nil {
		err = errors.New("the source returned no list")
	}
	return page, err
}

// appendItems converts a page. The page is garbage as soon as it returns.
func (l *Loop[T]) appendItems(items []T, page runtime.Object) ([]T, error) {
	err := meta.EachListItem(page, func(obj runtime.Object) error {
		item, ok := l.convert(obj)
		if !ok {
			return nil
		}
		if most := l.most(); most > 0 && len(items) >= most {
			return fmt.Errorf("list %s: %w (%d)", l.cfg.Kind, ErrTooManyObjects, most)
		}
		items = append(items, item)
		return nil
	})
	return items, err
}

// most is how many objects are taken; 0: any number.
func (l *Loop[T]) most() int {
	if l.cfg.MaxObjects == nil {
		return 0
	}
	return l.cfg.MaxObjects()
}

// convert refuses what is no object, or no object of the kind.
func (l *Loop[T]) convert(obj runtime.Object) (item T, ok bool) {
	if obj != nil {
		item, ok = l.cfg.Convert(obj)
	}
	if !ok {
		l.noteUndecodable(fmt.Sprintf("object of type %T", obj), nil)
	}
	return item, ok
}
