// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// follower lists and watches one kind in one cluster. It resumes at its revision whenever
// possible, so that it misses no version.
type follower struct {
	r       *Recorder
	cluster string
	kind    Kind
	access  access

	mu       sync.Mutex
	revision string
	stop     context.CancelFunc // ends the current watch; nil if there is none
	epoch    int                // how often it was reset
}

// access has the calls that list and watch a kind.
type access struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func newFollower(r *Recorder, s Source, kind Kind) *follower {
	return &follower{r: r, cluster: s.Name, kind: kind, access: accessTo(s.Client, kind)}
}

func accessTo(c kubernetes.Interface, kind Kind) access {
	switch kind {
	case Pod:
		return accessOf(c.CoreV1().Pods("").List, c.CoreV1().Pods("").Watch)
	case Service:
		return accessOf(c.CoreV1().Services("").List, c.CoreV1().Services("").Watch)
	case Endpoints:
		return accessOf(c.CoreV1().Endpoints("").List, c.CoreV1().Endpoints("").Watch)
	default:
		return accessOf(c.DiscoveryV1().EndpointSlices("").List, c.DiscoveryV1().EndpointSlices("").Watch)
	}
}

func accessOf[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error),
) access {
	return access{
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		watch: watch,
	}
}

// read lists the kind, and returns the list's revision.
func (f *follower) read(ctx context.Context) (items []metav1.Object, revision string, err error) {
	list, err := f.access.list(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list %s of %s: %w", f.kind, f.cluster, err)
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		m, err := meta.Accessor(o)
		if err == nil {
			items = append(items, slim(m))
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	return items, m.GetResourceVersion(), nil
}

// slim drops fields that are large and not needed.
func slim(m metav1.Object) metav1.Object {
	m.SetManagedFields(nil)
	return m
}

// list records what a list shows, and what it no longer shows.
func (f *follower) list(ctx context.Context) error {
	items, revision, err := f.read(ctx)
	if err != nil {
		return err
	}
	present := map[Key]bool{}
	for _, item := range items {
		key := Key{item.GetNamespace(), item.GetName()}
		present[key] = true
		f.r.note(Event{Cluster: f.cluster, Kind: f.kind, Key: key, Object: item, Listed: true})
	}
	for _, key := range f.known() {
		if !present[key] {
			f.r.note(Event{Cluster: f.cluster, Kind: f.kind, Key: key, Revision: revision, Listed: true})
		}
	}
	f.mu.Lock()
	f.revision = revision
	f.mu.Unlock()
	return nil
}

func (f *follower) known() (keys []Key) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	for id := range f.r.known {
		if id.Cluster == f.cluster && id.Kind == f.kind {
			keys = append(keys, id.Key)
		}
	}
	return keys
}

// upToDate compares what is known with a current list.
func (f *follower) upToDate(ctx context.Context) error {
	items, _, err := f.read(ctx)
	if err != nil {
		return err
	}
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	for _, item := range items {
		known := f.r.known[followed{f.cluster, f.kind, Key{item.GetNamespace(), item.GetName()}}]
		if known == nil || older(known, item) {
			return fmt.Errorf("%w: %s %s/%s of %s", errBehind, f.kind, item.GetNamespace(), item.GetName(), f.cluster)
		}
	}
	n := 0
	for id := range f.r.known {
		if id.Cluster == f.cluster && id.Kind == f.kind {
			n++
		}
	}
	if n != len(items) {
		return fmt.Errorf("%w: %d %s of %s are known, there are %d", errBehind, n, f.kind, f.cluster, len(items))
	}
	return nil
}

// older reports whether a has a lower revision than b.
func older(a, b metav1.Object) bool {
	x, errX := strconv.ParseUint(a.GetResourceVersion(), 10, 64)
	y, errY := strconv.ParseUint(b.GetResourceVersion(), 10, 64)
	return errX != nil || errY != nil || x < y
}

// reset ends the watch and lists again.
func (f *follower) reset(ctx context.Context) error {
	f.leave()
	f.doubt()
	err := f.list(ctx)
	f.leave() // a watch that was opened meanwhile began at the old revision
	return err
}

// doubt makes the next list be recorded in full, known revisions included: a restored store
// issues revisions again.
func (f *follower) doubt() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	for id := range f.r.known {
		if id.Cluster == f.cluster && id.Kind == f.kind {
			f.r.doubted[id] = true
		}
	}
}

func (f *follower) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch++
	if f.stop != nil {
		f.stop()
	}
}

// resumePause is the pause before a watch that ended is resumed.
const resumePause = 50 * time.Millisecond

// run watches until ctx ends.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.follow(ctx)
		if (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) && f.list(ctx) == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(resumePause):
		}
	}
}

// follow watches from the last revision until the watch ends.
func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	revision, epoch := f.revision, f.epoch
	f.stop = cancel
	f.mu.Unlock()
	w, err := f.access.watch(ctx, metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
			if err := f.take(e, epoch); err != nil {
				return err
			}
		}
	}
}

func (f *follower) take(e watch.Event, epoch int) error {
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch != epoch {
		return nil // it is from before the store was restored
	}
	f.revision = m.GetResourceVersion()
	event := Event{Cluster: f.cluster, Kind: f.kind, Key: Key{m.GetNamespace(), m.GetName()}}
	switch e.Type {
	case watch.Bookmark:
		return nil
	case watch.Deleted:
		event.Revision = m.GetResourceVersion()
	default:
		event.Object = slim(m)
	}
	f.r.note(event)
	return nil
}
