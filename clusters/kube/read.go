// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/syncer"
)

// revision reads the revision of a list of at most one object.
func (s *Session) revision(ctx context.Context, r Resource) (uint64, error) {
	list, err := s.listWatcher(r).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return number(accessor.GetResourceVersion()), nil
}

const (
	// metadataOnly spares both sides the object itself; a server that does not know
	// the form sends all of it.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	// objectBytes bounds what is read of one object.
	objectBytes = 4 << 20
)

// objectRevision reads the revision of one object from the cluster's etcd: a GET, unlike
// a list, is never answered from a cache.
func (s *Session) objectRevision(ctx context.Context, r Resource, key syncer.Key) (uint64, error) {
	body, err := s.client(r).Get().NamespaceIfScoped(key.Namespace, key.Namespace != "").Resource(r.Resource).Name(key.Name).
		SetHeader("Accept", metadataOnly).MaxRetries(0).Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	var object metav1.PartialObjectMetadata
	if err := json.NewDecoder(io.LimitReader(body, objectBytes)).Decode(&object); err != nil {
		return 0, fmt.Errorf("read %s %s: %w", r.Resource, key, err)
	}
	return number(object.ResourceVersion), nil
}
