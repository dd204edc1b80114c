// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// towns are two namespaces, east and west, each a scripted server of its own.
type towns struct {
	*scene
	west *cluster
}

// playTowns follows both as one kind.
func playTowns(t *testing.T, east, west *cluster, script func(s *towns)) {
	t.Helper()
	play(t, east, func(_ *Config[item], source *ListWatcher) { *source = both(east, west) }, func(s *scene) {
		script(&towns{scene: s, west: west})
	})
	for i, stream := range west.streams {
		if !stream.stopped.Load() {
			t.Errorf("stream %d of the second namespace was left open", i+1)
		}
	}
}

func both(east, west *cluster) ListWatcher {
	return Across([]string{"east", "west"}, func(namespace string) ListWatcher {
		if namespace == "east" {
			return east.source()
		}
		return west.source()
	})
}

// A list of several namespaces shows one moment: the later ones are read at the revision of the first.
func TestListOfSeveralNamespacesShowsOneMoment(t *testing.T) {
	east := &cluster{list: func(_ int, opts metav1.ListOptions) (runtime.Object, error) {
		if opts.Continue == "" {
			return podList(5, "more of it", pod("a", 3, "1")), nil
		}
		return podList(5, "", pod("b", 4, "1")), nil
	}}
	west := &cluster{list: one(5, pod("c", 2, "1"))}
	playTowns(t, east, west, func(s *towns) {
		s.wantLog("replaced first_fill@5 3")
		if east.lists[1].Continue != "more of it" {
			t.Errorf("second page %+v", east.lists[1])
		}
		if o := west.lists[0]; o.ResourceVersion != "5" || o.ResourceVersionMatch != metav1.ResourceVersionMatchExact || o.Continue != "" || o.Limit == 0 {
			t.Errorf("the second namespace is listed by %+v", o)
		}
		if east.watches[0].ResourceVersion != "5" || west.watches[0].ResourceVersion != "5" {
			t.Errorf("watches from %q and %q", east.watches[0].ResourceVersion, west.watches[0].ResourceVersion)
		}
	})
}

// One that does not is not used, and neither is one whose moment is forgotten before it is complete.
func TestTornListIsNotUsed(t *testing.T) {
	west := &cluster{list: func(n int, _ metav1.ListOptions) (runtime.Object, error) {
		switch n {
		case 1:
			return podList(7, "", pod("b", 6, "1")), nil
		case 2:
			return nil, apierrors.NewResourceExpired("compacted")
		}
		return podList(5, "", pod("b", 4, "1")), nil
	}}
	playTowns(t, &cluster{list: one(5, pod("a", 3, "1"))}, west, func(s *towns) {
		if err := s.got.state().Err; !errors.Is(err, errTorn) {
			t.Errorf("state %v", err)
		}
		s.pass(10 * time.Second)
		s.wantLog("replaced first_fill@5 2")
	})
}

// Streams are not in step: each goes on from where it was itself, and what comes late is no repetition.
func TestEachNamespaceResumesFromItsOwnRevision(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	playTowns(t, east, west, func(s *towns) {
		s.stream().send(watch.Modified, pod("a", 10, "2"))
		synctest.Wait()
		s.stream().end(errors.New("connection reset")) // the other had 8 on its way
		s.pass(time.Second)
		if rv := east.watches[1].ResourceVersion; rv != "10" {
			t.Errorf("first namespace from %q, want 10", rv)
		}
		if rv := west.watches[1].ResourceVersion; rv != "5" {
			t.Errorf("second namespace from %q, want 5", rv)
		}
		late, _ := west.last()
		late.send(watch.Deleted, pod("b", 8, "1"))
		synctest.Wait()
		s.wantLog("replaced first_fill@5 2", "modified a=2@10", "deleted b@8")
		if got := s.loop.Revision(); got != 10 {
			t.Errorf("seen up to %d", got)
		}
	})
}

// The same holds when the client is exchanged, and when a list is read beside the streams.
func TestLateEventsSurviveExchangeAndRelist(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	next := [2]*cluster{{list: one(12, pod("a", 10, "2"))}, {list: one(12, pod("b", 11, "3"))}}
	playTowns(t, east, west, func(s *towns) {
		s.stream().send(watch.Modified, pod("a", 10, "2"))
		synctest.Wait()
		s.loop.SetListWatcher(both(next[0], next[1]))
		synctest.Wait()
		if a, b := next[0].watches[0].ResourceVersion, next[1].watches[0].ResourceVersion; a != "10" || b != "5" {
			t.Fatalf("new streams from %q and %q", a, b)
		}
		late, _ := next[1].last()
		late.send(watch.Modified, pod("b", 8, "2"))
		synctest.Wait()
		s.loop.Relist()
		s.pass(time.Second)
		late.send(watch.Modified, pod("b", 11, "3")) // in the list
		late.send(watch.Modified, pod("b", 13, "4"))
		synctest.Wait()
		s.wantLog("replaced first_fill@5 2", "modified a=2@10", "modified b=2@8", "replaced requested@12 2", "modified b=4@13")
	})
}

// Much that happens in one namespace does not hide that the stream of another is frozen.
func TestFrozenStreamOfOneNamespace(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	west.check = func(context.Context, int, metav1.ListOptions) (Stream, error) {
		return brief(watch.Event{Type: watch.Deleted, Object: pod("b", 6, "1")}), nil
	}
	playTowns(t, east, west, func(s *towns) {
		for rv := 7; rv < 7+25; rv++ {
			s.stream().send(watch.Modified, pod("a", rv, "2"))
			s.pass(time.Second)
			if _, frozen := s.got.names()["b"]; !frozen {
				return
			}
		}
		t.Error("a deletion that a frozen stream did not bring is not known after 25 s")
	})
}

// Where nothing of one namespace comes, not even by checks, the others are no proof for it:
// it is not believed, and read by lists.
func TestNamespaceThatBringsNothing(t *testing.T) {
	east := &cluster{list: one(5, pod("a", 3, "1"))}
	west := &cluster{
		list: func(n int, _ metav1.ListOptions) (runtime.Object, error) {
			if n > 1 {
				return podList(5, ""), nil
			}
			return podList(5, "", pod("b", 4, "1")), nil
		},
		check: func(ctx context.Context, _ int, _ metav1.ListOptions) (Stream, error) {
			return &fakeStream{events: make(chan Event), ctx: ctx}, nil
		},
	}
	playTowns(t, east, west, func(s *towns) {
		for second := range 90 {
			if got := s.got.state(); second > 30 && got.Phase == Following {
				t.Fatalf("state %+v after %d s", got, second)
			}
			s.pass(time.Second)
		}
		if got := s.got.names(); len(got) != 1 || s.loop.Proven(1) {
			t.Errorf("what is gone stayed: %v", got)
		}
	})
}

// Whoever reads other namespaces than before lists anew.
func TestOtherNamespacesAreListed(t *testing.T) {
	all := &cluster{list: one(9, pod("a", 3, "1"), pod("z", 8, "1"))}
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5)}
	playTowns(t, east, west, func(s *towns) {
		s.loop.SetListWatcher(all.source())
		s.pass(time.Second)
		s.loop.SetListWatcher(both(&cluster{list: one(9)}, &cluster{list: one(9)}))
		s.pass(30 * time.Second)
		s.wantLog("replaced first_fill@5 1", "replaced expired@9 2", "replaced expired@9 0")
	})
}

func TestPositions(t *testing.T) {
	p := listedAt([]string{"a", "b"}, "5")
	if !p.advance("a", "9") || p.advance("a", "7") || p.advance("a", "") || p.newest() != 9 || p.shown("a", 9) || !p.shown("b", 5) {
		t.Errorf("%+v", p)
	}
	p.settle()
	list := listedAt([]string{"a", "b"}, "7")
	list.ahead(p)
	if list["a"].rv != "9" || list["b"].rv != "7" || !list.shown("a", 9) || list.shown("b", 8) {
		t.Errorf("%+v", list)
	}
	if positions(nil).newest() != 0 {
		t.Error("something was seen of nothing")
	}
}
