// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
)

// A backup that is seconds old: when the restored server is back, its revisions are
// beyond all that was seen already, and no watch tells what was lost.
func TestRestoredFreshBackupIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name  string
		lose  func(a *fakeAPI)
		after func(a *fakeAPI) // what happens before anybody looks
	}{
		{"a change was lost", func(a *fakeAPI) { a.put(notReady(newPod("shop", "web", 19))) }, nil},
		{"a deletion was lost", func(a *fakeAPI) { a.remove("pods", "shop", "web-19") }, nil},
		{"a new pod was lost", func(a *fakeAPI) { a.put(newPod("shop", "web", 40)) }, nil},
		{"a change of a Service was lost", func(a *fakeAPI) { a.put(newService("shop", "web")) }, nil},
		{"a change was lost, and the watches are back with news", func(a *fakeAPI) { a.put(notReady(newPod("shop", "web", 19))) },
			func(a *fakeAPI) { a.put(newPod("shop", "web", 41)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			guarded(t, nil, func(w *world, a *fakeAPI) {
				w.pass(time.Minute)
				before := a.backup()
				c.lose(a)
				w.pass(0)
				a.with(func() {
					a.events = before
					a.rv += 100
					a.closing++
				})
				if c.after != nil {
					w.pass(200 * time.Millisecond)
					c.after(a)
				}
				var noticed time.Duration
				for w.status("a").Reason != string(evidence.ReasonRevisionRegressed) {
					if noticed += 100 * time.Millisecond; noticed > 20*time.Second {
						t.Fatal("not noticed within 20 s")
					}
					w.pass(100 * time.Millisecond)
				}
				w.pass(time.Minute)
				w.wantState("a", Live, ReasonNone)
				if s := w.status("a"); !strings.Contains(s.LastError, kube.ErrWentBack.Error()) {
					t.Errorf("last error %v", s.LastError)
				}
				ready := 20
				if c.after != nil {
					ready++
				}
				w.wantReady(ready, 12, 1)
			})
		})
	}
}

// What is deleted and made again, and changes whose news are late, are no restored
// backup; nor is a server that does not let us read single objects.
func TestPastIsNotDoubtedWithoutReason(t *testing.T) {
	for _, c := range []struct {
		name string
		live func(w *world, a *fakeAPI)
	}{
		{"a quiet member", func(*world, *fakeAPI) {}},
		{"the newest object is deleted", func(_ *world, a *fakeAPI) {
			a.put(newPod("shop", "web", 40))
			a.remove("pods", "shop", "web-40")
		}},
		{"the newest object is made again", func(_ *world, a *fakeAPI) {
			a.remove("pods", "shop", "web-19")
			a.put(newPod("shop", "web", 19))
		}},
		{"the newest object is deleted in a gap that expires", func(w *world, a *fakeAPI) {
			a.put(newPod("shop", "web", 40))
			w.pass(time.Second)
			a.with(func() {
				a.down = true
				a.closing++
			})
			a.remove("pods", "shop", "web-40")
			a.with(func() {
				a.down = false
				a.oldest = a.rv
			})
		}},
		{"streams end all the time", func(w *world, a *fakeAPI) {
			for n := range 30 {
				a.put(newPod("shop", "web", 60+n))
				a.remove("pods", "shop", newPod("shop", "web", 60+n).Name)
				a.with(func() { a.closing++ })
				w.pass(time.Second)
			}
		}},
		{"single objects may not be read", func(_ *world, a *fakeAPI) { a.deny["pods/name"] = 403 }},
		{"all is listed again", func(w *world, _ *fakeAPI) { w.set.Relist("a") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			guarded(t, nil, func(w *world, a *fakeAPI) {
				c.live(w, a)
				for range 100 {
					w.pass(time.Second)
					if s := w.status("a"); strings.Contains(s.LastError, kube.ErrWentBack.Error()) {
						t.Fatal(s.LastError)
					}
				}
				w.wantReady(20, 12, 1)
			})
		})
	}
}
