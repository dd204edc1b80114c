// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tributary.dev/tributary/syncer"
)

// server is as much of an API server as a Renewer needs, the members and the log.
type server struct {
	sync.Mutex
	members []Member
	log     bytes.Buffer

	leases map[string]*coordinationv1.Lease
	rv     int
	calls  []string
	refuse error
}

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (s *server) call(format string, args ...any) error {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	return s.refuse
}

// with changes the script.
func (s *server) with(change func()) {
	s.Lock()
	defer s.Unlock()
	change()
}

// Write implements io.Writer.
func (s *server) Write(text []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.log.Write(text)
}

func (s *server) take() []string {
	s.Lock()
	defer s.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *server) put(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.rv++
	lease = lease.DeepCopy()
	lease.ResourceVersion = strconv.Itoa(s.rv)
	s.leases[lease.Name] = lease
	return lease.DeepCopy()
}

func (s *server) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	s.Lock()
	defer s.Unlock()
	if err := s.call("list"); err != nil {
		return nil, err
	}
	list := &coordinationv1.LeaseList{}
	for _, lease := range s.leases {
		list.Items = append(list.Items, *lease.DeepCopy())
	}
	return list, nil
}

func (s *server) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	s.Lock()
	defer s.Unlock()
	if err := s.call("create %s", lease.Name); err != nil {
		return nil, err
	}
	if s.leases[lease.Name] != nil {
		return nil, apierrors.NewAlreadyExists(resource, lease.Name)
	}
	return s.put(lease), nil
}

func (s *server) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	s.Lock()
	defer s.Unlock()
	if err := s.call("update %s", lease.Name); err != nil {
		return nil, err
	}
	switch standing := s.leases[lease.Name]; {
	case standing == nil:
		return nil, apierrors.NewNotFound(resource, lease.Name)
	case standing.ResourceVersion != lease.ResourceVersion:
		return nil, apierrors.NewConflict(resource, lease.Name, nil)
	}
	return s.put(lease), nil
}

func (s *server) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	s.Lock()
	defer s.Unlock()
	err := s.call("delete %s", name)
	delete(s.leases, name)
	return err
}

// play runs a Renewer for members "a" and "b" in virtual time.
func play(t *testing.T, script func(s *server)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{leases: map[string]*coordinationv1.Lease{}}
		s.members = []Member{{Cluster: "a", Fresh: true, Seen: time.Now(), State: "live", Identity: "uid-a"}, {Cluster: "b"}}
		k := &Renewer{Instance: "default",
			Leases: func(string) API { return s }, Namespace: func() string { return "own" }, Holder: "me",
			Members: func() []Member {
				s.Lock()
				defer s.Unlock()
				return slices.Clone(s.members)
			},
			Logger: slog.New(slog.NewTextHandler(s, nil)),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			k.Run(ctx)
		}()
		synctest.Wait()
		script(s)
		cancel()
		<-ended
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func want(t *testing.T, s *server, calls ...string) {
	t.Helper()
	if got := s.take(); !slices.Equal(got, calls) {
		t.Errorf("calls %q, want %q", got, calls)
	}
}

func TestLeaseOfAMemberThatIsSeen(t *testing.T) {
	play(t, func(s *server) {
		want(t, s, "list", "create tributary-a")
		s.with(func() {
			lease := s.leases["tributary-a"]
			if *lease.Spec.HolderIdentity != "me" || *lease.Spec.LeaseDurationSeconds != 40 || !lease.Spec.RenewTime.Equal(&metav1.MicroTime{Time: s.members[0].Seen}) ||
				lease.Labels[syncer.LabelSourceCluster] != "a" || lease.Annotations[AnnotationState] != "live" {
				t.Errorf("lease %+v", lease)
			}
		})
		pass(20 * time.Second)
		want(t, s, "update tributary-a", "update tributary-a")

		s.with(func() { s.members[0].Fresh = false }) // it is left to run out
		pass(time.Hour)
		want(t, s)
		s.with(func() { s.members[0].Fresh, s.members[0].Seen = true, time.Now() })
		pass(10 * time.Second)
		want(t, s, "update tributary-a")

		// Another identity or state does not wait for the next renewal.
		s.with(func() { s.members[0].Identity = "uid-other" })
		pass(time.Second)
		want(t, s, "update tributary-a")
		s.with(func() { s.members[1].Fresh = true })
		pass(time.Second)
		want(t, s, "create tributary-b")

		s.with(func() { s.members = s.members[1:] })
		pass(time.Second)
		want(t, s, "delete tributary-a")
	})
}

func TestLeasesOfOthers(t *testing.T) {
	play(t, func(s *server) {
		s.take()
		s.with(func() {
			s.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "tributary-b"}})
			s.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "tributary-leader"}})
			s.put(s.leases["tributary-a"]) // somebody changed ours
			s.members[1].Fresh = true
		})
		pass(9 * time.Second)
		want(t, s, "create tributary-b", "list")
		s.with(func() { s.put(s.leases["tributary-a"]) }) // and again
		pass(3 * time.Second)
		want(t, s, "update tributary-a", "list", "update tributary-a")
		s.with(func() {
			if len(s.leases) != 3 || s.leases["tributary-b"].Spec.RenewTime != nil {
				t.Errorf("leases %v", s.leases)
			}
		})
	})
}

func TestRefusedLeases(t *testing.T) {
	play(t, func(s *server) {
		s.take()
		s.with(func() { s.refuse = apierrors.NewForbidden(resource, "", nil) })
		pass(30 * time.Minute)
		if calls := s.take(); len(calls) > 8 {
			t.Errorf("%d calls in half an hour", len(calls))
		}
		s.with(func() {
			if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
				t.Errorf("logged %d times: %s", n, &s.log)
			}
			s.refuse = nil
		})
		pass(10 * time.Minute)
		s.with(func() {
			if !strings.Contains(s.log.String(), "again") {
				t.Errorf("logged %s", &s.log)
			}
		})
	})
}

func TestIdentities(t *testing.T) {
	play(t, func(s *server) {
		s.with(func() {
			foreign := s.leases["tributary-a"].DeepCopy()
			foreign.Name = "tributary-c"
			foreign.Labels = nil
			s.put(foreign)
			other := s.leases["tributary-a"].DeepCopy()
			other.Name, other.Labels[syncer.LabelInstance], other.Annotations[AnnotationIdentity] = Name("blue", "a"), "blue", "another"
			s.put(other)
		})
		got, err := Identities(t.Context(), s, "default")
		if err != nil || !maps.Equal(got, map[string]string{"a": "uid-a"}) {
			t.Errorf("%v, %v", got, err)
		}
		s.with(func() { s.refuse = apierrors.NewForbidden(resource, "", nil) })
		if _, err := Identities(t.Context(), s, "default"); !apierrors.IsForbidden(err) {
			t.Errorf("refused: %v", err)
		}
		s.with(func() { s.refuse = nil })
	})
}

func TestNoNamespace(t *testing.T) {
	s := &server{}
	k := &Renewer{Instance: "default", Leases: func(string) API { return s }, Namespace: func() string { return "" }, Members: func() []Member { return nil }, Logger: slog.New(slog.DiscardHandler)}
	k.renew(t.Context(), time.Now())
	want(t, s)
}

// Two installations in one namespace keep a Lease each for a member of the same name, and
// neither renews, deletes or believes what is the other's.
func TestLeasesOfAnotherInstance(t *testing.T) {
	play(t, func(s *server) {
		s.take()
		ctx := context.Background() // that of the test is not of the bubble
		green := &Renewer{Instance: "green", Holder: "other", Leases: func(string) API { return s }, Namespace: func() string { return "own" },
			Members: func() []Member { return []Member{{Cluster: "a", Fresh: true, Seen: time.Now(), Identity: "uid-green"}} },
			Logger:  slog.New(slog.DiscardHandler),
		}
		green.renew(ctx, time.Now())
		want(t, s, "list", "create tributary-member.green.a")
		green.Members = func() []Member { return nil } // it leaves the file of green
		green.renew(ctx, time.Now())
		want(t, s, "delete tributary-member.green.a")
		s.with(func() {
			forged := s.leases["tributary-a"].DeepCopy()
			forged.Name = Name("green", "a") // it says that it is of the default one
			s.put(forged)
		})
		green.Members = func() []Member { return []Member{{Cluster: "a", Fresh: true, Seen: time.Now(), Identity: "uid-green"}} }
		green.known = nil
		green.renew(ctx, time.Now())
		want(t, s, "list")
		for instance, uid := range map[string]string{"default": "uid-a", "green": ""} {
			if got, err := Identities(ctx, s, instance); err != nil || got["a"] != uid {
				t.Errorf("%s knows a by %q, want %q (%v)", instance, got["a"], uid, err)
			}
		}
	})
}
