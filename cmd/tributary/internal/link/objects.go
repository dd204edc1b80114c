// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"tributary.dev/tributary/syncer"
)

const (
	// What our objects in a member are labelled with, beside the mark: accountLabel names
	// the account that they are for.
	nameLabel, nameValue = "app.kubernetes.io/name", "tributary-member"
	accountLabel         = "tributary.dev/account"
	// memberAnnotation of an account names the member that it is of.
	memberAnnotation = "tributary.dev/member"
	// fieldManager is ours in server-side apply.
	fieldManager = "tributary-link"
	// readsSuffix tells the Roles that read from the one that renews: both may be in one
	// namespace.
	readsSuffix = "-reads"
)

// Step is one thing that was done.
type Step struct {
	// Did is created, updated, unchanged, deleted, or left: a namespace.
	Did string `json:"did"`
	// What names the object: "Role web/tributary-member-reads".
	What string `json:"what"`
}

func (o *Options) meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		syncer.LabelManagedBy: syncer.ManagedBy, nameLabel: nameValue, accountLabel: o.Account,
	}}
}

// objects is everything that the member gets, in the order in which it is created.
func (o *Options) objects() []runtime.Object {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: o.Account}}
	role := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	read := []string{"get", "list", "watch"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "services", "endpoints"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
	}
	renewal := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{o.Account}, Verbs: []string{"create"}}}
	identity := o.meta(o.Namespace, o.Account)
	identity.Annotations = map[string]string{memberAnnotation: o.Name}
	all := []runtime.Object{
		&corev1.Namespace{ObjectMeta: o.meta("", o.Namespace)},
		&corev1.ServiceAccount{ObjectMeta: identity, AutomountServiceAccountToken: new(bool)},
		&rbacv1.Role{ObjectMeta: o.meta(o.Namespace, o.Account), Rules: renewal},
		&rbacv1.RoleBinding{ObjectMeta: o.meta(o.Namespace, o.Account), RoleRef: role("Role", o.Account), Subjects: subjects},
	}
	if len(o.Namespaces) == 0 {
		return append(all,
			&rbacv1.ClusterRole{ObjectMeta: o.meta("", o.Account), Rules: append(rules,
				rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: read[:1]})},
			&rbacv1.ClusterRoleBinding{ObjectMeta: o.meta("", o.Account), RoleRef: role("ClusterRole", o.Account), Subjects: subjects},
		)
	}
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(o.Namespaces))) {
		all = append(all,
			&rbacv1.Role{ObjectMeta: o.meta(namespace, o.Account+readsSuffix), Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: o.meta(namespace, o.Account+readsSuffix), RoleRef: role("Role", o.Account+readsSuffix), Subjects: subjects},
		)
	}
	return all
}

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

func resourceOf(kind string) schema.GroupVersionResource {
	for _, r := range resources {
		if r.kind == kind {
			return r.resource
		}
	}
	return schema.GroupVersionResource{}
}

// Manifests is what Link would put into a member, for kubectl apply.
func (o *Options) Manifests() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, object := range o.objects() {
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

func named(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// ours reports whether an object was made by link for this account.
func (o *Options) ours(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[syncer.LabelManagedBy] == syncer.ManagedBy && labels[nameLabel] == nameValue && labels[accountLabel] == o.Account
}

// put applies an object. One of that name that is not ours is refused; a namespace is used
// as it is.
func (o *Options) put(ctx context.Context, want *unstructured.Unstructured) (Step, error) {
	step := Step{Did: "created", What: named(want)}
	api := o.Objects.Resource(resourceOf(want.GetKind())).Namespace(want.GetNamespace())
	before, err := api.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return step, fmt.Errorf("%s: %w", step.What, err)
	case want.GetKind() == "Namespace":
		return Step{"left", step.What}, nil
	case !o.ours(before):
		return step, fmt.Errorf("%s is there and was not made by link for this account: give another --account, or take it away", step.What)
	default:
		step.Did = "updated"
	}
	after, err := api.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return step, fmt.Errorf("%s: %w", step.What, err)
	}
	if before != nil && before.GetResourceVersion() == after.GetResourceVersion() {
		step.Did = "unchanged"
	}
	return step, nil
}

// remove deletes what is ours in the member, namespaces and what is to be kept aside, the
// newest kinds first.
func (o *Options) remove(ctx context.Context, keep map[string]bool) (steps []Step, err error) {
	selector := fmt.Sprintf("%s=%s,%s=%s,%s=%s", syncer.LabelManagedBy, syncer.ManagedBy, nameLabel, nameValue, accountLabel, o.Account)
	for _, r := range slices.Backward(resources) {
		if r.kind == "Namespace" {
			continue
		}
		found, err := o.Objects.Resource(r.resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if apierrors.IsForbidden(err) && len(o.Namespaces) > 0 {
			continue // whoever may act in some namespaces made nothing beyond them
		}
		if err != nil {
			return steps, fmt.Errorf("list %s: %w", r.resource.Resource, err)
		}
		for i := range found.Items {
			object := &found.Items[i]
			if keep[named(object)] {
				continue
			}
			uid := object.GetUID()
			err := o.Objects.Resource(r.resource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if err != nil && !apierrors.IsNotFound(err) {
				return steps, fmt.Errorf("delete %s: %w", named(object), err)
			}
			steps = append(steps, Step{"deleted", named(object)})
		}
	}
	return steps, nil
}
