// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writers is how many requests a bulk operation has under way: more gains nothing against one local apiserver.
const writers = 16

// forEach calls do for every item, some at a time, and stops at the first error.
func forEach[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, item := range items {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(ctx, item)
		})
	}
	return group.Wait()
}

// CreateNamespaces creates namespaces; one that exists is fine.
func (s *Site) CreateNamespaces(ctx context.Context, names ...string) error {
	return forEach(ctx, names, func(ctx context.Context, name string) error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := s.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s in %s: %w", name, s.Name(), err)
		}
		return nil
	})
}

// CreateNodes creates Node objects.
func (s *Site) CreateNodes(ctx context.Context, nodes ...*corev1.Node) error {
	return forEach(ctx, nodes, func(ctx context.Context, n *corev1.Node) error { return s.create(ctx, n) })
}

// Create creates objects, some at a time and in no order: *v1.Namespace, Node, Service, Pod, Endpoints and
// *discovery/v1.EndpointSlice. The status of pods and nodes is ignored by the apiserver, except that of a node; see
// RunPods. The objects are not changed.
func (s *Site) Create(ctx context.Context, objects ...metav1.Object) error {
	return forEach(ctx, objects, s.create)
}

func (s *Site) create(ctx context.Context, object metav1.Object) (err error) {
	core, o := s.Client.CoreV1(), metav1.CreateOptions{}
	switch x := object.(type) {
	case *corev1.Namespace:
		_, err = core.Namespaces().Create(ctx, x, o)
	case *corev1.Node:
		_, err = core.Nodes().Create(ctx, x, o)
	case *corev1.Service:
		_, err = core.Services(x.Namespace).Create(ctx, x, o)
	case *corev1.Pod:
		_, err = core.Pods(x.Namespace).Create(ctx, x, o)
	case *corev1.Endpoints:
		_, err = core.Endpoints(x.Namespace).Create(ctx, x, o)
	case *discoveryv1.EndpointSlice:
		_, err = s.Client.DiscoveryV1().EndpointSlices(x.Namespace).Create(ctx, x, o)
	default:
		err = fmt.Errorf("objects of type %T are not known here", object)
	}
	if err != nil {
		return fmt.Errorf("create %s/%s in %s: %w", object.GetNamespace(), object.GetName(), s.Name(), err)
	}
	return nil
}
