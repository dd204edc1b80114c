// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// query is what is listed or watched.
type query struct {
	resource                  Resource
	namespace, labels, fields string
}

// request is one of a query. Nothing is retried below its user but the pages of a list, when the
// server says how long to wait.
func (s *Session) request(q query, opts metav1.ListOptions) *rest.Request {
	opts.LabelSelector, opts.FieldSelector = q.labels, q.fields
	return s.client(q.resource).Get().
		NamespaceIfScoped(q.namespace, q.namespace != "").
		Resource(q.resource.Resource).
		VersionedParams(&opts, scheme.ParameterCodec).
		MaxRetries(0)
}

const (
	// pageSize is how many objects are asked for at once.
	pageSize = 500
	// pageTimeout bounds one page of a list; API servers give up after 60 s.
	pageTimeout = 60 * time.Second
	// busyPages is how often one is asked for again that a server is too busy for.
	busyPages = 5
)

// pages lists at the latest revision, page by page: a server that has just started and is
// asked for any revision shows what is long gone. each is called with every object, of which
// only a page is held at a time. All show one moment, the revision of the list.
func (s *Session) pages(ctx context.Context, q query, each func(runtime.Object)) (revision uint64, err error) {
	const shrink = 4
	for opts := (metav1.ListOptions{Limit: pageSize}); ; {
		page, at, err := s.page(ctx, q, opts)
		switch {
		case err == nil:
		case tooLarge(err) && opts.Limit > 1:
			opts.Limit = max(1, opts.Limit/shrink) // the token goes on from where it stands
			continue
		default:
			return 0, err
		}
		if revision == 0 {
			revision = at
		}
		_ = meta.EachListItem(page, func(object runtime.Object) error {
			each(object)
			return nil
		})
		if list, err := meta.ListAccessor(page); err != nil || list.GetContinue() == "" {
			return revision, err
		} else {
			opts.Continue = list.GetContinue()
		}
	}
}

// page reads one page and its revision.
func (s *Session) page(ctx context.Context, q query, opts metav1.ListOptions) (runtime.Object, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err := readObject(ctx, s.request(q, opts).MaxRetries(busyPages))
	if err != nil {
		return nil, 0, err
	}
	list, err := meta.ListAccessor(page)
	if err != nil || number(list.GetResourceVersion()) == 0 { // it would pass for one without objects
		return nil, 0, fmt.Errorf("the answer is no list: it is a %T without a resourceVersion", page)
	}
	return page, number(list.GetResourceVersion()), nil
}

// number reads a revision as a number; 0 when it is none. Revisions are opaque
// only in principle: every API server's are etcd revisions, and comparing them
// is sanctioned since 1.35 (KEP-5504).
func number(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
