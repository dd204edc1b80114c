// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"tributary.dev/tributary/reconcile/plan"
)

// Step is one thing that was done.
type Step struct {
	// Did is created, updated, unchanged, deleted, or left: an object of that name that
	// is not ours.
	Did string
	// What names the object: "Role web/tributary-member-reads".
	What string
}

func named(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

func ours(o metav1.Object) bool {
	return o.GetLabels()[plan.LabelManagedBy] == plan.ManagedBy && o.GetLabels()[nameLabel] == nameValue
}

func resourceOf(kind string) schema.GroupVersionResource {
	i := slices.IndexFunc(resources, func(r struct {
		kind     string
		resource schema.GroupVersionResource
	}) bool {
		return r.kind == kind
	})
	return resources[i].resource
}

// put makes an object what it should be, unless one that is not ours has its name.
func put(ctx context.Context, client dynamic.Interface, want *unstructured.Unstructured) (Step, error) {
	step := Step{What: named(want)}
	api := client.Resource(resourceOf(want.GetKind())).Namespace(want.GetNamespace())
	got, err := api.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		step.Did = "created"
		_, err = api.Create(ctx, want, metav1.CreateOptions{})
	case err != nil:
	case !ours(got):
		step.Did = "left"
	default:
		next := got.DeepCopy()
		for field, value := range want.Object {
			if field != "metadata" {
				next.Object[field] = value
			}
		}
		labels := got.GetLabels()
		maps.Copy(labels, want.GetLabels())
		next.SetLabels(labels)
		if step.Did = "unchanged"; !equality.Semantic.DeepEqual(got, next) {
			step.Did = "updated"
			_, err = api.Update(ctx, next, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return step, fmt.Errorf("%s: %w", step.What, err)
	}
	return step, nil
}

// remove deletes the objects of an account that are ours, but for those to keep; last made, first gone.
func (a account) remove(ctx context.Context, client dynamic.Interface, keep map[string]bool) (steps []Step, problems error) {
	for _, r := range slices.Backward(resources) {
		if r.kind == "Namespace" {
			continue
		}
		found, err := client.Resource(r.resource).List(ctx, metav1.ListOptions{LabelSelector: plan.LabelManagedBy + "=" + plan.ManagedBy + "," + nameLabel + "=" + nameValue})
		if apierrors.IsForbidden(err) && len(a.namespaces) > 0 {
			continue // whoever may act in some namespaces made nothing beyond them
		}
		if err != nil {
			problems = errors.Join(problems, fmt.Errorf("list %s: %w", r.resource.Resource, err))
			continue
		}
		for _, o := range found.Items {
			if o.GetName() != a.name && o.GetName() != a.name+readsSuffix || keep[named(&o)] {
				continue
			}
			err := client.Resource(r.resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: preconditions(&o)})
			if err != nil && !apierrors.IsNotFound(err) {
				problems = errors.Join(problems, fmt.Errorf("delete %s: %w", named(&o), err))
				continue
			}
			steps = append(steps, Step{"deleted", named(&o)})
		}
	}
	return steps, problems
}

// removeNamespace deletes the account's namespace if it is ours and no other account is in it.
func (a account) removeNamespace(ctx context.Context, client dynamic.Interface) ([]Step, error) {
	api := client.Resource(resourceOf("Namespace"))
	namespace, err := api.Get(ctx, a.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", a.namespace, err)
	}
	step := Step{"left", named(namespace)}
	if !ours(namespace) {
		return []Step{step}, nil
	}
	others, err := client.Resource(resourceOf("ServiceAccount")).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("accounts in %s: %w", a.namespace, err)
	}
	for _, o := range others.Items {
		if o.GetName() != "default" && o.GetName() != a.name {
			return []Step{step}, nil
		}
	}
	if err := api.Delete(ctx, a.namespace, metav1.DeleteOptions{Preconditions: preconditions(namespace)}); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("delete %s: %w", step.What, err)
	}
	step.Did = "deleted"
	return []Step{step}, nil
}

// preconditions make sure that what is deleted is what was looked at.
func preconditions(o *unstructured.Unstructured) *metav1.Preconditions {
	return &metav1.Preconditions{UID: new(o.GetUID()), ResourceVersion: new(o.GetResourceVersion())}
}
