// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/wire"
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
// asked for any revision shows what is long gone. each is called with the bytes of every object,
// which it must not keep: only a page is held at a time. All show one moment, the revision of the list.
func (s *Session) pages(ctx context.Context, q query, each func(content []byte) error) (revision uint64, err error) {
	const shrink = 4
	var buffer bytes.Buffer
	for opts := (metav1.ListOptions{Limit: pageSize}); ; {
		page, list, err := s.page(ctx, q, opts, &buffer)
		switch {
		case err == nil:
		case tooLarge(err) && opts.Limit > 1:
			opts.Limit = max(1, opts.Limit/shrink) // the token goes on from where it stands
			continue
		default:
			return 0, err
		}
		if revision == 0 {
			revision = number(list.ResourceVersion)
		}
		_ = wire.Walk(page, func(at wire.Path, _ uint64, item []byte) bool {
			if at == 0x02 {
				err = cmp.Or(err, each(item))
			}
			return false
		})
		if err != nil || list.Continue == "" {
			return revision, err
		}
		opts.Continue = list.Continue
	}
}

// page reads one page into a buffer: its content, with the items in field 2, and its metadata.
func (s *Session) page(ctx context.Context, q query, opts metav1.ListOptions, buffer *bytes.Buffer) (page []byte, list metav1.ListMeta, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err = q.resource.answer(ctx, s.request(q, opts).MaxRetries(busyPages), "List", buffer)
	if err == nil {
		err = wire.Walk(page, func(at wire.Path, _ uint64, value []byte) bool {
			if at == 0x01 {
				err = list.Unmarshal(value)
			}
			return false
		})
	}
	if err == nil && number(list.ResourceVersion) == 0 { // it would pass for one without objects
		err = errors.New("the answer is a list without a resourceVersion")
	}
	return page, list, err
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
