// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/syncer"
)

const (
	// memberAnnotation of an account names the member that it is of.
	memberAnnotation = "tributary.dev/member"
	// fieldManager is ours in server-side apply.
	fieldManager = "tributary-link"
)

// Options say which cluster becomes a member and where its kubeconfig is stored.
type Options struct {
	// Name is the member's.
	Name string
	// Namespace and Account say whom the member knows Tributary by.
	Namespace, Account string
	// Namespaces are those that Tributary may read, by Roles in them; none for all.
	Namespaces []string
	// Server is how Tributary reaches the member: an address and a certificate authority. Its
	// credential, which is the administrator's, is not used.
	Server *rest.Config
	// Member is the administrator's client of the member, Ingress that of the ingress cluster;
	// without it the kubeconfig is stored in File.
	Member, Ingress dynamic.Interface
	// Tokens are asked for by this client of the member.
	Tokens corev1.ServiceAccountsGetter
	// IngressNamespace is where the Secret with the kubeconfig is.
	IngressNamespace, File string
	// Report is called with what is done: "created", "updated", "unchanged", "deleted" or "refused", and the object.
	Report func(did, what string)
}

// Validate reports what is wrong with the options, as flags of the command.
func (o *Options) Validate() error {
	var problems []error
	label := func(flag, value string) {
		if len(validation.IsDNS1123Label(value)) > 0 {
			problems = append(problems, fmt.Errorf("%s: %q is not a DNS label: use lower-case letters, digits and '-'", flag, value))
		}
	}
	label("NAME", o.Name)
	label("--namespace", o.Namespace)
	label("--account", o.Account)
	label("--ingress-namespace", o.IngressNamespace)
	for _, namespace := range o.Namespaces {
		label("--namespaces", namespace)
	}
	return errors.Join(problems...)
}

// Link makes the cluster a member, with another token each time; of all else a second call
// changes only what differs.
func Link(ctx context.Context, o *Options) (expires time.Time, err error) {
	objects, err := o.Objects()
	if err := errors.Join(err, o.CheckServer(), o.checkFile()); err != nil {
		return time.Time{}, err
	}
	wanted := map[string]bool{}
	for _, object := range objects {
		wanted[named(object)] = true
		err := o.apply(ctx, o.Member, object)
		if apierrors.IsForbidden(err) && len(o.Namespaces) > 0 && object.GetNamespace() == "" {
			o.Report("refused", named(object)) // whoever may act in some namespaces alone: the identity cannot be read then
		} else if err != nil {
			return time.Time{}, err
		}
	}
	// Rights that the last call granted, and this one does not.
	if err := o.removeLabelled(ctx, wanted); err != nil {
		return time.Time{}, err
	}
	granted, err := RequestToken(ctx, o.Tokens, o.Namespace, o.Account, lifetime)
	if err != nil {
		return time.Time{}, err
	}
	return granted.ExpirationTimestamp.Time, o.store(ctx, granted.Token)
}

// Unlink removes what Link made: the kubeconfig first, so that Tributary stops following the
// member before it loses its rights. What is gone already is no error.
func Unlink(ctx context.Context, o *Options) error {
	// The account may be that of another member.
	if _, err := o.get(ctx, o.Member, object("ServiceAccount", o.Namespace, o.Account)); err != nil {
		return err
	}
	if err := o.unstore(ctx); err != nil {
		return err
	}
	return o.removeLabelled(ctx, nil)
}

//go:embed member.yaml
var memberYAML string

var memberTemplate = template.Must(template.New("member.yaml").Parse(memberYAML))

// Manifests writes what Link puts into a member, as YAML for kubectl apply.
func (o *Options) Manifests(w io.Writer) error { return memberTemplate.Execute(w, o) }

// Objects is Manifests, in the order in which they are made.
func (o *Options) Objects() (all []*unstructured.Unstructured, err error) {
	var text strings.Builder
	err = o.Manifests(&text)
	for document := range strings.SplitSeq(text.String(), "\n---\n") {
		object := &unstructured.Unstructured{}
		err = errors.Join(err, yaml.Unmarshal([]byte(document), &object.Object))
		all = append(all, object)
	}
	return all, err
}

// object is one of the API's core group.
func object(kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// labels are those of what link makes for the account, as member.yaml has them.
func (o *Options) labels() labels.Set {
	return labels.Set{syncer.LabelManagedBy: syncer.ManagedBy, "app.kubernetes.io/name": "tributary-member", "tributary.dev/account": o.Account}
}

func named(o *unstructured.Unstructured) string {
	return strings.TrimSpace(o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
}

func resource(client dynamic.Interface, o *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return client.Resource(plural).Namespace(o.GetNamespace())
}

// get reads an object as it is; nil: it is not there. It is an error if link did not make it,
// or made it for another member. A namespace is anybody's.
func (o *Options) get(ctx context.Context, client dynamic.Interface, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	is, err := resource(client, want).Get(ctx, want.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", named(want), err)
	}
	member := is.GetAnnotations()[memberAnnotation]
	switch {
	case is.GetKind() == "Namespace":
	case !o.labels().AsSelector().Matches(labels.Set(is.GetLabels())):
		return nil, fmt.Errorf("%s is there and was not made by link for this account: give another --account or NAME, or take it away", named(want))
	case cmp.Or(member, o.Name) != o.Name:
		return nil, fmt.Errorf("%s is that of member %s: give the --context of %s, or another --account if it is the same cluster", named(want), member, o.Name)
	}
	return is, nil
}

// apply creates an object, or updates it to what is wanted.
func (o *Options) apply(ctx context.Context, client dynamic.Interface, want *unstructured.Unstructured) error {
	before, err := o.get(ctx, client, want)
	if err != nil || before != nil && before.GetKind() == "Namespace" {
		return err
	}
	after, err := resource(client, want).Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", named(want), err)
	case before == nil:
		o.Report("created", named(want))
	case before.GetResourceVersion() == after.GetResourceVersion():
		o.Report("unchanged", named(want))
	default:
		o.Report("updated", named(want))
	}
	return nil
}

// delete deletes an object that was read.
func (o *Options) delete(ctx context.Context, client dynamic.Interface, is *unstructured.Unstructured) error {
	err := resource(client, is).Delete(ctx, is.GetName(), *metav1.NewPreconditionDeleteOptions(string(is.GetUID())))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w", named(is), err)
	}
	o.Report("deleted", named(is))
	return nil
}

// removeLabelled deletes what carries our labels in the member, what is wanted aside: bindings
// before roles, then the account, and at last the namespace that link made, if nobody else lives there.
func (o *Options) removeLabelled(ctx context.Context, wanted map[string]bool) error {
	rbac, accounts := rbacv1.SchemeGroupVersion, schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	for _, kind := range []schema.GroupVersionResource{
		rbac.WithResource("clusterrolebindings"), rbac.WithResource("clusterroles"), rbac.WithResource("rolebindings"), rbac.WithResource("roles"),
		accounts, {Version: "v1", Resource: "namespaces"},
	} {
		found, err := o.Member.Resource(kind).List(ctx, metav1.ListOptions{LabelSelector: o.labels().String()})
		if apierrors.IsForbidden(err) && len(o.Namespaces) > 0 {
			continue // whoever may act in some namespaces made nothing beyond them
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for i := range found.Items {
			is, keep := &found.Items[i], wanted[named(&found.Items[i])]
			if kind.Resource == "namespaces" && !keep {
				// Ours went before: another ingress cluster's, or that of Tributary itself.
				others, err := o.Member.Resource(accounts).Namespace(is.GetName()).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=default"})
				if err != nil {
					return err
				}
				keep = len(others.Items) > 0
			}
			if keep {
				continue
			}
			if err := o.delete(ctx, o.Member, is); err != nil {
				return err
			}
		}
	}
	return nil
}
