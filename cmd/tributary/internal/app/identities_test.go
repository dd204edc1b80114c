// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/inventory"
	"tributary.dev/tributary/syncer"
)

// TestAcceptIngress: what check says of the ingress cluster's identity is what run goes by.
func TestAcceptIngress(t *testing.T) {
	for name, c := range map[string]struct {
		expected, identity, recorded string
		want                         bool
	}{
		"the first that answers":              {"", "1", "", true},
		"may not be asked, and nobody asks":   {"", "", "", true},
		"as recorded":                         {"", "1", "1", true},
		"may not be asked, though recorded":   {"", "", "1", true},
		"another than is recorded":            {"", "2", "1", false},
		"as pinned":                           {"1", "1", "", true},
		"as pinned, against what is recorded": {"2", "2", "1", true},
		"another than is pinned":              {"1", "2", "", false},
		"pinned, and may not be asked":        {"1", "", "1", false},
	} {
		if err := acceptIngress(&config.Config{}, c.expected, c.identity, c.recorded); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhoIsInPanic: a panic stays on record until its member was read whole, and is in none.
func TestWhoIsInPanic(t *testing.T) {
	member := func(synced, panics bool) clusters.Status {
		m := clusters.Status{ClusterStatus: metrics.ClusterStatus{Name: "a", Synced: synced}}
		if panics {
			m.PanicAt = time.Unix(5, 0)
		}
		return m
	}
	for name, c := range map[string]struct {
		recorded bool
		members  []clusters.Status
		want     bool
	}{
		"it begins":                      {false, []clusters.Status{member(true, true)}, true},
		"it goes on":                     {true, []clusters.Status{member(true, true)}, true},
		"it ends":                        {true, []clusters.Status{member(true, false)}, false},
		"before the member was asked":    {true, []clusters.Status{member(false, false)}, true},
		"before the member was made":     {true, nil, true},
		"none, before it was read whole": {false, []clusters.Status{member(false, false)}, false},
	} {
		recorded := map[string]time.Time{}
		if c.recorded {
			recorded["a"] = time.Unix(3, 0)
		}
		if got := panics(recorded, c.members, func(string) bool { return true }); slices.Contains(slices.Collect(maps.Keys(got)), "a") != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := panics(map[string]time.Time{"gone": time.Unix(3, 0)}, nil, func(string) bool { return false }); len(got) != 0 {
		t.Errorf("a member that left the configuration: %v", got)
	}
}

// TestPanicOnRecordIsRead before any member is told what stands of it.
func TestPanicOnRecordIsRead(t *testing.T) {
	r := New(loadedWith(t, config.Access{}, "clusters: [{name: a, kubeconfig: a}, {name: b, kubeconfig: b}]\n"), Options{Path: "f", Logger: slog.New(slog.DiscardHandler)})
	r.readIdentities(t.Context(), &ingressSession{known: inventory.Inventory{Panics: map[string]time.Time{"a": time.Unix(3, 0)}}})
	if r.panicAt("a") != time.Unix(3, 0) || !r.panicAt("b").IsZero() {
		t.Errorf("in panic since: a %v, b %v", r.panicAt("a"), r.panicAt("b"))
	}
}

// A record that cannot be read in the moment of a start is not one that says nothing:
// another cluster is not let in, and nothing is written over it.
func TestRecordThatCannotBeReadIsNotNothing(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			f := newFront(t)
			f.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "this-one"}})
			var lists, writes atomic.Int32
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch leases := strings.Contains(r.URL.Path, "/leases"); {
				case leases && r.Method != http.MethodGet:
					writes.Add(1)
					w.WriteHeader(http.StatusConflict)
				case leases && lists.Add(1) == 1:
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(status), Reason: metav1.StatusReason(http.StatusText(status))})
				case leases:
					answer(w, coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}, Items: []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{
						Name: "tributary.inventory.default", Namespace: strings.Split(r.URL.Path, "/")[5],
						Labels:      map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: "default"},
						Annotations: map[string]string{inventory.AnnotationIngress: "another-one"},
					}}}})
				default:
					f.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
			r := replicating(t, loadedWith(t, config.Access{REST: &rest.Config{Host: h.URL, BearerToken: "good"}, Hash: h.URL}, noMembers))
			until(t, "the record was read", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return errors.Is(r.ingressErr, kube.ErrOtherCluster)
			})
			if r.begun.Load() || writes.Load() != 0 {
				t.Errorf("begun %v with another cluster than recorded, %d writes of Leases", r.begun.Load(), writes.Load())
			}
		})
	}
}
