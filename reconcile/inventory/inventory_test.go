// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"tributary.dev/tributary/syncer"
)

// A server without the namespace refuses what is made in it, which the fake does not
// by itself.
func withoutNamespace(client *fake.Clientset) {
	made := false
	client.PrependReactor("create", "namespaces", func(ktesting.Action) (bool, runtime.Object, error) {
		made = true
		return false, nil, nil
	})
	client.PrependReactor("create", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
		if made {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "own")
	})
}

func writes(client *fake.Clientset) (out []string) {
	for _, a := range client.Actions() {
		if a.GetVerb() != "list" && a.GetVerb() != "get" {
			out = append(out, a.GetVerb()+" "+a.GetResource().Resource)
		}
	}
	client.ClearActions()
	return out
}

func expect(t *testing.T, client *fake.Clientset, want string) {
	t.Helper()
	if got := strings.Join(writes(client), ", "); got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestWhatIsKnownOutlivesARestart(t *testing.T) {
	client := fake.NewClientset()
	withoutNamespace(client)
	blue, green := Store{client, "own", "blue"}, Store{client, "own", "green"}
	write := func(s Store, known Inventory) {
		t.Helper()
		if err := s.Write(t.Context(), known, nobody); err != nil {
			t.Fatal(err)
		}
	}
	read := func(s Store, want Inventory) {
		t.Helper()
		if got, err := s.Read(t.Context()); err != nil || !got.Equal(want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	read(blue, Inventory{})
	write(blue, Inventory{})
	expect(t, client, "")
	one := Inventory{Ingress: "in", Members: map[string]string{"idc-a": "uid-a"}}
	write(blue, one)
	expect(t, client, "create leases, create namespaces, create leases")
	read(blue, one)
	read(green, Inventory{})
	write(blue, one)
	expect(t, client, "")
	two := Inventory{Ingress: "in", Members: map[string]string{"idc-a": "uid-a", "idc-b": "uid-b"}}
	write(green, one)
	write(blue, two)
	expect(t, client, "create leases, update leases")
	read(blue, two)
	read(green, one)
	panics := Inventory{Ingress: "in", Members: one.Members, Panics: map[string]time.Time{"idc-a": time.Unix(1, 0).UTC(), "idc-b": time.Unix(2, 5e6).UTC()}}
	write(blue, panics)
	read(blue, panics)
	write(blue, Inventory{Ingress: "in"})
	read(blue, Inventory{Ingress: "in"})
}

// What somebody made of it is not believed, and not overwritten where it is not ours.
func TestWhatIsNotOurs(t *testing.T) {
	lease := func(labels, annotations map[string]string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "tributary.inventory.blue", Labels: labels, Annotations: annotations}}
	}
	ours := map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: "blue"}
	client := fake.NewClientset(lease(map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: "green"}, map[string]string{AnnotationIngress: "x"}))
	s := Store{client, "own", "blue"}
	if got, err := s.Read(t.Context()); err == nil || got.Ingress != "" {
		t.Errorf("read %+v, %v", got, err)
	}
	if err := s.Write(t.Context(), Inventory{Ingress: "in"}, nobody); err == nil {
		t.Error("overwrote what is another's")
	}
	expect(t, client, "")
	for _, garbage := range []string{"", "null", "[1]", `{"a": 1}`, "{", strings.Repeat("[", 100_000)} {
		client := fake.NewClientset(lease(ours, map[string]string{AnnotationMembers: garbage, AnnotationPanics: garbage}))
		if got, err := (Store{client, "own", "blue"}).Read(t.Context()); err != nil || len(got.Members)+len(got.Panics) > 0 {
			t.Errorf("%.20q: %+v, %v", garbage, got, err)
		}
	}
}

func TestFailuresNameTheObject(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", nil)
	})
	err := Store{client, "own", "blue"}.Write(t.Context(), Inventory{Ingress: "in"}, nobody)
	if err == nil || !strings.HasPrefix(err.Error(), "create lease own/tributary.inventory.blue: ") || !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

// nobody keeps what is on record of no member.
func nobody(string) bool { return false }

// A member that this process has not met stays on record for as long as it is configured.
func TestWriteKeepsWhoWasNotMet(t *testing.T) {
	s := Store{fake.NewClientset(), "own", "blue"}
	for _, step := range []struct {
		known, want map[string]string
		keep        func(string) bool
	}{
		{map[string]string{"a": "1", "b": "2", "c": "3"}, map[string]string{"a": "1", "b": "2", "c": "3"}, nobody},
		{map[string]string{"a": "9"}, map[string]string{"a": "9", "b": "2"}, func(name string) bool { return name != "c" }},
		{nil, map[string]string{"b": "2"}, func(name string) bool { return name == "b" }},
	} {
		if err := s.Write(t.Context(), Inventory{Ingress: "in", Members: step.known}, step.keep); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Read(t.Context()); err != nil || !maps.Equal(got.Members, step.want) {
			t.Errorf("wrote %v: %v, %v, want %v", step.known, got.Members, err, step.want)
		}
	}
}
