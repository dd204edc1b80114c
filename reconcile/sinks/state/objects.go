// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/syncer"
)

// How long one request may take: what is to be told waits for it.
const (
	readTimeout  = 2 * time.Second
	writeTimeout = time.Second
)

// ErrForeign is why an object of that name is not used.
var ErrForeign = errors.New("is not this installation's, by its labels")

// api is what client-go offers for one kind of object.
type api[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*T, error)
	Create(ctx context.Context, object *T, o metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, object *T, o metav1.UpdateOptions) (*T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// objects are those of one kind that hold the state of a sink. Their methods are safe for
// concurrent use with different names.
type objects[T any, P interface {
	*T
	metav1.Object
}] struct {
	api[T]
	kind  string
	where Where
	// content and fill read and replace what an object holds.
	content func(*T) []byte
	fill    func(*T, []byte)

	mu sync.Mutex
	// stand are the objects as they stand, by name, as far as known; guarded by mu.
	stand map[string]*T
}

// configMaps hold what receivers acknowledged.
func configMaps(w Where) *objects[corev1.ConfigMap, *corev1.ConfigMap] {
	const key = "state.json.gz"
	o := &objects[corev1.ConfigMap, *corev1.ConfigMap]{kind: "configmap", where: w, stand: map[string]*corev1.ConfigMap{}}
	o.api = w.Client.CoreV1().ConfigMaps(w.Namespace)
	o.content = func(m *corev1.ConfigMap) []byte { return m.BinaryData[key] }
	o.fill = func(m *corev1.ConfigMap, bytesOf []byte) { m.BinaryData = map[string][]byte{key: bytesOf} }
	return o
}

// leases hold a head that no ConfigMap takes: whoever leads may write Leases.
func leases(w Where) *objects[coordinationv1.Lease, *coordinationv1.Lease] {
	const key = "tributary.dev/sink-state"
	o := &objects[coordinationv1.Lease, *coordinationv1.Lease]{kind: "lease", where: w, stand: map[string]*coordinationv1.Lease{}}
	o.api = w.Client.CoordinationV1().Leases(w.Namespace)
	o.content = func(l *coordinationv1.Lease) []byte {
		bytesOf, _ := base64.StdEncoding.DecodeString(l.Annotations[key]) // what is none is no head either
		return bytesOf
	}
	o.fill = func(l *coordinationv1.Lease, bytesOf []byte) {
		l.Annotations = maps.Clone(l.Annotations)
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, key, base64.StdEncoding.EncodeToString(bytesOf))
	}
	return o
}

func (o *objects[T, P]) errorf(verb, name string, err error) error {
	return fmt.Errorf("%s %s %s/%s: %w", verb, o.kind, o.where.Namespace, name, err)
}

func (o *objects[T, P]) known(name string) *T {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stand[name]
}

func (o *objects[T, P]) note(name string, object *T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stand[name] = object
}

// get reads an object; nil: there is none.
func (o *objects[T, P]) get(ctx context.Context, name string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	object, err := o.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		o.note(name, nil)
		return nil, nil
	}
	if err != nil {
		return nil, o.errorf("read", name, err)
	}
	labels := P(object).GetLabels()
	if labels[syncer.LabelManagedBy] != syncer.ManagedBy || labels[syncer.LabelInstance] != o.where.Instance || labels[LabelSink] != o.where.Sink {
		return nil, fmt.Errorf("%s %s/%s %w", o.kind, o.where.Namespace, name, ErrForeign)
	}
	o.note(name, object)
	return object, nil
}

// write makes an object hold a content, if it does not.
func (o *objects[T, P]) write(ctx context.Context, name string, bytesOf []byte) error {
	object := o.known(name)
	if object != nil && bytes.Equal(o.content(object), bytesOf) {
		return nil
	}
	for range 2 {
		made, err := o.send(ctx, name, object, bytesOf)
		if err == nil {
			o.note(name, made)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !(object != nil && apierrors.IsNotFound(err)) {
			o.note(name, nil) // it may have been taken
			return o.errorf("write", name, err)
		}
		if object, err = o.get(ctx, name); err != nil {
			return err
		}
	}
	return o.errorf("write", name, errors.New("somebody else keeps changing it"))
}

// send updates an object, or creates it where there is none.
func (o *objects[T, P]) send(ctx context.Context, name string, object *T, bytesOf []byte) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	next := new(T)
	if object != nil {
		*next = *object
		o.fill(next, bytesOf)
		return o.Update(ctx, next, metav1.UpdateOptions{})
	}
	P(next).SetNamespace(o.where.Namespace)
	P(next).SetName(name)
	P(next).SetLabels(map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: o.where.Instance, LabelSink: o.where.Sink})
	o.fill(next, bytesOf)
	return o.Create(ctx, next, metav1.CreateOptions{})
}

func (o *objects[T, P]) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	o.note(name, nil)
	if err := o.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return o.errorf("delete", name, err)
	}
	return nil
}
