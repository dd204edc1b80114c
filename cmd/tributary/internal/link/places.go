// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placesAnnotation of an account names the places of its kubeconfigs, separated by commas: two installations may have one
// account, and it goes with the last of them.
const placesAnnotation = "tributary.dev/kubeconfigs"

// place names the place for whoever looks from elsewhere: a Secret with the identity of its cluster, as far as that may be
// read, or a file.
func (k Keep) place(ctx context.Context) string {
	if k.Ingress == nil {
		path, err := filepath.Abs(k.File)
		if err != nil {
			path = k.File
		}
		return "file:" + path
	}
	return fmt.Sprintf("secret:%s/%s/%s", k.cluster(ctx), k.Namespace, k.Name)
}

// cluster is the identity of the ingress cluster, "" where it may not be read.
func (k Keep) cluster(ctx context.Context) string {
	system, err := k.Ingress.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return string(system.UID)
}

// otherPlaces are those that an account names beside this one, without those that are known to be empty.
func (k Keep) otherPlaces(ctx context.Context, account *unstructured.Unstructured) []string {
	if account == nil {
		return nil
	}
	own := k.place(ctx)
	return slices.DeleteFunc(strings.Split(account.GetAnnotations()[placesAnnotation], ","), func(place string) bool {
		return place == "" || place == own || k.empty(ctx, place)
	})
}

// empty reports whether nothing is kept at a place, as far as that can be seen from here.
func (k Keep) empty(ctx context.Context, place string) bool {
	if path, ok := strings.CutPrefix(place, "file:"); ok {
		_, err := os.Stat(path)
		return os.IsNotExist(err)
	}
	parts := strings.Split(strings.TrimPrefix(place, "secret:"), "/")
	if k.Ingress == nil || len(parts) != 3 || parts[0] != k.cluster(ctx) {
		return false
	}
	_, err := k.Ingress.CoreV1().Secrets(parts[1]).Get(ctx, parts[2], metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// noted puts the places of an account's kubeconfigs on it.
func noted(account *unstructured.Unstructured, places []string) {
	annotations := account.GetAnnotations()
	slices.Sort(places)
	annotations[placesAnnotation] = strings.Join(slices.Compact(places), ",")
	account.SetAnnotations(annotations)
}

// leave takes away the kubeconfig alone: the account is that of others, too.
func (o Options) leave(ctx context.Context, account *unstructured.Unstructured, others []string) ([]Step, error) {
	steps, err := o.Keep.remove(ctx)
	if err != nil {
		return steps, err
	}
	noted(account, others)
	if _, err := o.Objects.Resource(resourceOf("ServiceAccount")).Namespace(o.Namespace).Update(ctx, account, metav1.UpdateOptions{}); err != nil {
		return steps, fmt.Errorf("%s: %w", named(account), err)
	}
	return append(steps, Step{Did: "left", What: named(account), Why: "a kubeconfig of it is kept elsewhere: " + strings.Join(others, ", ")}), nil
}
