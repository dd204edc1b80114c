// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A quiet stream costs a small request now and then, and stays; one with bookmarks or
// events costs less.
func TestQuietStreamIsChecked(t *testing.T) {
	play(t, &cluster{list: one(5, pod("a", 3, "1"))}, nil, func(s *scene) {
		s.pass(10 * time.Minute)
		s.wantCounts(1, 1)
		if n := s.checked(); n < 30 || n > 45 {
			t.Errorf("%d checks in ten minutes", n)
		}
		if got := s.cluster.checks[0]; got.ResourceVersion != "5" {
			t.Errorf("a check from revision %q, want that of the list", got.ResourceVersion)
		}
		if s.got.state().Phase != Following || len(s.got.states) != 2 {
			t.Errorf("states %v", s.got.states)
		}
		before := s.checked()
		for n := range 60 {
			s.stream().send(watch.Modified, pod("a", 6+n, "1"))
			s.pass(10 * time.Second)
		}
		if n := s.checked() - before; n > 1 {
			t.Errorf("%d checks of a stream that brings events", n)
		}
	})
}

// What a check brings and the stream did not is taken from the check, in order, and the
// stream is opened anew. The new one is believed when it is proven, within the time that
// a member's state gives it.
func TestFrozenStreamIsFound(t *testing.T) {
	frozen := &cluster{list: one(5, pod("a", 3, "1"), pod("b", 4, "1"))}
	frozen.check = func(_ context.Context, n int, opts metav1.ListOptions) (Stream, error) {
		if n > 1 {
			return brief(), nil
		}
		return brief(watch.Event{Type: watch.Modified, Object: pod("a", 6, "2")}, watch.Event{Type: watch.Deleted, Object: pod("b", 7, "1")}), nil
	}
	play(t, frozen, nil, func(s *scene) {
		s.pass(checkAfter + checkJitter + checkSeconds*time.Second)
		s.wantLog("replaced first_fill@5 2", "modified a=2@6", "deleted b@7")
		s.wantCounts(1, 2)
		if rv := s.cluster.watches[1].ResourceVersion; rv != "7" {
			t.Errorf("the next stream from revision %s, want 7", rv)
		}
		if got := s.got.state(); got.Phase != Waiting || got.Err == nil {
			t.Errorf("state %+v before the new stream is proven", got)
		}
		s.pass(checkSeconds * time.Second)
		if got := s.got.state(); got.Phase != Following {
			t.Errorf("state %+v after it is", got)
		}
		if want := []End{EndSilent}; !slices.Equal(s.counts.ends, want) {
			t.Errorf("ends %v, want %v", s.counts.ends, want)
		}
	})
}

// A healthy stream that brings an event a moment after the check did is left alone.
func TestHealthyStreamOutlivesARace(t *testing.T) {
	racing := &cluster{list: one(5)}
	racing.check = func(_ context.Context, n int, _ metav1.ListOptions) (Stream, error) {
		s := &fakeStream{events: make(chan Event, 1)}
		time.AfterFunc(checkSeconds*time.Second, func() {
			if n == 1 {
				s.send(watch.Added, pod("a", 6, "1"))
			}
			s.end(nil)
		})
		return s, nil
	}
	play(t, racing, nil, func(s *scene) {
		for s.checked() == 0 {
			s.pass(time.Second / 10)
		}
		s.pass(checkSeconds * time.Second)
		s.stream().send(watch.Added, pod("a", 6, "1"))
		s.pass(time.Minute)
		s.wantCounts(1, 1)
		s.wantLog("replaced first_fill@5 0", "added a=1@6")
	})
}

// A stream of which nothing can be learnt is not believed longer than beliefLimit, also
// when it can be opened again and again. What it should bring is read by lists then.
func TestStreamThatCannotBeCheckedIsNotBelieved(t *testing.T) {
	for name, answer := range map[string]func(context.Context, int, metav1.ListOptions) (Stream, error){
		"short watches are frozen, too": func(ctx context.Context, _ int, _ metav1.ListOptions) (Stream, error) {
			return &fakeStream{events: make(chan Event), ctx: ctx}, nil
		},
		"short watches are refused": func(context.Context, int, metav1.ListOptions) (Stream, error) {
			return nil, apierrors.NewForbidden(Pods.GroupResource(), "", nil)
		},
		"short watches are not answered": func(ctx context.Context, _ int, _ metav1.ListOptions) (Stream, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, &cluster{list: one(5), check: answer}, nil, func(s *scene) {
				s.pass(beliefLimit - time.Millisecond)
				if got := s.got.state(); got.Phase != Following {
					t.Errorf("state %+v before its time", got)
				}
				s.pass(time.Millisecond)
				for range 100 {
					if got := s.got.state(); got.Phase != Waiting || got.Err == nil {
						t.Fatalf("state %+v of a stream that nobody knows", got)
					}
					s.pass(time.Second)
				}
				s.stream().bookmark(6)
				synctest.Wait()
				if got := s.got.state(); got.Phase != Following {
					t.Errorf("state %+v after a bookmark", got)
				}
				if lists, watches := s.cluster.counts(); lists != 4 || watches > 10 { // one for each stream after the first
					t.Errorf("%d lists and %d watches", lists, watches)
				}
			})
		})
	}
}

// A server that does not know the revision any more is listed again.
func TestCheckOfAnExpiredRevision(t *testing.T) {
	expired := &cluster{list: one(5)}
	expired.check = func(context.Context, int, metav1.ListOptions) (Stream, error) { return nil, gone() }
	play(t, expired, nil, func(s *scene) {
		s.pass(checkAfter + checkJitter)
		s.wantLog("replaced first_fill@5 0", "replaced expired@5 0")
	})
}

// Whoever doubts a stream asks for a check that begins after the question.
func TestProofBeginsAfterTheQuestion(t *testing.T) {
	play(t, &cluster{list: one(5)}, nil, func(s *scene) {
		for s.checked() == 0 {
			s.pass(time.Second / 10)
		}
		check := s.loop.Prove() // while one is under way
		s.pass(checkSeconds * time.Second)
		if s.loop.Proven(check) {
			t.Error("proven by a check that began before")
		}
		s.pass(checkSeconds * time.Second)
		if !s.loop.Proven(check) {
			t.Error("not proven")
		}
	})
}
