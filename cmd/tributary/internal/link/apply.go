// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"tributary.dev/tributary/reconcile/plan"
)

// Step is one thing that was done.
type Step struct {
	// Did is created, updated, unchanged, deleted, or left: an object of that name that
	// is not ours, or a namespace in which other things are.
	Did string `json:"did"`
	// What names the object: "Role web/tributary-member-reads".
	What string `json:"what"`
	// Why says why something was left.
	Why string `json:"why,omitempty"`
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

// selector is what ours says, for a list.
const selector = plan.LabelManagedBy + "=" + plan.ManagedBy + "," + nameLabel + "=" + nameValue

// owns reports whether an object of ours was made for this account: names alone do not tell, for an account may be called
// as the Roles of another are.
func (a account) owns(o *unstructured.Unstructured) bool {
	switch name, namespace := o.GetName(), o.GetNamespace(); {
	case name == a.name:
		return (namespace == "" || namespace == a.namespace) && grantee(o) == a.name
	case name == a.name+readsSuffix:
		return (o.GetKind() == "Role" || o.GetKind() == "RoleBinding") && grantee(o) == a.name
	}
	return false
}

// grantee is the account that has its rights by an object.
func grantee(o *unstructured.Unstructured) string {
	switch o.GetKind() {
	case "RoleBinding", "ClusterRoleBinding":
		var b rbacv1.RoleBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b); err == nil && len(b.Subjects) > 0 {
			return b.Subjects[0].Name
		}
	case "Role": // only the one that renews names it
		var r rbacv1.Role
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r)
		for _, rule := range r.Rules {
			if len(rule.ResourceNames) > 0 {
				return rule.ResourceNames[0]
			}
		}
	default:
		return o.GetName()
	}
	return strings.TrimSuffix(o.GetName(), readsSuffix)
}

// taken reports an object of another account where one of this account is to be.
func (a account) taken(ctx context.Context, client dynamic.Interface, wanted []*unstructured.Unstructured) error {
	for _, want := range wanted {
		got, err := client.Resource(resourceOf(want.GetKind())).Namespace(want.GetNamespace()).Get(ctx, want.GetName(), metav1.GetOptions{})
		if err == nil && want.GetKind() != "Namespace" && ours(got) && !a.owns(got) {
			return fmt.Errorf("%s gives rights to the account %s: give another --account than %s", named(got), grantee(got), a.name)
		}
	}
	return nil // what cannot be read is not written either
}

const notOurs = "not made by tributary link"

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
		step.Did, step.Why = "left", notOurs
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
		if more := want.GetAnnotations(); len(more) > 0 {
			annotations := map[string]string{}
			maps.Copy(annotations, got.GetAnnotations())
			maps.Copy(annotations, more)
			next.SetAnnotations(annotations)
		}
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
		found, err := client.Resource(r.resource).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if apierrors.IsForbidden(err) && len(a.namespaces) > 0 {
			continue // whoever may act in some namespaces made nothing beyond them
		}
		if err != nil {
			problems = errors.Join(problems, fmt.Errorf("list %s: %w", r.resource.Resource, err))
			continue
		}
		for _, o := range found.Items {
			if !a.owns(&o) || keep[named(&o)] {
				continue
			}
			err := client.Resource(r.resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: preconditions(&o)})
			if err != nil && !apierrors.IsNotFound(err) {
				problems = errors.Join(problems, fmt.Errorf("delete %s: %w", named(&o), err))
				continue
			}
			steps = append(steps, Step{Did: "deleted", What: named(&o)})
		}
	}
	return steps, problems
}

// guests are what a namespace is looked through for before it is deleted, beside our own objects.
var guests = []schema.GroupVersionResource{
	corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
	corev1.SchemeGroupVersion.WithResource("pods"),
	corev1.SchemeGroupVersion.WithResource("secrets"),
	corev1.SchemeGroupVersion.WithResource("configmaps"),
	corev1.SchemeGroupVersion.WithResource("services"),
	corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
	appsv1.SchemeGroupVersion.WithResource("deployments"),
	appsv1.SchemeGroupVersion.WithResource("statefulsets"),
	appsv1.SchemeGroupVersion.WithResource("daemonsets"),
	batchv1.SchemeGroupVersion.WithResource("cronjobs"),
	rbacv1.SchemeGroupVersion.WithResource("roles"),
	rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
}

// standard reports whether Kubernetes or OpenShift puts an object into every namespace.
func standard(o *unstructured.Unstructured) bool {
	name := o.GetName()
	switch o.GetKind() {
	case "ServiceAccount":
		return slices.Contains([]string{"default", "builder", "deployer"}, name)
	case "ConfigMap":
		return slices.Contains([]string{"kube-root-ca.crt", "openshift-service-ca.crt"}, name)
	case "Secret": // of an account: the account is what counts
		kind, _, _ := unstructured.NestedString(o.Object, "type")
		return kind == string(corev1.SecretTypeServiceAccountToken) || kind == string(corev1.SecretTypeDockercfg) && o.GetAnnotations()[corev1.ServiceAccountNameKey] != ""
	case "RoleBinding":
		return strings.HasPrefix(name, "system:")
	}
	return false
}

// guest names something in the account's namespace that would go with it; empty if there is nothing.
func (a account) guest(ctx context.Context, client dynamic.Interface) (string, error) {
	for _, resource := range guests {
		found, err := client.Resource(resource).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return "perhaps " + resource.Resource + ", which you may not list,", nil
		}
		if err != nil {
			return "", fmt.Errorf("%s in %s: %w", resource.Resource, a.namespace, err)
		}
		for _, o := range found.Items {
			if !standard(&o) {
				return named(&o), nil
			}
		}
	}
	return "", nil
}

// removeNamespace deletes the account's namespace if it is ours and nothing else is in it. The account is gone by then.
func (a account) removeNamespace(ctx context.Context, client dynamic.Interface) ([]Step, error) {
	api := client.Resource(resourceOf("Namespace"))
	namespace, err := api.Get(ctx, a.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", a.namespace, err)
	}
	step := Step{Did: "left", What: named(namespace), Why: notOurs}
	if !ours(namespace) {
		return []Step{step}, nil
	}
	guest, err := a.guest(ctx, client)
	if err != nil {
		return nil, err
	}
	if guest != "" {
		step.Why = guest + " is in it"
		return []Step{step}, nil
	}
	if err := api.Delete(ctx, a.namespace, metav1.DeleteOptions{Preconditions: preconditions(namespace)}); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("delete %s: %w", step.What, err)
	}
	return []Step{{Did: "deleted", What: step.What}}, nil
}

// elsewhere reports an account of the same name in another namespace: the names of its cluster-wide rights are the same,
// so that one of the two would take the other's.
func (a account) elsewhere(ctx context.Context, client dynamic.Interface) error {
	found, err := client.Resource(resourceOf("ServiceAccount")).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if apierrors.IsForbidden(err) && len(a.namespaces) > 0 {
		return nil // nor does such a call delete beyond its namespaces
	}
	if err != nil {
		return fmt.Errorf("list accounts: %w", err)
	}
	for _, o := range found.Items {
		if o.GetName() == a.name && o.GetNamespace() != a.namespace {
			return fmt.Errorf("the account %s is in namespace %s of this cluster already, and its rights have the same names: give another --account, or --namespace %s if it is the one you mean", a.name, o.GetNamespace(), o.GetNamespace())
		}
	}
	return nil
}

// preconditions make sure that what is deleted is what was looked at.
func preconditions(o *unstructured.Unstructured) *metav1.Preconditions {
	return &metav1.Preconditions{UID: new(o.GetUID()), ResourceVersion: new(o.GetResourceVersion())}
}
