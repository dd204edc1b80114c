// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// openScopes is how many streams of one kind are opened at a time.
const openScopes = 8

// Across reads several namespaces, each through a source of its own, as if they were one:
// for whoever has rights in these alone. A list shows one moment of them all, the one at
// which its first page was read.
func Across(namespaces []string, source func(namespace string) ListWatcher) ListWatcher {
	a := across{namespaces: namespaces}
	for _, namespace := range namespaces {
		a.sources = append(a.sources, source(namespace))
	}
	return ListWatcher{
		List: a.list, Scopes: namespaces,
		Watch: func(ctx context.Context, opts metav1.ListOptions) (Stream, error) { return a.watch(ctx, opts, false) },
		Check: func(ctx context.Context, opts metav1.ListOptions) (Stream, error) { return a.watch(ctx, opts, true) },
	}
}

type across struct {
	namespaces []string
	sources    []ListWatcher
}

// errTorn is a list of a namespace that does not show the moment of the others.
var errTorn = errors.New("the lists of several namespaces do not show one moment")

// list reads a page. The token to go on with holds which namespace is read, the revision
// of the whole list, and the token of that namespace, which is none before its first page.
func (a across) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	at, rv, inner, err := parseToken(opts.Continue, len(a.sources))
	if err != nil {
		return nil, err
	}
	for {
		opts.Continue = inner
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
		if inner == "" && rv != "" {
			opts.ResourceVersion, opts.ResourceVersionMatch = rv, metav1.ResourceVersionMatchExact
		}
		page, err := a.sources[at].List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", a.namespaces[at], err)
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", a.namespaces[at], err)
		}
		if rv == "" {
			rv = accessor.GetResourceVersion()
		}
		if rv == "" || accessor.GetResourceVersion() != rv {
			return nil, fmt.Errorf("namespace %s: %w", a.namespaces[at], errTorn)
		}
		if inner = accessor.GetContinue(); inner == "" {
			at++
		}
		if at == len(a.sources) {
			accessor.SetContinue("")
			return page, nil
		}
		if meta.LenList(page) > 0 {
			accessor.SetContinue(strconv.Itoa(at) + " " + rv + " " + inner)
			return page, nil
		}
	}
}

func parseToken(token string, sources int) (at int, rv, inner string, err error) {
	if token == "" {
		return 0, "", "", nil
	}
	parts := strings.SplitN(token, " ", 3)
	if at, err = strconv.Atoi(parts[0]); err != nil || len(parts) != 3 || at < 0 || at >= sources {
		return 0, "", "", fmt.Errorf("%w: token %.40q", errTorn, token)
	}
	return at, parts[1], parts[2], nil
}

// watch opens a stream of each namespace, from its own revision, and reads them as one,
// until one of them ends, or all have.
func (a across) watch(ctx context.Context, opts metav1.ListOptions, all bool) (Stream, error) {
	streams := make([]Stream, len(a.sources))
	var opening errgroup.Group
	opening.SetLimit(openScopes)
	for i, namespace := range a.namespaces {
		opening.Go(func() (err error) {
			opts := opts
			if opts.ResourceVersion = revisionOf(opts.ResourceVersion, namespace); opts.ResourceVersion == "" {
				return apierrors.NewResourceExpired("namespace " + namespace + " was not listed") // before it was configured
			}
			if streams[i], err = a.sources[i].Watch(ctx, opts); err != nil {
				return fmt.Errorf("namespace %s: %w", namespace, err)
			}
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		for _, s := range streams {
			if s != nil {
				s.Stop()
			}
		}
		return nil, err
	}
	return join(a.namespaces, streams, all), nil
}

// joined is several streams as one. It ends when any of them fails, or ends in order; where
// toEnd is true, when all have ended in order.
type joined struct {
	toEnd  bool
	events chan Event
	stop   chan struct{} // closed by the first Stop or end
	once   sync.Once
	all    sync.WaitGroup
	done   chan struct{} // closed when nothing of it runs
	err    error         // why the first of them ended; set before stop is closed
}

func join(scopes []string, streams []Stream, toEnd bool) *joined {
	j := &joined{toEnd: toEnd, events: make(chan Event, streamBuffer), stop: make(chan struct{}), done: make(chan struct{})}
	for i, stream := range streams {
		j.all.Go(func() { j.forward(scopes[i], stream) })
	}
	go func() {
		defer close(j.done)
		j.all.Wait()
		close(j.events)
	}()
	return j
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
