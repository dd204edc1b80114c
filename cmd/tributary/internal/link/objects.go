// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"tributary.dev/tributary/reconcile/plan"
)

// What our objects in a member are labelled with, beside the mark.
const (
	nameLabel = "app.kubernetes.io/name"
	nameValue = "tributary-member"
	// memberAnnotation of an account names the member that it is of.
	memberAnnotation = "tributary.dev/member"
)

// account says whom a member knows Tributary by, and what it may read there.
type account struct {
	member, namespace, name string
	// namespaces are those that it may read, empty for all.
	namespaces []string
}

func (a account) meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		plan.LabelManagedBy: plan.ManagedBy, nameLabel: nameValue,
	}}
}

// objects is everything that the member gets, in the order in which it is created.
func (a account) objects() []runtime.Object {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.namespace, Name: a.name}}
	role := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	read := []string{"get", "list", "watch"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "services"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
	}
	renewal := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{a.name}, Verbs: []string{"create"}}}
	identity := a.meta(a.namespace, a.name)
	identity.Annotations = map[string]string{memberAnnotation: a.member}
	all := []runtime.Object{
		&corev1.Namespace{ObjectMeta: a.meta("", a.namespace)},
		&corev1.ServiceAccount{ObjectMeta: identity, AutomountServiceAccountToken: new(bool)},
		&rbacv1.Role{ObjectMeta: a.meta(a.namespace, a.name), Rules: renewal},
		&rbacv1.RoleBinding{ObjectMeta: a.meta(a.namespace, a.name), RoleRef: role("Role", a.name), Subjects: subjects},
	}
	if len(a.namespaces) == 0 {
		return append(all,
			&rbacv1.ClusterRole{ObjectMeta: a.meta("", a.name), Rules: append(rules,
				rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: read[:1]},
				rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read[1:]},
			)},
			&rbacv1.ClusterRoleBinding{ObjectMeta: a.meta("", a.name), RoleRef: role("ClusterRole", a.name), Subjects: subjects},
		)
	}
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(a.namespaces))) {
		all = append(all,
			&rbacv1.Role{ObjectMeta: a.meta(namespace, a.name+readsSuffix), Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: a.meta(namespace, a.name+readsSuffix), RoleRef: role("Role", a.name+readsSuffix), Subjects: subjects},
		)
	}
	return all
}

// readsSuffix tells the Roles that read from the one that renews: both may be in one namespace.
const readsSuffix = "-reads"

// resources of our objects, in the order in which they are created.
var resources = []struct {
	kind     string
	resource schema.GroupVersionResource
}{
	{"Namespace", corev1.SchemeGroupVersion.WithResource("namespaces")},
	{"ServiceAccount", corev1.SchemeGroupVersion.WithResource("serviceaccounts")},
	{"Role", rbacv1.SchemeGroupVersion.WithResource("roles")},
	{"RoleBinding", rbacv1.SchemeGroupVersion.WithResource("rolebindings")},
	{"ClusterRole", rbacv1.SchemeGroupVersion.WithResource("clusterroles")},
	{"ClusterRoleBinding", rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")},
}

// Manifests is what Link would put into a member, for kubectl apply.
func (o Options) Manifests() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, object := range o.account().objects() {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("render %T: %w", object, err)
		}
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			return nil, fmt.Errorf("render %T: %w", object, err)
		}
		unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
		delete(fields, "spec") // of the Namespace, both empty
		delete(fields, "status")
		out := &unstructured.Unstructured{Object: fields}
		out.SetGroupVersionKind(kinds[0])
		all = append(all, out)
	}
	return all, nil
}
