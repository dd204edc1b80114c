// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// wrap names the namespace that an error is of.
func (s Scope) wrap(err error) error {
	if err == nil || s.Namespace == "" {
		return err
	}
	return fmt.Errorf("namespace %s: %w", s.Namespace, err)
}

// errTorn is a list of a namespace that does not show the moment of the others.
var errTorn = errors.New("the lists of several namespaces do not show one moment")

// leftOut names the scopes that are refused, because their Role is missing, or went with them,
// and says why the first is. They concern themselves alone: all others are read.
func leftOut(refused map[string]error) (all []string, err error) {
	all = slices.Sorted(maps.Keys(refused))
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all, refused[all[0]]
	}
	return all, fmt.Errorf("%w (and %d more namespaces)", refused[all[0]], len(all)-1)
}

// isLeftOut reports whether the answer to a request in a namespace concerns that alone.
func isLeftOut(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		details := status.Status().Details
		return details != nil && details.Kind == Namespaces.Resource
	}
	return apierrors.IsForbidden(err)
}

// open opens a watch of each scope from where it was, and reads them as one. refused are
// those that are left out; where none is left, that is the error. See join for toEnd.
func (s ListWatcher) open(ctx context.Context, opts metav1.ListOptions, at positions, toEnd bool) (stream Stream, refused map[string]error, err error) {
	if len(s.Scopes) == 0 {
		stream, err = Scope{"", s}.resume(ctx, opts, at)
		return stream, nil, err
	}
	streams, errs := make([]Stream, len(s.Scopes)), make([]error, len(s.Scopes))
	var opening errgroup.Group
	opening.SetLimit(openScopes)
	for i, scope := range s.Scopes {
		opening.Go(func() error {
			var err error
			if streams[i], err = scope.resume(ctx, opts, at); isLeftOut(err) {
				errs[i], err = scope.wrap(err), nil
			}
			return scope.wrap(err)
		})
	}
	err = opening.Wait()
	refused = map[string]error{}
	for i, scope := range s.Scopes {
		if errs[i] != nil {
			refused[scope.Namespace] = errs[i]
		}
	}
	if err == nil && len(refused) == len(s.Scopes) {
		_, err = leftOut(refused)
	}
	if err != nil {
		for _, s := range streams {
			if s != nil {
				s.Stop()
			}
		}
		return nil, nil, err
	}
	return join(ctx, s.Scopes, streams, opts, at, toEnd), refused, nil
}

// without leaves out some scopes, unless nothing is left.
func (s ListWatcher) without(refused map[string]error) ListWatcher {
	left := slices.DeleteFunc(slices.Clone(s.Scopes), func(scope Scope) bool { return refused[scope.Namespace] != nil })
	if len(left) > 0 {
		s.Scopes = left
	}
	return s
}

// resume opens a watch from where the scope was. Where nothing was listed of it, a list has to
// come first.
func (s Scope) resume(ctx context.Context, opts metav1.ListOptions, at positions) (Stream, error) {
	was, known := at[s.Namespace]
	switch {
	case !known && at != nil:
		return nil, apierrors.NewResourceExpired("other namespaces are read now")
	case was.rv == "" && s.Namespace != "":
		if _, err := s.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return nil, err
		}
		return nil, apierrors.NewResourceExpired("namespace " + s.Namespace + " was not listed")
	}
	opts.ResourceVersion = was.rv
	stream, err := s.Watch(ctx, opts)
	if err == nil && stream == nil {
		err = errors.New("the source returned no stream")
	}
	return stream, err
}

// joined is several streams as one. It ends when any of them fails, or ends in order; where
// toEnd is true, when all have ended in order. Scopes that are refused come to it once they
// are not any more.
type joined struct {
	toEnd  bool
	events chan Event
	stop   chan struct{} // closed by the first Stop or end
	once   sync.Once
	all    sync.WaitGroup
	done   chan struct{} // closed when nothing of it runs
	err    error         // why the first of them ended; set before stop is closed
}

func join(ctx context.Context, scopes []Scope, streams []Stream, opts metav1.ListOptions, at positions, toEnd bool) *joined {
	j := &joined{toEnd: toEnd, events: make(chan Event, streamBuffer), stop: make(chan struct{}), done: make(chan struct{})}
	for i, stream := range streams {
		switch {
		case stream != nil:
			j.all.Go(func() { j.forward(scopes[i].Namespace, stream) })
		case !toEnd:
			j.all.Go(func() { j.await(ctx, scopes[i], opts, at) })
		}
	}
	go func() {
		defer close(j.done)
		j.all.Wait()
		close(j.events)
	}()
	return j
}

// await asks for a scope that is refused again and again, until it is not.
func (j *joined) await(ctx context.Context, scope Scope, opts metav1.ListOptions, at positions) {
	retry := NewBackoff(scopeRetry, scopeRetryLimit)
	for {
		select {
		case <-j.stop:
			return
		case <-ctx.Done():
			return
		case <-time.After(retry.Next()):
		}
		stream, err := accepted(ctx, func(ctx context.Context) (Stream, error) { return scope.resume(ctx, opts, at) })
		switch {
		case err == nil:
			select {
			case j.events <- Event{Type: scopeOpened, Scope: scope.Namespace}:
			case <-j.stop:
			}
			j.forward(scope.Namespace, stream)
			return
		case isExpired(err): // it is to be listed, with all others
			j.end(err)
			return
		}
	}
}

// forward hands on what one stream brings until it ends, or another does.
func (j *joined) forward(scope string, stream Stream) {
	defer stream.Stop()
	for {
		select {
		case <-j.stop:
			return
		case e, open := <-stream.Events():
			if !open {
				if err := stream.Err(); err != nil || !j.toEnd {
					j.end(err)
				}
				return
			}
			e.Scope = scope
			select {
			case j.events <- e:
			case <-j.stop:
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
