// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/syncer"
)

// What the object carries.
const (
	prefix = "tributary.inventory."
	// AnnotationIngress is the identity of the ingress cluster, AnnotationMembers a
	// JSON object of those of the members, by name. AnnotationPanics is one of when
	// the panic of each began that is in one; it is missing where none is.
	AnnotationIngress = "tributary.dev/ingress-identity"
	AnnotationMembers = "tributary.dev/member-identities"
	AnnotationPanics  = "tributary.dev/members-in-panic"
)

// Inventory is what is known. The zero value is nothing.
type Inventory struct {
	// Ingress is the identity of the ingress cluster, "" when it is not known.
	Ingress string
	// Members are the identities of members by name.
	Members map[string]string
	// Panics are when the panics began of the members that are in one, by name.
	Panics map[string]time.Time
}

// Equal reports whether two say the same.
func (i Inventory) Equal(o Inventory) bool {
	return i.Ingress == o.Ingress && maps.Equal(i.Members, o.Members) && maps.EqualFunc(i.Panics, o.Panics, time.Time.Equal)
}

// Store is where the inventory of an installation is.
type Store struct {
	Client kubernetes.Interface
	// Namespace is Tributary's own, Instance the name of the installation.
	Namespace, Instance string
}

// ErrForeign is why an object of that name is not used.
var ErrForeign = errors.New("is not this installation's, by its labels")

func (s Store) name() string { return prefix + s.Instance }

// Read reads what is known; what is not there is nothing.
func (s Store) Read(ctx context.Context) (Inventory, error) {
	lease, err := s.get(ctx)
	if err != nil || lease == nil {
		return Inventory{}, err
	}
	return parse(lease.Annotations), nil
}

// parse reads the annotations; what makes no sense counts as nothing.
func parse(annotations map[string]string) Inventory {
	known := Inventory{Ingress: annotations[AnnotationIngress]}
	if json.Unmarshal([]byte(annotations[AnnotationMembers]), &known.Members) != nil {
		known.Members = nil
	}
	if json.Unmarshal([]byte(annotations[AnnotationPanics]), &known.Panics) != nil {
		known.Panics = nil
	}
	return known
}

// get returns nil when there is none. It lists: the right to do that is there for the
// Leases of the members.
func (s Store) get(ctx context.Context) (*coordinationv1.Lease, error) {
	list, err := s.Client.CoordinationV1().Leases(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list leases of namespace %s: %w", s.Namespace, err)
	}
	for i := range list.Items {
		lease := &list.Items[i]
		if lease.Name != s.name() {
			continue
		}
		if lease.Labels[syncer.LabelManagedBy] != syncer.ManagedBy || lease.Labels[syncer.LabelInstance] != s.Instance {
			return nil, fmt.Errorf("lease %s/%s %w", s.Namespace, lease.Name, ErrForeign)
		}
		return lease, nil
	}
	return nil, nil
}

// Write makes what stands say what is known, and does nothing when it does. Identities of
// members that are not known stay where keep says so: this process may not have met them.
// The namespace is made where it is missing.
func (s Store) Write(ctx context.Context, known Inventory, keep func(member string) bool) error {
	standing, err := s.get(ctx)
	if err != nil {
		return err
	}
	if standing != nil {
		members := parse(standing.Annotations).Members
		maps.DeleteFunc(members, func(name, _ string) bool { return !keep(name) })
		if len(members) > 0 {
			maps.Copy(members, known.Members)
			known.Members = members
		}
	}
	members, err := json.Marshal(known.Members)
	if err != nil {
		return err
	}
	if standing == nil && known.Equal(Inventory{}) {
		return nil
	}
	annotations := map[string]string{AnnotationIngress: known.Ingress, AnnotationMembers: string(members)}
	if len(known.Panics) > 0 {
		panics, err := json.Marshal(known.Panics)
		if err != nil {
			return err
		}
		annotations[AnnotationPanics] = string(panics)
	}
	api := s.Client.CoordinationV1().Leases(s.Namespace)
	if standing != nil {
		if parse(standing.Annotations).Equal(known) {
			return nil
		}
		if standing.Annotations == nil {
			standing.Annotations = map[string]string{}
		}
		delete(standing.Annotations, AnnotationPanics)
		maps.Copy(standing.Annotations, annotations)
		_, err := api.Update(ctx, standing, metav1.UpdateOptions{})
		return s.failed("update", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.name(), Annotations: annotations,
		Labels: map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: s.Instance},
	}}
	_, err = api.Create(ctx, lease, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: lease.Labels}}
		if _, made := s.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); made != nil && !apierrors.IsAlreadyExists(made) {
			return fmt.Errorf("create namespace %s: %w", s.Namespace, made)
		}
		_, err = api.Create(ctx, lease, metav1.CreateOptions{})
	}
	return s.failed("create", err)
}

func (s Store) failed(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s lease %s/%s: %w", verb, s.Namespace, s.name(), err)
}
