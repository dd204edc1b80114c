// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func TestPages(t *testing.T) {
	c := &cluster{list: func(_ int, opts metav1.ListOptions) (runtime.Object, error) {
		switch opts.Continue {
		case "":
			return podList(5, "2", pod("a", 1, "1"), pod("b", 2, "1")), nil
		case "2":
			return podList(5, "3"), nil // an empty page is not the end
		default:
			return podList(5, "", pod("c", 3, "1")), nil
		}
	}}
	play(t, c, nil, func(s *scene) {
		s.wantLog("replaced first_fill@5 3")
		s.wantCounts(3, 1)
		if c.lists[0].Limit != 500 || c.lists[0].ResourceVersion != "" {
			t.Errorf("first page asked with %+v", c.lists[0])
		}
	})
}

func TestLargePagesAreAskedForInSmallerOnes(t *testing.T) {
	c := &cluster{list: func(n int, opts metav1.ListOptions) (runtime.Object, error) {
		switch {
		case opts.Continue == "" && n > 1:
			return podList(5, "2", pod("a", 1, "1")), nil
		case opts.Limit > 10:
			return nil, fmt.Errorf("list: %w", ErrTooLarge)
		default:
			return podList(5, "", pod("b", 2, "1")), nil
		}
	}}
	play(t, c, nil, func(s *scene) {
		s.wantLog("replaced first_fill@5 2")
		var limits []int64
		for _, opts := range s.lists {
			limits = append(limits, opts.Limit)
		}
		if want := []int64{500, 125, 125, 31, 7}; !slices.Equal(limits, want) {
			t.Errorf("asked for %v objects, want %v", limits, want)
		}
	})
}

func TestObjectThatIsTooLarge(t *testing.T) {
	c := &cluster{list: func(int, metav1.ListOptions) (runtime.Object, error) { return nil, ErrTooLarge }}
	play(t, c, nil, func(s *scene) {
		s.wantLog()
		if got := s.got.state(); !errors.Is(got.Err, ErrTooLarge) {
			t.Errorf("state %+v", got)
		}
		if n, _ := c.counts(); n != 5 {
			t.Errorf("%d lists, want those of 500, 125, 31, 7 and 1 objects", n)
		}
	})
}

func TestHalfAListIsNeverApplied(t *testing.T) {
	for name, failure := range map[string]error{
		"500": apierrors.NewInternalError(errors.New("boom")),
		"410": gone(),
		"403": apierrors.NewForbidden(schema.GroupResource{}, "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			failures := 0
			c := &cluster{}
			c.list = func(_ int, opts metav1.ListOptions) (runtime.Object, error) {
				if opts.Continue == "" {
					return podList(5, "2", pod("a", 1, "1")), nil
				}
				if failures++; failures == 1 {
					return nil, failure
				}
				return podList(5, "", pod("b", 2, "1")), nil
			}
			play(t, c, nil, func(s *scene) {
				s.pass(time.Second)
				s.wantLog("replaced first_fill@5 2")
				s.wantCounts(4, 1)
				if grown := c.lists[2].Limit > c.lists[0].Limit; grown != (name == "410") {
					t.Errorf("page limits %d, then %d", c.lists[0].Limit, c.lists[2].Limit)
				}
			})
		})
	}
}

func TestListsThatCannotBeUsed(t *testing.T) {
	for name, answer := range map[string]runtime.Object{
		"nil":        nil,
		"not a list": pod("a", 1, "1"),
		"{}":         &corev1.PodList{},
		"endless":    podList(5, "again"),
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{list: func(int, metav1.ListOptions) (runtime.Object, error) { return answer, nil }}
			play(t, c, nil, func(s *scene) {
				s.pass(time.Second)
				s.wantLog()
				if got := s.got.state(); got.Err == nil {
					t.Errorf("state %+v", got)
				}
			})
		})
	}
}

func TestListOfAnotherType(t *testing.T) {
	c := &cluster{list: func(int, metav1.ListOptions) (runtime.Object, error) {
		return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: make([]corev1.Service, 3)}, nil
	}}
	play(t, c, nil, func(s *scene) {
		s.wantLog("replaced first_fill@5 0")
		if s.counts.undecodable != 3 {
			t.Errorf("%d undecodable things counted, want 3", s.counts.undecodable)
		}
	})
}

func TestTooManyObjects(t *testing.T) {
	capped := func(cfg *Config[item], _ *ListWatcher) { cfg.MaxObjects = func() int { return 2 } }
	c := &cluster{list: one(5, pod("a", 1, ""), pod("b", 2, ""), pod("c", 3, ""))}
	play(t, c, capped, func(s *scene) {
		s.wantLog()
		if got := s.got.state(); !errors.Is(got.Err, ErrTooManyObjects) {
			t.Errorf("state %+v", got)
		}
	})
}

func streams(_ *Config[item], source *ListWatcher) { source.StreamingList = true }

func TestStreamingListGoesOnAsTheWatch(t *testing.T) {
	play(t, &cluster{list: one(5)}, streams, func(s *scene) {
		opts := s.watches[0]
		if opts.SendInitialEvents == nil || !*opts.SendInitialEvents || !opts.AllowWatchBookmarks ||
			opts.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan || opts.ResourceVersion != "" {
			t.Errorf("streaming list asked with %+v", opts)
		}
		s.stream().send(watch.Added, pod("b", 4, "1"))
		s.stream().send(watch.Added, pod("a", 3, "1"))
		s.stream().send(watch.Modified, pod("a", 6, "2"))
		s.stream().send(watch.Deleted, pod("b", 7, "1"))
		synctest.Wait()
		s.wantLog()
		end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		s.stream().send(watch.Bookmark, end)
		s.stream().send(watch.Added, pod("c", 9, "1"))
		synctest.Wait()
		s.wantLog("replaced first_fill@8 1", "added c=1@9")
		s.wantCounts(0, 1)
	})
}

func TestStreamingListFallsBack(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	for name, tc := range map[string]struct {
		answer func(s *scene)
		watch  func(n int, opts metav1.ListOptions) error
		within time.Duration
	}{
		"parameters refused": {watch: func(n int, opts metav1.ListOptions) error {
			if opts.SendInitialEvents != nil {
				return invalid
			}
			return nil
		}},
		"parameters ignored": {answer: func(s *scene) { s.stream().send(watch.Added, pod("a", 3, "1")) }, within: initialIdle},
		"ends early":         {answer: func(s *scene) { s.stream().end(nil) }},
		"error event":        {answer: func(s *scene) { s.stream().send(watch.Error, statusOf(gone())) }},
		"garbled":            {answer: func(s *scene) { s.stream().events <- Event{Type: watch.Added, Err: ErrUndecodable} }},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, &cluster{list: one(5, pod("a", 3, "1")), watch: tc.watch}, streams, func(s *scene) {
				if tc.answer != nil {
					tc.answer(s)
				}
				s.pass(tc.within)
				s.wantLog("replaced first_fill@5 1")
				s.wantCounts(1, 2)
			})
		})
	}
}

func TestStreamingListThatFailsForGoodIsNotTriedAgain(t *testing.T) {
	c := &cluster{list: one(5)}
	c.watch = func(_ int, opts metav1.ListOptions) error {
		if opts.SendInitialEvents != nil {
			return apierrors.NewBadRequest("unknown parameter")
		}
		return nil
	}
	play(t, c, streams, func(s *scene) {
		s.pass(time.Minute)
		s.stream().send(watch.Error, statusOf(gone()))
		s.pass(time.Second)
		s.wantLog("replaced first_fill@5 0", "replaced expired@5 0")
		s.wantCounts(2, 3)
	})
}
