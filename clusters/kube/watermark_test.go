// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/syncer"
)

// versioned makes a loop remember what it heard last.
func versioned(cfg *Config[item], _ *ListWatcher) {
	cfg.Version = func(i *item) uint64 { return i.rv }
}

// A complete list settles what was observed up to its revision.
func TestListsSettleWatermarks(t *testing.T) {
	heard := func(name string, rv uint64, gone bool) Watermark {
		return Watermark{Key: syncer.Key{Namespace: "ns", Name: name}, Revision: rv, Gone: gone, Made: name == "new" && rv == 10}
	}
	for name, c := range map[string]struct {
		list  []item
		at    uint64
		older bool
		want  []Watermark
	}{
		"the newest was deleted in the gap":            {[]item{listed("a", 3)}, 20, false, []Watermark{heard("new", 10, true)}},
		"everything was":                               {nil, 20, false, []Watermark{heard("new", 10, true)}},
		"and something newer is there":                 {[]item{listed("b", 15)}, 20, false, []Watermark{heard("b", 15, false)}},
		"nothing happened":                             {[]item{listed("new", 10)}, 20, false, []Watermark{heard("new", 10, false)}},
		"it changed":                                   {[]item{listed("new", 12)}, 20, false, []Watermark{heard("new", 12, false)}},
		"the newest is older than it was":              {[]item{listed("new", 8)}, 20, true, []Watermark{heard("new", 8, false)}},
		"the list's revision is lower":                 {[]item{listed("a", 3)}, 9, true, []Watermark{heard("a", 3, false)}},
		"the newest is older, and the list very young": {[]item{listed("new", 8), listed("b", 30)}, 31, true, []Watermark{heard("b", 30, false)}},
	} {
		t.Run(name, func(t *testing.T) {
			lists := 0
			world := &cluster{list: func(int, metav1.ListOptions) (runtime.Object, error) {
				if lists++; lists == 1 {
					return podList(5, "", pod("a", 3, "1")), nil
				}
				answer := podList(int(c.at), "")
				for _, i := range c.list {
					answer.Items = append(answer.Items, *pod(i.Name, int(i.rv), "1"))
				}
				return answer, nil
			}}
			play(t, world, versioned, func(s *scene) {
				s.stream().send(watch.Added, pod("new", 10, "1"))
				synctest.Wait()
				s.stream().end(gone())
				s.pass(time.Second)
				got, stream := s.loop.Watermarks()
				if !slices.Equal(got, c.want) || stream != 2 {
					t.Errorf("remembered are %v on stream %d, want %v", got, stream, c.want)
				}
				last := s.got.lines()[2]
				if older := last[len(last)-5:] == "older"; older != c.older {
					t.Errorf("told %q, want older: %t", last, c.older)
				}
			})
		})
	}
}

// However many objects are made and deleted again after what is lost with a store: one that
// is restored to before both is asked about what it has lost.
func TestWhatWasMadeAndDeletedHidesNoOlderLoss(t *testing.T) {
	object := func(name string, rv uint64) Watermark {
		return Watermark{Key: syncer.Key{Namespace: "ns", Name: name}, Revision: rv}
	}
	for _, lost := range []Watermark{{}, {Gone: true}, {Made: true}} {
		lost.Key, lost.Revision = object("old", 0).Key, 1
		for _, atOnce := range []bool{false, true} {
			var m Watermarks
			m.Opened(nil)
			m.Observed(lost)
			const many = 50
			rv := uint64(1)
			observe := func(i int, made bool) {
				rv++
				w := object(fmt.Sprint("new-", i), rv)
				w.Made, w.Gone = made, !made
				m.Observed(w)
			}
			for i := range many {
				if observe(i, true); !atOnce {
					observe(i, false)
				}
			}
			if atOnce {
				for i := range many {
					observe(i, false)
				}
			}
			m.Closed()
			m.Opened(nil)
			asked := false
			for range 2 * many {
				all, _ := m.All()
				for _, w := range all {
					if asked = asked || w == lost; w.Gone && w.Made {
						m.Confirmed(w) // it is not there
					}
				}
			}
			if !asked {
				t.Errorf("%+v, made at once: %t: nobody asks for what was lost", lost, atOnce)
			}
		}
	}
}

func listed(name string, rv uint64) item {
	return item{Key: syncer.Key{Namespace: "ns", Name: name}, rv: rv}
}

// That a server went back in time is told with the list that follows, whatever that list
// was due for, and with no other.
func TestWentBackBesideAnExpiredWatch(t *testing.T) {
	play(t, &cluster{list: one(5, pod("a", 3, "1"))}, nil, func(s *scene) {
		s.cluster.mu.Lock()
		s.cluster.watch = func(n int, _ metav1.ListOptions) error {
			if n == 2 {
				s.loop.WentBack() // while the watch is opened that has expired
				return gone()
			}
			return nil
		}
		s.cluster.mu.Unlock()
		s.stream().end(nil)
		s.pass(5 * time.Second)
		s.loop.Rewind()
		s.pass(time.Minute)
		s.wantLog("replaced first_fill@5 1", "replaced expired@5 1 older", "replaced rewound@5 1")
	})
}

// A revision that expires again and again costs a small part of the time; a single one
// after a first list that took long leaves the cluster unfollowed no longer than a list.
func TestListsArePaced(t *testing.T) {
	const took = 12 * time.Second
	slow := &cluster{list: func(int, metav1.ListOptions) (runtime.Object, error) {
		time.Sleep(took)
		return podList(5, "", pod("a", 3, "1")), nil
	}}
	play(t, slow, nil, func(s *scene) {
		s.pass(took)
		s.stream().end(gone())
		s.pass(took + retryLimit)
		if _, streams := s.last(); streams != 2 {
			t.Fatalf("%d streams: not followed again", streams)
		}
		for range 100 {
			stream, _ := s.last()
			if !stream.stopped.Load() {
				stream.end(gone())
			}
			s.pass(10 * time.Second)
		}
		if lists, _ := s.cluster.counts(); lists > 2+1000/int((1+listShare)*took/time.Second)+2 {
			t.Errorf("%d lists of %v in 1,000 s", lists, took)
		}
	})
}

// Lists that are asked for beside a stream are paced as well when they fail.
func TestListsBesideAStreamArePaced(t *testing.T) {
	const took = 10 * time.Second
	failing := &cluster{list: func(n int, _ metav1.ListOptions) (runtime.Object, error) {
		if n > 1 {
			time.Sleep(took)
			return nil, errReset
		}
		return podList(5, ""), nil
	}}
	play(t, failing, nil, func(s *scene) {
		s.loop.Relist()
		s.pass(1000 * time.Second)
		if lists, _ := s.cluster.counts(); lists > 3+1000/int((1+listShare)*took/time.Second) {
			t.Errorf("%d lists of %v in 1,000 s", lists, took)
		}
	})
}
