// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

func TestNewSourceTakesOverWithoutAGap(t *testing.T) {
	old := &cluster{list: one(5, pod("a", 3, "1"))}
	next := &cluster{list: one(5)}
	next.watch = func(n int, _ metav1.ListOptions) error {
		if n == 1 {
			return apierrors.NewUnauthorized("not yet")
		}
		return nil
	}
	play(t, old, nil, func(s *scene) {
		s.stream().send(watch.Added, pod("b", 6, "1"))
		synctest.Wait()
		s.loop.SetListWatcher(next.source())
		synctest.Wait()
		if old.streams[0].stopped.Load() {
			t.Error("the old stream was stopped before the new one was open")
		}
		s.stream().send(watch.Added, pod("c", 7, "1"))
		s.pass(time.Second)
		if !old.streams[0].stopped.Load() {
			t.Error("the old stream is still open")
		}
		taken, _ := next.last()
		if taken == nil {
			t.Fatal("no stream of the new source")
		}
		if rv := next.watches[1].ResourceVersion; rv != "6" { // where the old one stood when it failed
			t.Errorf("new stream from %q, want 6", rv)
		}
		taken.send(watch.Added, pod("d", 8, "1"))
		synctest.Wait()
		s.wantLog("replaced first_fill@5 1", "added b=1@6", "added c=1@7", "added d=1@8")
		if lists, _ := next.counts(); lists != 0 {
			t.Errorf("%d lists by the new source, want none", lists)
		}
	})
	for _, stream := range next.streams {
		if !stream.stopped.Load() {
			t.Error("a stream of the new source was left open")
		}
	}
}

// What the old stream brought while the new one was being opened comes by the new one
// again: an older state of a pod must not come after its end.
func TestExchangeRepeatsNothing(t *testing.T) {
	next := &cluster{list: one(5)}
	play(t, &cluster{list: one(5, pod("a", 3, "1"))}, nil, func(s *scene) {
		opening := make(chan struct{})
		source := next.source()
		accept := source.Watch
		source.Watch = func(ctx context.Context, opts metav1.ListOptions) (Stream, error) {
			select {
			case <-opening:
			case <-ctx.Done():
			}
			return accept(ctx, opts)
		}
		s.loop.SetListWatcher(source)
		synctest.Wait()
		s.stream().send(watch.Modified, pod("a", 6, "2"))
		s.stream().send(watch.Deleted, pod("a", 7, "2"))
		synctest.Wait()
		opening <- struct{}{}
		synctest.Wait()
		taken, _ := next.last()
		for _, e := range []watch.Event{{Type: watch.Modified, Object: pod("a", 6, "2")}, {Type: watch.Deleted, Object: pod("a", 7, "2")}, {Type: watch.Added, Object: pod("b", 8, "1")}} {
			taken.send(e.Type, e.Object)
		}
		synctest.Wait()
		s.wantLog("replaced first_fill@5 1", "modified a=2@6", "deleted a@7", "added b=1@8")
	})
}

func TestNewSourceEndsAWaitAndAHangingList(t *testing.T) {
	good := &cluster{list: one(5)}
	t.Run("wait", func(t *testing.T) {
		refuse := func(int, metav1.ListOptions) (runtime.Object, error) { return nil, apierrors.NewUnauthorized("old") }
		play(t, &cluster{list: refuse}, nil, func(s *scene) {
			s.pass(time.Hour + time.Millisecond)
			s.loop.SetListWatcher(good.source())
			synctest.Wait()
			s.wantLog("replaced first_fill@5 0")
		})
	})
	t.Run("hanging list", func(t *testing.T) {
		hang := func(_ *Config[item], source *ListWatcher) {
			source.List = func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		play(t, &cluster{}, hang, func(s *scene) {
			s.loop.SetListWatcher(good.source())
			synctest.Wait()
			s.wantLog("replaced first_fill@5 0")
		})
	})
}

func TestSourcesAreRetired(t *testing.T) {
	var retired []string
	var mu sync.Mutex
	named := func(name string, c *cluster) ListWatcher {
		s := c.source()
		s.Retired = func() {
			mu.Lock()
			defer mu.Unlock()
			retired = append(retired, name)
		}
		return s
	}
	want := func(t *testing.T, names ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(retired, names) {
			t.Errorf("retired %v, want %v", retired, names)
		}
	}
	broken := &cluster{watch: func(int, metav1.ListOptions) error { return errReset }}
	good := &cluster{list: one(5)}
	var loop *Loop[item]
	play(t, &cluster{list: one(5)}, func(_ *Config[item], s *ListWatcher) { *s = named("first", &cluster{list: one(5)}) }, func(s *scene) {
		loop = s.loop
		s.loop.SetListWatcher(named("broken", broken))
		s.pass(time.Second)
		want(t) // the first one still serves
		s.loop.SetListWatcher(named("good", good))
		s.pass(retryLimit)
		want(t, "first", "broken")
	})
	want(t, "first", "broken", "good")
	loop.SetListWatcher(named("late", good))
	want(t, "first", "broken", "good", "late")
}
