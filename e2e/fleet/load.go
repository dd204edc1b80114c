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
