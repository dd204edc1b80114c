// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/wire"
	"tributary.dev/tributary/syncer"
)

const (
	// askTimeout bounds one question, whatever it is about.
	askTimeout = 5 * time.Second
	// pageSize is how many objects of a list are asked for at once.
	pageSize = 500
	// pageTimeout bounds one page of a list; API servers give up after 60 s.
	pageTimeout = 60 * time.Second
	// busyPages is how often a page is retried for which the server is too busy.
	busyPages = 5
)

// Ask asks for one object in the cluster's etcd: a GET without a revision is never answered
// from a cache. Without the right to get, it lists the one object by its name, which is as
// consistent. Nil without an error: the API server itself says that there is no object of
// that name. After an error nothing is known; RetryAfter says whether the server is too busy.
func (s *Session) Ask(ctx context.Context, r Resource, key syncer.Key) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var object Object
	err := s.proveAgain(ctx)
	if err == nil {
		object, err = s.get(ctx, r, key)
	}
	if apierrors.IsForbidden(err) {
		object, err = s.getByList(ctx, r, key)
	}
	switch {
	case isNotThere(err, r, key):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", r.Resource, key, err)
	}
	return object, nil
}

// get reads one object.
func (s *Session) get(ctx context.Context, r Resource, key syncer.Key) (Object, error) {
	object := r.new()
	err := s.request(Query{Resource: r, Namespace: key.Namespace}, metav1.ListOptions{}).Name(key.Name).Do(ctx).Into(object)
	return object, cmp.Or(err, isOf(object, key))
}

// getByList reads one object by a list of those that have its name; nil: there is none.
func (s *Session) getByList(ctx context.Context, r Resource, key syncer.Key) (Object, error) {
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
	objects, err := s.List(ctx, Query{Resource: r, Namespace: key.Namespace, Fields: name})
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	return objects[0], isOf(objects[0], key)
}

// isOf fails unless an answer is the object that was asked for: a proxy in front of a server
// may mix up answers, or strip them. An answer of another kind leaves the object empty.
func isOf(o Object, key syncer.Key) error {
	switch {
	case o.GetNamespace() != key.Namespace || o.GetName() != key.Name:
		return fmt.Errorf("the answer is another object, %.64q in namespace %.64q", o.GetName(), o.GetNamespace())
	case o.GetUID() == "" || Revision(o.GetResourceVersion()) == 0:
		return errors.New("the answer has no UID or no resourceVersion")
	}
	return nil
}

// isNotThere reports that an API server says of this very object that it does not exist: a
// proxy, or a server that does not know the resource, answers 404 as well.
func isNotThere(err error, r Resource, key syncer.Key) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.ErrStatus.Details
	return details != nil && details.Name == key.Name && details.Kind == r.Resource && details.Group == r.Group
}

// Query is what is listed or watched.
type Query struct {
	Resource Resource
	// Namespace restricts to one namespace; empty for all.
	Namespace string
	// Labels and Fields are selectors; empty for all.
	Labels, Fields string
}

// request returns a request for a query. Nothing is retried below the caller but the pages of a
// list, when the server says how long to wait.
func (s *Session) request(q Query, opts metav1.ListOptions) *rest.Request {
	opts.LabelSelector, opts.FieldSelector = q.Labels, q.Fields
	return s.client(q.Resource).Get().
		NamespaceIfScoped(q.Namespace, q.Namespace != "").
		Resource(q.Resource.Resource).
		VersionedParams(&opts, scheme.ParameterCodec).
		MaxRetries(0)
}

// List reads all objects of a query. It is for a few: they are all in memory at once.
func (s *Session) List(ctx context.Context, q Query) (objects []Object, err error) {
	_, err = s.pages(ctx, q, func(content []byte) error {
		object, err := q.Resource.Object(content)
		objects = append(objects, object)
		return err
	})
	return objects, err
}

// pages lists at the latest revision, page by page: a server that has just started and is
// asked for any revision shows what is long gone. each is called with the bytes of every object,
// which it must not retain: one page is in memory at a time. All show one moment, the revision of the list.
func (s *Session) pages(ctx context.Context, q Query, each func(content []byte) error) (revision uint64, err error) {
	const shrink = 4
	var buffer bytes.Buffer
	for opts := (metav1.ListOptions{Limit: pageSize}); ; {
		page, list, err := s.page(ctx, q, opts, &buffer)
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge && opts.Limit > 1 {
			opts.Limit = max(1, opts.Limit/shrink) // the continue token stays the same
			continue
		}
		_ = wire.Walk(page, func(at wire.Path, _ uint64, item []byte) bool {
			if at == 0x02 && err == nil {
				err = each(item)
			}
			return false
		})
		if err != nil {
			return 0, fmt.Errorf("list %s: %w", q.Resource.Resource, bare(err))
		}
		revision = cmp.Or(revision, Revision(list.ResourceVersion))
		if list.Continue == "" {
			return revision, nil
		}
		opts.Continue = list.Continue
	}
}

// page reads one page into a buffer: its content, with the items in field 2, and its metadata.
func (s *Session) page(ctx context.Context, q Query, opts metav1.ListOptions, buffer *bytes.Buffer) (page []byte, list metav1.ListMeta, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	body, err := s.request(q, opts).MaxRetries(busyPages).Stream(ctx)
	if err != nil {
		return nil, list, err
	}
	defer body.Close()
	buffer.Reset()
	if _, err = buffer.ReadFrom(body); err == nil {
		page, err = q.Resource.content(buffer.Bytes(), "List")
	}
	if err == nil {
		err = wire.Walk(page, func(at wire.Path, _ uint64, value []byte) bool {
			if at == 0x01 {
				err = list.Unmarshal(value)
			}
			return false
		})
	}
	if err == nil && Revision(list.ResourceVersion) == 0 { // it would pass for one without objects
		err = errors.New("the answer is a list without a resourceVersion")
	}
	return page, list, err
}

// bare is an error of the client without the method and the whole URL of the request, which it quotes.
func bare(err error) error {
	if of, ok := err.(*url.Error); ok { // not one that is wrapped: whoever wrapped it said more
		return of.Err
	}
	return err
}

// Revision reads a resourceVersion as a number; 0 when it is none. Revisions are opaque
// only in principle: every API server's are etcd revisions, and comparing them
// is sanctioned since 1.35 (KEP-5504).
func Revision(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
