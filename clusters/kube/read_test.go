// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/syncer"
)

// openSession is a session to a fake server.
func openSession(t *testing.T, f *apiServer) *Session {
	t.Helper()
	s, err := Open(t.Context(), f.config(""), SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// missingObject answers as an API server that has no object of that name.
func missingObject(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		Message: fmt.Sprintf("pods %q not found", name), Details: &metav1.StatusDetails{Kind: "pods", Name: name},
	})
}

func writeObject(w http.ResponseWriter, obj runtime.Object) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj)
}

// onPods answers questions for one pod.
func onPods(answer func(w http.ResponseWriter, r *http.Request, name string)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/pods/") {
			return false
		}
		answer(w, r, path.Base(r.URL.Path))
		return true
	}
}

func TestReadsOneObject(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, name string)
		want   Outcome
	}{
		"there": {func(w http.ResponseWriter, _ *http.Request, name string) {
			writeObject(w, &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "1", ResourceVersion: "7"},
			})
		}, There},
		"there is another": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			writeObject(w, &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "1", ResourceVersion: "7"},
			})
		}, Failed},
		"there is another kind": {func(w http.ResponseWriter, _ *http.Request, name string) {
			writeObject(w, &corev1.Service{
				TypeMeta:   metav1.TypeMeta{Kind: "Service", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "1", ResourceVersion: "7"},
			})
		}, Failed},
		"there is one without metadata": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			writeObject(w, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}})
		}, Failed},
		"there is one without a UID": {func(w http.ResponseWriter, _ *http.Request, name string) {
			writeObject(w, &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "7"},
			})
		}, Failed},
		"gone":                      {func(w http.ResponseWriter, _ *http.Request, name string) { missingObject(w, name) }, Gone},
		"another name is not found": {func(w http.ResponseWriter, _ *http.Request, _ string) { missingObject(w, "b") }, Failed},
		"a proxy finds nothing":     {func(w http.ResponseWriter, _ *http.Request, _ string) { http.Error(w, "404 page not found", 404) }, Failed},
		"the resource is unknown":   {func(w http.ResponseWriter, _ *http.Request, _ string) { fail(w, 404) }, Failed},
		"no right":                  {func(w http.ResponseWriter, _ *http.Request, _ string) { fail(w, 403) }, Refused},
		"a front's page": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			http.Error(w, "<h1>Forbidden</h1>", http.StatusForbidden)
		}, Failed},
		"no credential": {func(w http.ResponseWriter, _ *http.Request, _ string) { fail(w, 401) }, Failed},
		"trouble":       {func(w http.ResponseWriter, _ *http.Request, _ string) { fail(w, 500) }, Failed},
		"nothing":       {func(http.ResponseWriter, *http.Request, string) {}, Failed},
		"no answer":     {func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, func(t *testing.T, f *apiServer) {
				s := openSession(t, f)
				defer s.Release()
				f.setHook(onPods(func(w http.ResponseWriter, r *http.Request, name string) {
					if r.URL.RawQuery != "" {
						t.Errorf("asked with %q: not from etcd", r.URL.RawQuery)
					}
					tc.answer(w, r, name)
				}))
				object, outcome, err := s.Read(t.Context(), Pods, syncer.Key{Namespace: "ns", Name: "a"})
				if outcome != tc.want || (err != nil) != (tc.want == Failed || tc.want == Refused) {
					t.Fatalf("outcome %d with %v, want %d", outcome, err, tc.want)
				}
				if p, ok := object.(*corev1.Pod); outcome == There && (!ok || p.UID != "1" || p.ResourceVersion != "7") {
					t.Errorf("read %v", object)
				}
			})
		})
	}
}

// What another cluster does not have is not gone.
func TestReadsNothingFromAnotherCluster(t *testing.T) {
	serving(t, func(t *testing.T, f *apiServer) {
		s := openSession(t, f)
		defer s.Release()
		f.setHook(onPods(func(w http.ResponseWriter, _ *http.Request, name string) { missingObject(w, name) }))
		f.mu.Lock()
		f.uid = "uid-b"
		f.mu.Unlock()
		f.server.CloseClientConnections()
		if _, outcome, err := s.Read(t.Context(), Pods, syncer.Key{Namespace: "ns", Name: "a"}); outcome != Failed || err == nil {
			t.Errorf("outcome %d with %v", outcome, err)
		}
	})
}

// Nor is what another cluster does not have that a proxy leads to over the connection that is
// open: no dial tells. Where the identity may not be asked for, it is believed.
func TestConfirmsWhatItReads(t *testing.T) {
	for name, tc := range map[string]struct {
		uid    string
		denied bool
		want   Outcome
	}{
		"the same": {"uid-a", false, Gone}, "another": {"uid-b", false, Failed}, "not to be asked": {"uid-b", true, Gone},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, func(t *testing.T, f *apiServer) {
				s := openSession(t, f)
				pods := onPods(func(w http.ResponseWriter, _ *http.Request, name string) { missingObject(w, name) })
				f.setHook(func(w http.ResponseWriter, r *http.Request) bool {
					if tc.denied && path.Base(r.URL.Path) == "kube-system" {
						fail(w, 403)
						return true
					}
					return pods(w, r)
				})
				f.mu.Lock()
				f.uid = tc.uid
				f.mu.Unlock()
				reader := NewReader(func() *Session {
					s.Hold()
					return s
				})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { reader.Run(ctx) })
				outcomes := make(chan Outcome)
				reader.Ask(Reading{Resource: Pods, Key: syncer.Key{Namespace: "ns", Name: "a"}, Answered: func(_ runtime.Object, o Outcome, _ error) { outcomes <- o }})
				if got := <-outcomes; got != tc.want {
					t.Errorf("outcome %d, want %d", got, tc.want)
				}
				cancel()
				running.Wait()
				s.Release()
			})
		})
	}
}

// 200 objects are settled within 3 s and 5,000 within 30 s, at 100 ms a read, without a
// flood.
func TestReadsManyAtAPace(t *testing.T) {
	for n, limit := range map[int]time.Duration{200: 3 * time.Second, 5000: 30 * time.Second} {
		serving(t, func(t *testing.T, f *apiServer) {
			s := openSession(t, f)
			defer s.Release()
			var mu sync.Mutex
			var open, most int
			f.setHook(onPods(func(w http.ResponseWriter, _ *http.Request, name string) {
				mu.Lock()
				open++
				most = max(most, open)
				mu.Unlock()
				time.Sleep(100 * time.Millisecond) // virtual: a server far away
				mu.Lock()
				open--
				mu.Unlock()
				missingObject(w, name)
			}))
			reader := NewReader(func() *Session {
				s.Hold()
				return s
			})
			var running, answers sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			running.Go(func() { reader.Run(ctx) })
			start := time.Now()
			for i := range n {
				answers.Add(1)
				reader.Ask(Reading{Resource: Pods, Key: syncer.Key{Namespace: "ns", Name: fmt.Sprint("p-", i)}, Answered: func(_ runtime.Object, outcome Outcome, err error) {
					if outcome != Gone {
						t.Errorf("outcome %d with %v", outcome, err)
					}
					answers.Done()
				}})
			}
			answers.Wait()
			if took := time.Since(start); took > limit || most > readsInFlight {
				t.Errorf("%d reads took %v, %d at once", n, took, most)
			}
			cancel()
			running.Wait()
		})
	}
}

// A server that is busy is asked again when it says, and a reader that is not connected
// settles nothing.
func TestReaderWaitsForABusyServer(t *testing.T) {
	serving(t, func(t *testing.T, f *apiServer) {
		s := openSession(t, f)
		asked := 0
		f.setHook(onPods(func(w http.ResponseWriter, _ *http.Request, name string) {
			if asked++; asked == 1 {
				w.Header().Set("Retry-After", "2")
				http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
				return
			}
			missingObject(w, name)
		}))
		current := s
		reader := NewReader(func() *Session {
			if current != nil {
				current.Hold()
			}
			return current
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { reader.Run(ctx) })
		outcomes := make(chan Outcome)
		ask := func() Outcome {
			reader.Ask(Reading{Resource: Pods, Key: syncer.Key{Namespace: "ns", Name: "a"}, Answered: func(_ runtime.Object, o Outcome, _ error) { outcomes <- o }})
			return <-outcomes
		}
		start := time.Now()
		if got := ask(); got != Gone || time.Since(start) != 2*time.Second {
			t.Errorf("outcome %d after %v", got, time.Since(start))
		}
		current = nil
		if got := ask(); got != Failed {
			t.Errorf("outcome %d without a session", got)
		}
		cancel()
		running.Wait()
		s.Release()
	})
}

// A server that has just started refuses everything for a moment: the right is missing once
// it has been refused for a while.
func TestReaderConfirmsRefusals(t *testing.T) {
	serving(t, func(t *testing.T, f *apiServer) {
		s := openSession(t, f)
		refuses := true
		f.setHook(onPods(func(w http.ResponseWriter, _ *http.Request, name string) {
			if refuses {
				fail(w, 403)
				return
			}
			missingObject(w, name)
		}))
		reader := NewReader(func() *Session {
			s.Hold()
			return s
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { reader.Run(ctx) })
		outcomes := make(chan Outcome)
		for i, step := range []struct {
			after   time.Duration
			refuses bool
			want    Outcome
		}{{0, true, Failed}, {2 * time.Second, true, Failed}, {time.Second, true, Refused}, {0, true, Refused}, {0, false, Gone}, {time.Hour, true, Failed}} {
			pause(ctx, step.after)
			refuses = step.refuses
			reader.Ask(Reading{Resource: Pods, Key: syncer.Key{Namespace: "ns", Name: "a"}, Answered: func(_ runtime.Object, o Outcome, _ error) { outcomes <- o }})
			if got := <-outcomes; got != step.want {
				t.Errorf("question %d: outcome %d, want %d", i, got, step.want)
			}
		}
		cancel()
		running.Wait()
		s.Release()
	})
}
