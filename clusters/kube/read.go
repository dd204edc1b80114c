// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/syncer"
)

// askTimeout bounds one question, whatever it is about.
const askTimeout = 5 * time.Second

// Ask asks for one object in the cluster's etcd: a GET without a revision is never answered
// from a cache. Without the right to get, it lists the one object by its name, which is as
// consistent. Nil without an error: the API server itself says that there is no object of
// that name. After an error nothing was learnt; RetryAfter says whether the server is too busy.
func (s *Session) Ask(ctx context.Context, r Resource, key syncer.Key) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	object, err := s.get(ctx, r, key)
	if apierrors.IsForbidden(err) {
		object, err = s.getByList(ctx, r, key)
	}
	switch {
	case isNotThere(err, r, key):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s of cluster %s: %w", r.Resource, key, s.cluster, err)
	case object == nil:
		return nil, nil
	}
	return object, nil
}

// apiObject is any object of the API.
type apiObject interface {
	runtime.Object
	metav1.Object
}

// get reads one object.
func (s *Session) get(ctx context.Context, r Resource, key syncer.Key) (apiObject, error) {
	request := s.client(r).Get().NamespaceIfScoped(key.Namespace, key.Namespace != "").Resource(r.Resource).Name(key.Name).MaxRetries(0)
	content, err := r.answer(ctx, request, "", new(bytes.Buffer))
	if err != nil {
		return nil, err
	}
	object, err := r.Object(content)
	if err != nil {
		return nil, err
	}
	return isOf(object, key)
}

// getByList reads one object by a list of those that have its name; nil: there is none.
func (s *Session) getByList(ctx context.Context, r Resource, key syncer.Key) (apiObject, error) {
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
	objects, _, err := s.list(ctx, query{resource: r, namespace: key.Namespace, fields: name})
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	return isOf(objects[0], key)
}

// List reads all objects of a resource in a namespace, or in all where it is empty, that
// have the labels, and the revision at which they are so. It is for a few: they are all held at once.
func (s *Session) List(ctx context.Context, r Resource, namespace, labels string) ([]runtime.Object, uint64, error) {
	return s.list(ctx, query{resource: r, namespace: namespace, labels: labels})
}

func (s *Session) list(ctx context.Context, q query) (objects []runtime.Object, revision uint64, err error) {
	revision, err = s.pages(ctx, q, func(content []byte) error {
		object, err := q.resource.Object(content)
		objects = append(objects, object)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list %s of cluster %s: %w", q.resource.Resource, s.cluster, bare(err))
	}
	return objects, revision, nil
}

// bare is an error of the client without the method and the whole URL of the request, which its own words quote.
func bare(err error) error {
	if of, ok := err.(*url.Error); ok { // not one that is wrapped: who wrapped it said more
		return of.Err
	}
	return err
}

// isOf fails unless an answer is the object that was asked for: what stands in front of a
// server may mix up answers, or strip them.
func isOf(object runtime.Object, key syncer.Key) (apiObject, error) {
	o, ok := object.(apiObject)
	switch {
	case !ok:
		return nil, fmt.Errorf("the answer is a %T", object)
	case o.GetNamespace() != key.Namespace || o.GetName() != key.Name:
		return nil, fmt.Errorf("the answer is another object, %.64q in namespace %.64q", o.GetName(), o.GetNamespace())
	case o.GetUID() == "" || number(o.GetResourceVersion()) == 0:
		return nil, errors.New("the answer has no UID or no resourceVersion")
	}
	return o, nil
}

// isNotThere reports that an API server says of this very object that it is not there: a
// proxy, or a server that does not know the resource, answers 404 as well.
func isNotThere(err error, r Resource, key syncer.Key) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.ErrStatus.Details
	return details != nil && details.Name == key.Name && details.Kind == r.Resource && details.Group == r.Group
}
