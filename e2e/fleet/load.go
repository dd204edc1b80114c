// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"tributary.dev/tributary/e2e/cluster"
)

// loadBatch is how many objects are stored at once: fewer than etcd's limit, and of fewer bytes at 10 kB each.
const loadBatch = 100

var stored = scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)

// Load stores n Services and Pods past the apiserver. make is called once for each number, from several goroutines; an
// object without UID or time of creation is given both, a pod without status is running and ready at an address of this site.
func (s *Site) Load(ctx context.Context, n int, make func(i int) metav1.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for from := 0; from < n; from += loadBatch {
		group.Go(func() error {
			var batch []cluster.Stored
			for i := from; i < min(from+loadBatch, n); i++ {
				one, err := s.encode(make(i))
				if err != nil {
					return err
				}
				batch = append(batch, one)
			}
			return s.Store(ctx, batch)
		})
	}
	return group.Wait()
}

func (s *Site) encode(o metav1.Object) (cluster.Stored, error) {
	key := "/services/specs/"
	if _, is := o.(*corev1.Pod); is {
		key = "/pods/"
	}
	value, err := Stored(o, s.NextIP)
	return cluster.Stored{Key: key + o.GetNamespace() + "/" + o.GetName(), Value: value}, err
}

// Stored is a Service or Pod as an API server stores it, completed as Load says: a pod takes the next address.
func Stored(o metav1.Object, next func() netip.Addr) ([]byte, error) {
	if o.GetUID() == "" {
		o.SetUID(types.UID(uuid.NewUUID()))
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(time.Now()))
	}
	switch x := o.(type) {
	case *corev1.Pod:
		if x.Status.Phase == "" {
			x.Status = runningStatus(x, []corev1.PodIP{{IP: next().String()}}, true)
		}
	case *corev1.Service:
	default:
		return nil, fmt.Errorf("objects of type %T are not loaded", o)
	}
	value, err := runtime.Encode(stored, o.(runtime.Object))
	if err != nil {
		return nil, fmt.Errorf("encode %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return value, nil
}

// StormService is the name of the i-th Service of CreateStorm.
func StormService(i int) string { return fmt.Sprintf("svc-%05d", i) }

// CreateStorm creates n Services for RelabelStorm, in a namespace that exists.
func (s *Site) CreateStorm(ctx context.Context, namespace string, n int) error {
	services := make([]metav1.Object, n)
	for i := range services {
		services[i] = NewService(namespace, StormService(i))
	}
	return s.Create(ctx, services...)
}

// LoadStorm is CreateStorm with a pod of each Service.
func (s *Site) LoadStorm(ctx context.Context, namespace string, n int) error {
	err := s.Load(ctx, n, func(i int) metav1.Object { return NewPod(namespace, StormService(i), StormService(i)) })
	if err != nil {
		return err
	}
	return s.CreateStorm(ctx, namespace, n)
}

// StormLabel is the label that RelabelStorm sets.
const StormLabel = "storm"

// RelabelStorm gives the label another value at all Services of CreateStorm, as fast as the apiserver accepts it, and
// further fields to each (JSON, "" for none).
func RelabelStorm(ctx context.Context, client kubernetes.Interface, namespace string, n int, value, further string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}%s}`, StormLabel, value, further)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error {
			_, err := client.CoreV1().Services(namespace).Patch(ctx, StormService(i), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	return group.Wait()
}
