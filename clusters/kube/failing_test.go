// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

var errSick = apierrors.NewInternalError(errors.New("etcdserver: no leader"))

// sicknesses are ways in which a namespace can fail, without being refused.
var sicknesses = map[string]func(*cluster){
	"answers 500": func(c *cluster) {
		c.list = func(int, metav1.ListOptions) (runtime.Object, error) { return nil, errSick }
		c.watch = func(int, metav1.ListOptions) error { return errSick }
	},
	"hangs": func(c *cluster) { c.hangs = true },
	"answers what is no list": func(c *cluster) {
		c.list = func(int, metav1.ListOptions) (runtime.Object, error) { return new(corev1.PodList), nil }
		c.watch = func(int, metav1.ListOptions) error { return errors.New("the answer is HTML") }
	},
	"answers 500 to lists of all, though not of one": func(c *cluster) {
		c.list = func(_ int, opts metav1.ListOptions) (runtime.Object, error) {
			if opts.Limit == 1 {
				return podList(5, "more"), nil
			}
			return nil, errSick
		}
		c.watch = func(int, metav1.ListOptions) error { return errOpenTimeout }
	},
}

// playSick plays each sickness of each of two namespaces.
func playSick(t *testing.T, sickAtStart bool, script func(s *towns, name string, sick, well *cluster, makeSick, heal func())) {
	for what, sickness := range sicknesses {
		for _, name := range []string{"east", "west"} {
			t.Run(name+" "+what, func(t *testing.T) {
				east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
				sick, well := east, west
				if name == "west" {
					sick, well = west, east
				}
				healthy := sick.list
				heal := func() { sick.with(func(c *cluster) { c.list, c.watch, c.hangs = healthy, nil, false }) }
				makeSick := func() { sick.with(sickness) }
				if sickAtStart {
					makeSick()
				}
				playTowns(t, east, west, func(s *towns) { script(s, name, sick, well, makeSick, heal) })
			})
		}
	}
}

// wantFailing checks that the loop follows without a namespace that fails.
func (s *towns) wantFailing(name string) {
	s.t.Helper()
	state, want := s.got.state(), []string{name}
	if state.Phase != Following || !slices.Equal(state.LeftOut, want) || !slices.Equal(state.Failing, want) || !strings.Contains(fmt.Sprint(state.Err), "namespace "+name) {
		s.t.Errorf("state %+v", state)
	}
}

// A namespace whose lists fail at a start is left out: the others are given on and followed, and
// it comes in as soon as it answers.
func TestStartBesideFailingNamespace(t *testing.T) {
	playSick(t, true, func(s *towns, name string, sick, well *cluster, _, heal func()) {
		s.pass(2 * scopePatience)
		s.wantLog(fmt.Sprintf("replaced first_fill@5 1 without [%s] [%[1]s]", name))
		s.wantFailing(name)
		stream, n := well.last()
		if n != 1 {
			t.Fatalf("%d streams of the other", n)
		}
		stream.send(watch.Modified, pod("x", 7, "2"))
		synctest.Wait()
		s.wantLog(fmt.Sprintf("replaced first_fill@5 1 without [%s] [%[1]s]", name), "modified x=2@7")
		lists, _ := sick.counts()
		s.pass(time.Hour)
		if now, _ := sick.counts(); now-lists > 3000 {
			s.t.Errorf("asked %d times within an hour", now-lists)
		}
		if lists, watches := well.counts(); lists != 1 || watches != 1 {
			s.t.Errorf("the other was listed %d times, and its watch opened %d times", lists, watches)
		}
		heal()
		s.pass(30 * time.Second)
		s.wantLeftOut()
		if names := s.got.names(); len(names) != 2 {
			s.t.Errorf("all is well, and shown are %v", names)
		}
	})
}

// The same after a revision that was forgotten. What had been shown of it goes on from where it was.
func TestFailingNamespaceAfterAGap(t *testing.T) {
	playSick(t, false, func(s *towns, name string, sick, well *cluster, makeSick, heal func()) {
		makeSick()
		well.with(func(c *cluster) {
			c.list = one(20, pod("a", 3, "1"))
			c.watch = func(_ int, opts metav1.ListOptions) error {
				if opts.ResourceVersion == "5" {
					return gone()
				}
				return nil
			}
		})
		ended, _ := well.last()
		ended.end(nil)
		s.pass(5 * scopePatience)
		want := []string{"replaced first_fill@5 2", fmt.Sprintf("replaced expired@20 1 without [%s] []", name)}
		s.wantLog(want...)
		s.wantFailing(name)
		stream, _ := well.last()
		stream.send(watch.Deleted, pod("a", 21, "1"))
		synctest.Wait()
		want = append(want, "deleted a@21")
		s.wantLog(want...)
		heal()
		s.pass(30 * time.Second)
		s.wantLeftOut()
		back, _ := sick.last()
		back.send(watch.Modified, pod("y", 8, "2"))
		synctest.Wait()
		s.wantLog(append(want, "modified y=2@8")...)
	})
}

// Who fails once, at once, is asked again, and nothing is left out.
func TestNamespaceThatFailsOnce(t *testing.T) {
	healthy := one(5, pod("b", 4, "1"))
	west := &cluster{list: func(n int, opts metav1.ListOptions) (runtime.Object, error) {
		if n == 1 {
			return nil, errSick
		}
		return healthy(n, opts)
	}}
	playTowns(t, &cluster{list: one(5, pod("a", 3, "1"))}, west, func(s *towns) {
		s.pass(time.Second)
		s.wantLog("replaced first_fill@5 2")
		s.wantLeftOut()
	})
}

// Where all fail it is no namespace that does.
func TestAllNamespacesFail(t *testing.T) {
	for what, sickness := range sicknesses {
		t.Run(what, func(t *testing.T) {
			east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
			playTowns(t, east, west, func(s *towns) {
				east.with(sickness)
				west.with(sickness)
				s.stream().end(nil)
				for range 10 {
					s.pass(time.Minute)
					if got := s.got.state(); got.Phase == Following || len(s.got.lines()) != 1 {
						s.t.Fatalf("state %+v, told %q", got, s.got.lines())
					}
				}
				east.with(func(c *cluster) { c.list, c.watch, c.hangs = one(5, pod("a", 3, "1")), nil, false })
				s.pass(time.Minute)
				s.wantFailing("west")
			})
		})
	}
}

// A namespace that answers, later than others wait for it, is read nevertheless.
func TestSlowNamespace(t *testing.T) {
	for name, slow := range map[string]time.Duration{"beside one that is not": 0, "as all are": 2 * scopePatience} {
		t.Run(name, func(t *testing.T) {
			east := &cluster{list: one(5, pod("a", 3, "1")), slow: slow}
			west := &cluster{list: one(5, pod("b", 4, "1")), slow: 2 * scopePatience}
			playTowns(t, east, west, func(s *towns) {
				s.pass(90 * time.Second)
				s.wantLeftOut()
				if got := s.got.lines(); !slices.ContainsFunc(got, func(line string) bool {
					return strings.HasSuffix(line, "@5 2") || strings.HasSuffix(line, "@5 2 older")
				}) {
					s.t.Errorf("told %q", got)
				}
			})
		})
	}
}

// A namespace whose watch is accepted and breaks at once, each time, does not break those of the
// others again and again. What cannot be read at one revision is stepped over by a list.
func TestNamespaceWhoseStreamBreaks(t *testing.T) {
	for what, end := range map[string]error{"a connection": errors.New("connection reset"), "garbage": fmt.Errorf("%w: no JSON", ErrUndecodable)} {
		t.Run(what, func(t *testing.T) {
			east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
			playTowns(t, east, west, func(s *towns) {
				for _, c := range []*cluster{east, west} {
					c.with(func(c *cluster) { c.list = one(20, pod("c", 9, "1")) })
				}
				west.with(func(c *cluster) { c.breaks = map[string]error{"5": end} })
				ended, _ := west.last()
				ended.end(end)
				if errors.Is(end, ErrUndecodable) { // each time, and the list shows what could not be read
					s.pass(30 * time.Second)
					s.wantLog("replaced first_fill@5 2", "replaced expired@20 2")
				} else {
					for range 600 {
						s.pass(5 * time.Second)
						s.wantFailing("west")
					}
					s.wantLog("replaced first_fill@5 2")
					west.with(func(c *cluster) { c.breaks = nil })
					s.pass(30 * time.Second)
				}
				s.wantLeftOut()
				if _, watches := east.counts(); watches > 5 {
					s.t.Errorf("%d watches of the other were opened", watches)
				}
			})
		})
	}
}

// A restored store is found by whatever namespace shows a revision.
func TestRevisionBesideFailingNamespace(t *testing.T) {
	for what, answer := range map[string]http.HandlerFunc{
		"answers 500": func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusInternalServerError) },
		"hangs":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(what, func(t *testing.T) {
			serving(t, func(t *testing.T, f *apiServer) {
				s := openSession(t, f)
				defer s.Release()
				s.namespaces = []string{"east", "west"}
				f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
					switch {
					case strings.Contains(r.URL.Path, "/namespaces/east/"):
						answer(w, r)
						return true
					case strings.Contains(r.URL.Path, "/namespaces/west/"):
						writeObject(w, &corev1.ServiceList{TypeMeta: metav1.TypeMeta{Kind: "ServiceList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}})
						return true
					}
					return false
				})
				ctx, cancel := context.WithTimeout(t.Context(), probeTimeout)
				defer cancel()
				if got, err := s.revision(ctx, Services); got != 7 || err != nil {
					t.Errorf("revision %d, %v", got, err)
				}
			})
		})
	}
}

// A namespace that falls silent, and whose requests fail, has none of the others doubted: their
// streams go on, but for the moment in which they are opened without it.
func TestNamespaceThatFallsSilent(t *testing.T) {
	for what, sickness := range sicknesses {
		t.Run(what, func(t *testing.T) {
			east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
			playTowns(t, east, west, func(s *towns) {
				west.with(sickness)
				west.with(func(c *cluster) { c.checkErr = errSick })
				for range 120 {
					s.pass(time.Second)
					if state := s.got.state(); state.Phase != Following {
						s.t.Fatalf("state %+v", state)
					}
				}
				s.wantFailing("west")
				for _, end := range s.counts.ends {
					if end != EndClosed {
						s.t.Errorf("streams ended %v", s.counts.ends)
					}
				}
			})
		})
	}
}

// One check that fails is no failing namespace.
func TestCheckThatFailsOnce(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	west.check = func(_ context.Context, n int, _ metav1.ListOptions) (Stream, error) {
		if n == 1 {
			return nil, errSick
		}
		return brief(), nil
	}
	playTowns(t, east, west, func(s *towns) {
		s.pass(time.Hour)
		s.wantLeftOut()
		if _, watches := west.counts(); watches != 1 {
			s.t.Errorf("%d watches", watches)
		}
	})
}
