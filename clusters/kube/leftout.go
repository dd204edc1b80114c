// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Of several namespaces one may be refused, because its Role is missing or went with it, or
// fail: its requests hang, or are answered by errors or by what is no list. That concerns it
// alone, so nobody waits for it longer than scopePatience for each answer, which is many times
// what a healthy server takes for a page, and leastPatience once as much was spent. What failed
// sooner is asked a second time when all others are read. What answers, but so late, is listed
// by itself, and waited for from then on.
const (
	scopePatience = 5 * time.Second
	leastPatience = time.Second
)

// leftOut names the scopes that are left out, and those of them that are not refused, and says
// why the first of these is, or else of all.
func leftOut(scopes map[string]error) (all, failing []string, err error) {
	all = slices.Sorted(maps.Keys(scopes))
	failing = slices.DeleteFunc(slices.Clone(all), func(scope string) bool { return isRefusal(scopes[scope]) })
	if first := slices.Concat(failing, all); len(all) > 0 {
		err = scopes[first[0]]
	}
	if more := len(all) - 1; more > 0 {
		err = fmt.Errorf("%w (and %d more namespaces)", err, more)
	}
	return all, failing, err
}

// isRefusal reports whether a request in a namespace is refused for that alone.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		details := status.Status().Details
		return details != nil && details.Kind == Namespaces.Resource
	}
	return apierrors.IsForbidden(err)
}

// ofAll reports whether what came of a request in a namespace concerns all others, too.
func ofAll(err error) bool {
	return isExpired(err) || apierrors.IsUnauthorized(err) || errors.Is(err, ErrTooManyObjects) ||
		errors.Is(err, ErrOtherCluster) || errors.Is(err, errTorn)
}

// listScopes reads one scope after the other. One that is refused or fails is left out, unless
// all are.
func (l *Loop[T]) listScopes(ctx context.Context, source ListWatcher, limit int64) fetched[T] {
	f := fetched[T]{out: map[string]error{}}
	again := l.readScopes(ctx, &f, l.inOrder(source.scopes()), limit, false)
	alone := len(f.scopes) == 0 // all take long, if they answer
	if !alone {
		again = slices.DeleteFunc(again, func(s Scope) bool { return errors.Is(f.out[s.Namespace], context.DeadlineExceeded) })
	}
	if f.err == nil && len(again) > 0 && pause(ctx, jitter(retryBase)) {
		l.readScopes(ctx, &f, again, limit, alone)
	}
	if f.err == nil && len(f.scopes) == 0 {
		_, _, f.err = leftOut(f.out)
	}
	return f
}

// readScopes adds what scopes show to f, and returns those that failed. Where patient, each has
// all the time, and one that fails is the end of it.
func (l *Loop[T]) readScopes(ctx context.Context, f *fetched[T], scopes []Scope, limit int64, patient bool) (failed []Scope) {
	for _, scope := range scopes {
		begun, patience := time.Now(), max(leastPatience, scopePatience-f.waited)
		if patient || scope.Namespace == "" || l.isSlow(scope) {
			patience = pageTimeout
		}
		var longest time.Duration
		items, rv, err := l.pages(ctx, scope.within(patience, &longest), limit, f.items, f.rv)
		l.answersLate(scope, err == nil && longest > leastPatience)
		switch err = scope.wrap(err); {
		case err == nil:
			f.items, f.rv, f.scopes = items, rv, append(f.scopes, scope.Namespace)
			delete(f.out, scope.Namespace)
		case scope.Namespace == "" || ctx.Err() != nil || ofAll(err) || patient && !isRefusal(err):
			f.err = err
			return nil
		default:
			f.out[scope.Namespace] = err
			f.waited += time.Since(begun)
			if !isRefusal(err) {
				failed = append(failed, scope)
			}
		}
	}
	return failed
}

// within gives each page of a list only so long, and tells how long the longest took.
func (s Scope) within(patience time.Duration, longest *time.Duration) ListWatcher {
	source := s.ListWatcher
	source.List = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		begun := time.Now()
		page, err := s.List(ctx, opts)
		*longest = max(*longest, time.Since(begun))
		return page, err
	}
	return source
}

// readable reads all of a scope that is left out, to see whether that can be done.
func (l *Loop[T]) readable(ctx context.Context, scope Scope) error {
	var longest time.Duration
	_, _, err := l.pages(ctx, scope.within(pageTimeout, &longest), l.cfg.PageSize, nil, "")
	l.answersLate(scope, err == nil && longest > leastPatience)
	return err
}

// patience is what a loop knows of scopes that are left out. The loop's lock guards it.
type patience struct {
	out  map[string]error // those that the last list or stream does not show, by why
	slow map[string]bool  // those that answer, later than others wait for them
}

// opening is how streams are opened now. After an attempt that opened none, each has all the
// time once: all may take long.
func (l *Loop[T]) opening() opening {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := opening{opts: l.watchOptions(), at: maps.Clone(l.at), out: l.patience.out, patience: scopePatience, retry: l.outWait, readable: l.readable}
	if l.unopened {
		o.patience = 0
	}
	return o
}

// spare has what is left out be asked for later, when that came of it again, or soon.
func (l *Loop[T]) spare(again, well bool) {
	switch {
	case again:
		l.outWait = l.outRetry.Next()
	case well:
		l.outRetry.Reset()
		l.outWait = 0
	}
}

// leaveOut notes which scopes are left out.
func (l *Loop[T]) leaveOut(out map[string]error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.patience.out = maps.Clone(out)
}

// leaveOut has the next stream go on without some more.
func (f *follower[T]) leaveOut(out map[string]error) {
	out = maps.Clone(out)
	maps.Copy(out, f.out)
	f.out = out
	f.loop.leaveOut(out)
}

// brokenBy takes in what ended a stream. Where the same scope breaks two in a row at once, the others
// go on without it.
func (l *Loop[T]) brokenBy(f *follower[T], err error, atOnce bool) {
	bad, is := errors.AsType[*scopeError](err)
	switch {
	case !is || !atOnce:
		l.breaks = ""
	case l.breaks == bad.namespace:
		f.leaveOut(map[string]error{bad.namespace: err})
	default:
		l.breaks = bad.namespace
	}
}

func (l *Loop[T]) isSlow(s Scope) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.patience.slow[s.Namespace]
}

func (l *Loop[T]) answersLate(s Scope, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if late {
		l.patience.slow[s.Namespace] = true
	} else {
		delete(l.patience.slow, s.Namespace)
	}
}

// inOrder puts those last that are left out: the others have all the patience.
func (l *Loop[T]) inOrder(scopes []Scope) []Scope {
	l.mu.Lock()
	defer l.mu.Unlock()
	isOut := func(s Scope) bool { return l.patience.out[s.Namespace] != nil }
	in := slices.DeleteFunc(slices.Clone(scopes), isOut)
	return append(in, slices.DeleteFunc(slices.Clone(scopes), func(s Scope) bool { return !isOut(s) })...)
}
