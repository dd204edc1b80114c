// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

func TestListBesideTheStream(t *testing.T) {
	// While the list is read, a is deleted, b changes, c appears: the list shows b
	// and d at an earlier moment, and e as it was before its last event.
	var release chan struct{}
	c := &cluster{}
	c.list = func(n int, _ metav1.ListOptions) (runtime.Object, error) {
		if n == 1 {
			return podList(5, "", pod("a", 3, "1"), pod("b", 4, "1"), pod("e", 2, "1")), nil
		}
		<-release
		return podList(20, "", pod("a", 3, "1"), pod("b", 4, "1"), pod("d", 19, "1"), pod("e", 18, "3")), nil
	}
	play(t, c, nil, func(s *scene) {
		release = make(chan struct{})
		s.pass(time.Minute)
		s.loop.Relist()
		synctest.Wait()
		s.stream().send(watch.Modified, pod("e", 10, "2"))
		s.stream().send(watch.Deleted, pod("a", 21, "1"))
		s.stream().send(watch.Modified, pod("b", 22, "2"))
		s.stream().send(watch.Added, pod("c", 23, "1"))
		synctest.Wait()
		s.wantLog("replaced first_fill@5 3", "modified e=2@10", "deleted a@21", "modified b=2@22", "added c=1@23")
		close(release)
		synctest.Wait()
		want := map[string]string{"b": "2", "c": "1", "d": "1", "e": "3"}
		if got := s.got.names(); !maps.Equal(got, want) {
			t.Errorf("picture %v, want %v", got, want)
		}
		s.stream().end(nil)
		s.pass(time.Second)
		if rv := s.watches[1].ResourceVersion; rv != "23" {
			t.Errorf("resumed from %q, want 23", rv)
		}
	})
}

func TestRelistSurvivesTheEndOfTheStream(t *testing.T) {
	c := &cluster{list: one(5)}
	play(t, c, nil, func(s *scene) {
		s.pass(time.Minute)
		c.mu.Lock()
		c.list = func(n int, _ metav1.ListOptions) (runtime.Object, error) {
			if n < 4 {
				return nil, errReset
			}
			return podList(9, ""), nil
		}
		c.mu.Unlock()
		s.loop.Relist()
		synctest.Wait()
		s.stream().end(nil)
		s.pass(time.Minute)
		s.wantLog("replaced first_fill@5 0", "replaced requested@9 0")
	})
}

func TestRewindForgetsTheRevision(t *testing.T) {
	c := &cluster{}
	c.list = func(n int, _ metav1.ListOptions) (runtime.Object, error) {
		if n == 1 {
			return podList(100, ""), nil
		}
		return podList(50, "", pod("a", 40, "1")), nil // an older backup was restored
	}
	play(t, c, nil, func(s *scene) {
		s.stream().send(watch.Added, pod("b", 101, "1"))
		s.pass(time.Minute)
		if got := s.loop.Revision(); got != 101 {
			t.Errorf("revision %d, want 101", got)
		}
		s.loop.Rewind()
		synctest.Wait()
		s.wantLog("replaced first_fill@100 0", "added b=1@101", "replaced rewound@50 1 older")
		if rv := s.watches[1].ResourceVersion; rv != "50" {
			t.Errorf("watch from %q, want 50", rv)
		}
		s.stream().send(watch.Added, pod("c", 51, "1"))
		synctest.Wait()
		if got := s.loop.Revision(); got != 51 {
			t.Errorf("revision %d, want 51", got)
		}
	})
}
