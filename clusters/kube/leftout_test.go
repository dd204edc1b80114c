// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

var errNoRole = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))

// refuse has lists and watches refused.
func (c *cluster) refuse() {
	c.with(func(c *cluster) {
		c.list = func(int, metav1.ListOptions) (runtime.Object, error) { return nil, errNoRole }
		c.watch = func(int, metav1.ListOptions) error { return errNoRole }
	})
}

// wantLeftOut checks that the loop follows without some namespaces.
func (s *towns) wantLeftOut(want ...string) {
	s.t.Helper()
	state := s.got.state()
	if state.Phase != Following || !slices.Equal(state.LeftOut, want) || apierrors.IsForbidden(state.Err) != (len(want) > 0) {
		s.t.Errorf("state %+v", state)
	}
}

// A namespace that is refused, or gone with its Role, concerns itself alone: the others bring
// what happens, nothing of it is taken for gone, and it goes on from where it was.
func TestRefusedNamespaceConcernsItselfAlone(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "west")
	for _, refusal := range []error{errNoRole, gone} {
		east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
		playTowns(t, east, west, func(s *towns) {
			s.wantLeftOut()
			west.with(func(c *cluster) { c.watch = func(int, metav1.ListOptions) error { return refusal } })
			ended, _ := west.last()
			ended.end(nil)
			s.pass(time.Second)
			if state := s.got.state(); state.Phase != Following || !slices.Equal(state.LeftOut, []string{"west"}) || state.Err == nil {
				t.Errorf("state %+v", state)
			}
			s.stream().send(watch.Deleted, pod("a", 9, "1"))
			synctest.Wait()
			s.wantLog("replaced first_fill@5 2", "deleted a@9")
			_, before := west.counts()
			s.pass(time.Hour)
			if _, now := west.counts(); now-before < 55 || now-before > 130 {
				t.Errorf("asked %d times within an hour", now-before)
			}
			if n := west.checked(); n > 1 {
				t.Errorf("%d checks of what is refused", n)
			}
			west.with(func(c *cluster) { c.watch = nil })
			s.pass(time.Minute)
			s.wantLeftOut()
			back, n := west.last()
			if rv := west.watches[len(west.watches)-1].ResourceVersion; rv != "5" || n != 2 {
				t.Fatalf("stream %d, from %q", n, rv)
			}
			back.send(watch.Deleted, pod("b", 8, "1"))
			synctest.Wait()
			s.wantLog("replaced first_fill@5 2", "deleted a@9", "deleted b@8")
		})
	}
}

// Who starts beside it reads all others, and it as soon as that is granted.
func TestStartBesideRefusedNamespace(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	granted := west.list
	west.refuse()
	playTowns(t, east, west, func(s *towns) {
		s.wantLog("replaced first_fill@5 1 without [west] [west]")
		s.wantLeftOut("west")
		s.loop.Relist()
		s.pass(10 * time.Second)
		s.stream().send(watch.Modified, pod("a", 9, "2"))
		west.with(func(c *cluster) { c.list, c.watch = granted, nil })
		s.pass(time.Minute)
		s.wantLeftOut()
		s.wantLog("replaced first_fill@5 1 without [west] [west]", "replaced requested@5 1 without [west] [west]", "modified a=2@9", "replaced expired@5 2 older")
	})
}

// What was forgotten meanwhile is listed, as after any gap; a list that leaves it out settles nothing of it.
func TestRefusedNamespaceIsListedAfterAGap(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	playTowns(t, east, west, func(s *towns) {
		west.refuse()
		ended, _ := west.last()
		ended.end(nil)
		s.pass(time.Second)
		s.loop.Relist()
		s.pass(10 * time.Second)
		east.with(func(c *cluster) { c.list = one(20, pod("a", 3, "1")) })
		west.with(func(c *cluster) {
			c.list = one(20)
			c.watch = func(_ int, opts metav1.ListOptions) error {
				if opts.ResourceVersion == "5" {
					return apierrors.NewResourceExpired("too old")
				}
				return nil
			}
		})
		s.pass(time.Minute)
		s.wantLog("replaced first_fill@5 2", "replaced requested@5 1 without [west] []", "replaced expired@20 1")
		s.wantLeftOut()
	})
}

// One that may be watched and not listed, and was forgotten, does not keep the others from being followed.
func TestForgottenNamespaceThatMayNotBeListed(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	playTowns(t, east, west, func(s *towns) {
		west.with(func(c *cluster) {
			c.list = func(int, metav1.ListOptions) (runtime.Object, error) { return nil, errNoRole }
			c.watch = func(_ int, opts metav1.ListOptions) error {
				if opts.ResourceVersion == "5" {
					return apierrors.NewResourceExpired("too old")
				}
				return nil
			}
		})
		ended, _ := west.last()
		ended.end(apierrors.NewResourceExpired("too old"))
		s.pass(5 * time.Minute)
		s.wantLeftOut("west")
		s.stream().send(watch.Deleted, pod("a", 9, "1"))
		synctest.Wait()
		s.wantLog("replaced first_fill@5 2", "replaced expired@5 1 without [west] []", "deleted a@9")
	})
}

// A stream that nobody may check any more is given up, in order, and the others doubt nothing.
func TestRefusedCheckOfANamespace(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	playTowns(t, east, west, func(s *towns) {
		west.with(func(c *cluster) {
			c.watch = func(int, metav1.ListOptions) error { return errNoRole }
			c.checkErr = errNoRole
		})
		s.pass(20 * time.Second)
		s.wantLeftOut("west")
		for _, end := range s.counts.ends {
			if end != EndClosed {
				t.Errorf("streams ended %v", s.counts.ends)
			}
		}
		s.pass(time.Hour)
		s.wantLeftOut("west")
	})
}

// Where all are refused it is no namespace that is.
func TestAllNamespacesRefused(t *testing.T) {
	east, west := &cluster{list: one(5, pod("a", 3, "1"))}, &cluster{list: one(5, pod("b", 4, "1"))}
	playTowns(t, east, west, func(s *towns) {
		east.refuse()
		west.refuse()
		s.stream().end(nil)
		s.pass(time.Minute)
		if got := s.got.state(); got.Phase != Forbidden || len(s.got.names()) != 2 {
			t.Errorf("state %+v, left %v", got, s.got.names())
		}
	})
}
