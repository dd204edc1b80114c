// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// openScopes is how many streams of one kind are opened at a time. A scope that is refused is
// asked for again scopeRetry later, then ever less often, up to scopeRetryLimit.
const (
	openScopes      = 8
	scopeRetry      = time.Second
	scopeRetryLimit = time.Minute
)

// Scope is a namespace that is read by itself, by whoever has rights in some alone.
type Scope struct {
	Namespace string
	ListWatcher
}

// Across reads several namespaces, each through a source of its own, as if they were one. A
// list shows one moment of them all, the one at which its first page was read.
func Across(namespaces []string, source func(namespace string) ListWatcher) (all ListWatcher) {
	for _, namespace := range namespaces {
		all.Scopes = append(all.Scopes, Scope{namespace, source(namespace)})
	}
	return all
}

// scopes are what is read each by itself; where it is all one, that.
func (s ListWatcher) scopes() []Scope {
	if len(s.Scopes) == 0 {
		return []Scope{{"", s}}
	}
	return s.Scopes
}

// scopeError names the namespace that an error is of.
type scopeError struct {
	namespace string
	err       error
}

func (e *scopeError) Error() string { return fmt.Sprintf("namespace %s: %v", e.namespace, e.err) }
func (e *scopeError) Unwrap() error { return e.err }

// wrap makes an error one of the scope.
func (s Scope) wrap(err error) error {
	if err == nil || s.Namespace == "" {
		return err
	}
	return &scopeError{s.Namespace, err}
}

// errTorn is a list of a namespace that does not show the moment of the others.
var errTorn = errors.New("the lists of several namespaces do not show one moment")

// opening is how streams are opened.
type opening struct {
	opts  metav1.ListOptions
	at    positions // where each scope was; nil: nowhere
	toEnd bool      // see joined

	// out are scopes that are left out, by why: nobody waits for them. Nor does anybody wait for
	// another longer than patience, 0 being no bound. retry is when they are asked for again, and
	// readable reads all of one.
	out      map[string]error
	patience time.Duration
	retry    time.Duration
	readable func(context.Context, Scope) error
}

// open opens a watch of each scope from where it was, and reads them as one. out are those
// that are left out; where none is left, that is the error.
func (s ListWatcher) open(ctx context.Context, o opening) (stream Stream, out map[string]error, err error) {
	if len(s.Scopes) == 0 {
		stream, err = Scope{"", s}.resume(ctx, o)
		return stream, nil, err
	}
	begun := time.Now()
	streams, errs := make([]Stream, len(s.Scopes)), make([]error, len(s.Scopes))
	var opening errgroup.Group
	opening.SetLimit(openScopes)
	for i, scope := range s.Scopes {
		if errs[i] = o.out[scope.Namespace]; errs[i] != nil {
			continue
		}
		opening.Go(func() error {
			stream, err := scope.resumeBy(ctx, o, begun)
			streams[i], errs[i] = stream, scope.wrap(err)
			return nil
		})
	}
	_ = opening.Wait()
	if out, err = outcome(ctx, s.Scopes, errs); err != nil {
		for _, s := range streams {
			if s != nil {
				s.Stop()
			}
		}
		return nil, nil, err
	}
	return join(ctx, s.Scopes, streams, o), out, nil
}

// outcome says which scopes are left out, or why nothing is open.
func outcome(ctx context.Context, scopes []Scope, errs []error) (out map[string]error, err error) {
	out = map[string]error{}
	for i, scope := range scopes {
		switch err := errs[i]; {
		case err == nil:
		case ctx.Err() != nil || ofAll(err):
			return nil, err
		default:
			out[scope.Namespace] = err
		}
	}
	if len(out) == len(scopes) {
		_, _, err = leftOut(out)
		return nil, err
	}
	return out, nil
}

// without leaves out some scopes, unless nothing is left.
func (s ListWatcher) without(out map[string]error) ListWatcher {
	left := slices.DeleteFunc(slices.Clone(s.Scopes), func(scope Scope) bool { return out[scope.Namespace] != nil })
	if len(left) > 0 {
		s.Scopes = left
	}
	return s
}

// resumeBy gives it as long as there is patience since all began.
func (s Scope) resumeBy(ctx context.Context, o opening, begun time.Time) (Stream, error) {
	resume := func(ctx context.Context) (Stream, error) { return s.resume(ctx, o) }
	switch {
	case o.patience == 0:
		return resume(ctx)
	case time.Since(begun) >= o.patience:
		return nil, errOpenTimeout
	}
	return accepted(ctx, o.patience, resume)
}

// resume opens a watch from where the scope was. Where nothing was listed of it, a list has to
// come first.
func (s Scope) resume(ctx context.Context, o opening) (Stream, error) {
	was, known := o.at[s.Namespace]
	switch {
	case !known && o.at != nil:
		return nil, apierrors.NewResourceExpired("other namespaces are read now")
	case was.rv == "" && s.Namespace != "":
		if _, err := s.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return nil, err
		}
		return nil, apierrors.NewResourceExpired("namespace " + s.Namespace + " was not listed")
	}
	o.opts.ResourceVersion = was.rv
	stream, err := s.Watch(ctx, o.opts)
	if err == nil && stream == nil {
		err = errors.New("the source returned no stream")
	}
	return stream, err
}

// joined is several streams as one. It ends when any of them fails, or ends in order; where
// toEnd is true, when all have ended in order. Scopes that are left out come to it once they
// answer.
type joined struct {
	toEnd  bool
	events chan Event
	stop   chan struct{} // closed by the first Stop or end
	once   sync.Once
	all    sync.WaitGroup
	done   chan struct{} // closed when nothing of it runs
	err    error         // why the first of them ended; set before stop is closed
	cancel func()        // ends what asks for scopes
}

func join(ctx context.Context, scopes []Scope, streams []Stream, o opening) *joined {
	ctx, cancel := context.WithCancel(ctx)
	j := &joined{toEnd: o.toEnd, cancel: cancel, events: make(chan Event, streamBuffer), stop: make(chan struct{}), done: make(chan struct{})}
	for i, stream := range streams {
		switch {
		case stream != nil:
			j.all.Go(func() { j.forward(scopes[i], stream) })
		case !o.toEnd:
			j.all.Go(func() { j.await(ctx, scopes[i], o) })
		}
	}
	go func() {
		defer close(j.done)
		defer cancel()
		j.all.Wait()
		close(j.events)
	}()
	return j
}

// await asks for a scope that is left out again and again, until it answers. Who fails is asked
// as often as after any other error, and who is refused ever less often. One that is to be
// listed ends all, as it is listed with the others; so it is to show first that it can be.
func (j *joined) await(ctx context.Context, scope Scope, o opening) {
	refused, failing := NewBackoff(scopeRetry, scopeRetryLimit), NewBackoff(scopeRetry, retryLimit)
	wait, garbled := max(o.retry, refused.Next()), 0
	for {
		if !pause(ctx, wait) {
			return
		}
		stream, first, err := scope.enter(ctx, o)
		if errors.Is(err, ErrUndecodable) {
			garbled++
		}
		expired := isExpired(err) || err != nil && garbled >= undecodableLimit
		if expired {
			err = o.readable(ctx, scope)
		}
		switch {
		case err == nil && expired:
			j.end(apierrors.NewResourceExpired("namespace " + scope.Namespace + " is to be listed"))
			return
		case err == nil:
			_ = j.hand(Event{Type: scopeOpened, Scope: scope.Namespace}) && (first == nil || j.hand(*first))
			j.forward(scope, stream)
			return
		case isRefusal(err):
			wait = refused.Next()
		default:
			wait = max(failing.Next(), RetryAfter(err))
		}
	}
}

// enter resumes a scope and waits for a sign that its stream is one: the first event, or that
// it does not end at once. Until then it disturbs nobody.
func (s Scope) enter(ctx context.Context, o opening) (stream Stream, first *Event, err error) {
	stream, err = accepted(ctx, openTimeout, func(ctx context.Context) (Stream, error) { return s.resume(ctx, o) })
	if err != nil {
		return nil, nil, err
	}
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(healthyAfter):
	case e, open := <-stream.Events():
		e.Scope = s.Namespace
		first = &e
		switch {
		case !open:
			err = cmp.Or(stream.Err(), errors.New("the stream ended at once"))
		case e.Err != nil:
			err = fmt.Errorf("%w: %w", ErrUndecodable, e.Err)
		case e.Type == watch.Error:
			err = apierrors.FromObject(e.Object)
		}
	}
	if err != nil {
		stream.Stop()
		return nil, nil, err
	}
	return stream, first, nil
}

// hand hands an event on, unless all is to end.
func (j *joined) hand(e Event) (handed bool) {
	select {
	case j.events <- e:
		return true
	case <-j.stop:
		return false
	}
}

// forward hands on what one stream brings until it ends, or another does.
func (j *joined) forward(scope Scope, stream Stream) {
	defer stream.Stop()
	for {
		select {
		case <-j.stop:
			return
		case e, open := <-stream.Events():
			if !open {
				if err := stream.Err(); err != nil || !j.toEnd {
					j.end(scope.wrap(err))
				}
				return
			}
			e.Scope = scope.Namespace
			if !j.hand(e) {
				return
			}
		}
	}
}

// end ends all streams because of one.
func (j *joined) end(err error) {
	j.once.Do(func() {
		j.err = err
		close(j.stop)
		j.cancel()
	})
}

// Events implements Stream.
func (j *joined) Events() <-chan Event { return j.events }

// Stop implements Stream.
func (j *joined) Stop() {
	j.end(nil)
	<-j.done
}

// Err implements Stream.
func (j *joined) Err() error { return j.err }
