// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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

var errReset = errors.New("connection reset by peer")

func TestEventsFollowTheList(t *testing.T) {
	play(t, &cluster{list: one(5, pod("a", 3, "1"), pod("b", 4, "1"))}, nil, func(s *scene) {
		if rv := s.watches[0].ResourceVersion; rv != "5" {
			t.Errorf("watch from %q, want 5", rv)
		}
		s.stream().send(watch.Modified, pod("a", 6, "2"))
		s.stream().send(watch.Added, pod("c", 7, "1"))
		s.stream().send(watch.Deleted, pod("b", 8, "1"))
		synctest.Wait()
		s.wantLog("replaced first_fill@5 2", "modified a=2@6", "added c=1@7", "deleted b@8")
		s.wantCounts(1, 1)
		if s.got.state().Phase != Following {
			t.Errorf("state %+v", s.got.state())
		}
	})
}

func TestResumesWhereItStopped(t *testing.T) {
	play(t, &cluster{list: one(5)}, nil, func(s *scene) {
		s.stream().send(watch.Added, pod("a", 6, "1"))
		s.stream().bookmark(90)
		synctest.Wait()
		s.stream().end(errReset)
		s.pass(time.Second)
		s.wantCounts(1, 2)
		if rv := s.watches[1].ResourceVersion; rv != "90" {
			t.Errorf("resumed from %q, want the bookmark's 90", rv)
		}
		s.stream().end(nil)
		s.pass(time.Second)
		s.wantCounts(1, 3)
		s.wantLog("replaced first_fill@5 0", "added a=1@6")
		if want := []End{EndBroken, EndClosed}; !slices.Equal(s.counts.ends, want) {
			t.Errorf("ends %v, want %v", s.counts.ends, want)
		}
	})
}

func TestStreamClosedEverySecondCostsNothing(t *testing.T) {
	play(t, &cluster{list: one(5)}, nil, func(s *scene) {
		for range 100 {
			s.pass(time.Second)
			s.stream().end(nil)
			synctest.Wait()
			if _, n := s.last(); n == 0 || s.stream().events == nil {
				t.Fatal("no new stream at once")
			}
		}
		s.wantCounts(1, 101)
		for i, at := range s.times[1:] {
			if gap := at.Sub(s.times[i]); gap != time.Second {
				t.Fatalf("stream %d was opened %v after the one before it: it did not resume at once", i+2, gap)
			}
		}
	})
}

func TestStreamClosedAtOnceBacksOff(t *testing.T) {
	c := &cluster{list: one(5)}
	play(t, c, nil, func(s *scene) {
		start := time.Now()
		for time.Since(start) < time.Minute {
			if stream := s.stream(); !stream.stopped.Load() {
				stream.end(nil)
			}
			s.pass(10 * time.Millisecond)
		}
		if _, n := c.counts(); n < 60 || n > 110 {
			t.Errorf("%d watches in a minute, want about 80: a change must not wait for more than a second", n)
		}
	})
}

func TestRefusalsBetweenShortStreamsAreNotSummedUp(t *testing.T) {
	c := &cluster{list: one(5), watch: func(n int, _ metav1.ListOptions) error {
		if n%4 != 0 {
			return errors.New("cut")
		}
		return nil
	}}
	play(t, c, nil, func(s *scene) {
		start := time.Now()
		for time.Since(start) < time.Minute {
			if stream, n := s.last(); n > 0 && !stream.stopped.Load() {
				stream.end(nil)
			}
			s.pass(10 * time.Millisecond)
		}
		// Three refusals cost 1.4 s at most, a short stream a second.
		if _, n := s.last(); n < 60*10/24 {
			t.Errorf("%d streams in a minute", n)
		}
	})
}

func TestExpiredMeansRelist(t *testing.T) {
	for name, expire := range map[string]func(s *scene){
		"as an event": func(s *scene) { s.stream().send(watch.Error, statusOf(gone())) },
		"as an answer to the watch": func(s *scene) {
			s.cluster.watch = func(n int, _ metav1.ListOptions) error {
				if n == 2 {
					return gone()
				}
				return nil
			}
			s.stream().end(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{}
			c.list = func(n int, _ metav1.ListOptions) (runtime.Object, error) {
				return podList(10*n, "", pod("a", 3, fmt.Sprint(n))), nil
			}
			play(t, c, nil, func(s *scene) {
				s.pass(time.Minute)
				expire(s)
				s.pass(time.Second)
				s.wantLog("replaced first_fill@10 1", "replaced expired@20 1")
				last := s.watches[len(s.watches)-1]
				if last.ResourceVersion != "20" {
					t.Errorf("watch from %q after the relist, want 20", last.ResourceVersion)
				}
			})
		})
	}
}

func TestExpiredForEverIsBounded(t *testing.T) {
	const slow = 500 * time.Millisecond // of a list
	c := &cluster{watch: func(int, metav1.ListOptions) error { return gone() }}
	c.list = func(int, metav1.ListOptions) (runtime.Object, error) {
		time.Sleep(slow)
		return podList(5, "", pod("a", 3, "1")), nil
	}
	play(t, c, nil, func(s *scene) {
		s.pass(10 * time.Minute)
		lists, _ := c.counts()
		if busy := time.Duration(lists) * slow; busy > 10*time.Minute/5+slow {
			t.Errorf("%d lists of %v in 10 minutes: more than a fifth of the time", lists, slow)
		}
		if lists < 60 {
			t.Errorf("only %d lists in 10 minutes", lists)
		}
	})
}

func TestRefusedIsNotEmpty(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	unauthorized := apierrors.NewUnauthorized("expired token")
	for name, refusal := range map[string]error{"403": forbidden, "401": unauthorized} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Bool
			c := &cluster{list: one(5, pod("a", 3, "1"))}
			c.watch = func(int, metav1.ListOptions) error {
				if refused.Load() {
					return refusal
				}
				return nil
			}
			play(t, c, nil, func(s *scene) {
				refused.Store(true)
				s.stream().end(nil)
				s.pass(time.Minute)
				if got := s.got.state(); got.Phase != Forbidden || !errors.Is(got.Err, refusal) {
					t.Errorf("state %+v", got)
				}
				refused.Store(false)
				s.pass(retryLimit)
				if s.got.state().Phase != Following {
					t.Errorf("not following %v after access came back", retryLimit)
				}
				s.wantLog("replaced first_fill@5 1")
				if lists, _ := c.counts(); lists != 1 {
					t.Errorf("%d lists", lists)
				}
			})
		})
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	c := &cluster{list: one(5)}
	c.watch = func(n int, _ metav1.ListOptions) error {
		switch n {
		case 1:
			return apierrors.NewTooManyRequests("busy", 7)
		case 2:
			return apierrors.NewTooManyRequests("busy", 86400)
		}
		return nil
	}
	play(t, c, nil, func(s *scene) {
		s.pass(5 * time.Minute)
		if gap := s.times[1].Sub(s.times[0]); gap != 7*time.Second {
			t.Errorf("second attempt after %v, want 7s", gap)
		}
		if gap := s.times[2].Sub(s.times[1]); gap != maxRetryAfter {
			t.Errorf("third attempt after %v, want the bound %v", gap, maxRetryAfter)
		}
	})
}

func TestGarbage(t *testing.T) {
	undecodable := Event{Type: watch.Added, Err: fmt.Errorf("%w: bad bytes", ErrUndecodable)}
	for name, tc := range map[string]struct {
		event    Event
		reopened bool
	}{
		"unknown type":      {Event{Type: "EXPLODED", Object: pod("x", 9, "1")}, true},
		"garbled":           {undecodable, true},
		"wrong type":        {Event{Type: watch.Added, Object: &corev1.Service{}}, false},
		"nil object":        {Event{Type: watch.Modified}, false},
		"typed nil object":  {Event{Type: watch.Deleted, Object: (*corev1.Pod)(nil)}, false},
		"nil bookmark":      {Event{Type: watch.Bookmark}, false},
		"error without one": {Event{Type: watch.Error}, true},
		"a pod as error":    {Event{Type: watch.Error, Object: pod("x", 9, "1")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, &cluster{list: one(5, pod("a", 3, "1"))}, nil, func(s *scene) {
				s.stream().events <- tc.event
				s.pass(time.Second)
				if _, n := s.last(); (n == 2) != tc.reopened {
					t.Errorf("%d streams", n)
				}
				s.stream().send(watch.Added, pod("b", 6, "1"))
				synctest.Wait()
				s.wantLog("replaced first_fill@5 1", "added b=1@6")
			})
		})
	}
}

func TestPoisonIsSteppedOverByAList(t *testing.T) {
	play(t, &cluster{list: one(5, pod("a", 3, "1"))}, nil, func(s *scene) {
		for range undecodableLimit {
			s.stream().events <- Event{Type: watch.Added, Err: ErrUndecodable}
			s.pass(2 * retryBase * 8)
		}
		s.pass(10 * time.Second)
		s.wantLog("replaced first_fill@5 1", "replaced garbled@5 1")
	})
}

func TestOldEventsArePassedOnButDoNotMoveTheRevisionBack(t *testing.T) {
	play(t, &cluster{list: one(5)}, nil, func(s *scene) {
		s.stream().send(watch.Added, pod("a", 9, "2"))
		s.stream().send(watch.Added, pod("a", 7, "1")) // goes backwards
		s.stream().send(watch.Added, pod("b", 4, "1")) // the list showed it
		synctest.Wait()
		s.stream().end(nil)
		s.pass(time.Second)
		s.wantLog("replaced first_fill@5 0", "added a=2@9", "added a=1@7")
		if rv := s.watches[1].ResourceVersion; rv != "9" {
			t.Errorf("resumed from %q, want 9", rv)
		}
	})
}

func TestHangingWatchIsGivenUp(t *testing.T) {
	hang := func(_ *Config[item], source *ListWatcher) {
		source.Watch = func(ctx context.Context, _ metav1.ListOptions) (Stream, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	play(t, &cluster{list: one(5)}, hang, func(s *scene) {
		s.pass(openTimeout)
		if got := s.got.state(); got.Phase != Waiting || !errors.Is(got.Err, errOpenTimeout) {
			t.Errorf("state %+v", got)
		}
	})
}

func TestKickEndsAWait(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	c := &cluster{list: one(5)}
	c.watch = func(int, metav1.ListOptions) error {
		if down.Load() {
			return errReset
		}
		return nil
	}
	play(t, c, nil, func(s *scene) {
		s.pass(time.Hour)
		down.Store(false)
		s.loop.RetryNow()
		synctest.Wait()
		if s.got.state().Phase != Following {
			t.Errorf("state %+v", s.got.state())
		}
	})
}
