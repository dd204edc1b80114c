// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/syncer"
)

// Outcome is how a consistent read of one object ended.
type Outcome uint8

// The outcomes.
const (
	// Failed: nothing was learnt.
	Failed Outcome = iota
	// Gone: the cluster itself says that there is no object of that name.
	Gone
	// There is an object of that name, whatever its UID.
	There
	// Refused: the right to `get` is missing, an authorizer says.
	Refused
)

// readTimeout bounds one read.
const readTimeout = 5 * time.Second

// Read asks for one object in the cluster's etcd: a GET without a revision, unlike a
// list, is never answered from a cache. object is set when it is There, err when the
// read Failed or was Refused.
func (s *Session) Read(ctx context.Context, r Resource, key syncer.Key) (object runtime.Object, outcome Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	request := s.conn.client(r).Get().NamespaceIfScoped(key.Namespace, key.Namespace != "").Resource(r.Resource).Name(key.Name).MaxRetries(0)
	object, err = readObject(ctx, request, "an object of "+r.Resource, objectBytes, r.New())
	if err == nil {
		err = isOf(object, r, key)
	}
	outcome = outcomeOf(err, key)
	if outcome == Gone {
		err = nil
	}
	return object, outcome, err
}

// Confirm returns nil unless what was answered before the call may be another cluster's:
// absence, and another UID, count for nothing there.
func (s *Session) Confirm(ctx context.Context) error { return s.conn.identity.confirm(ctx) }

// isOf fails unless an answer is the object that was asked for: what stands in front of a
// server may mix up answers, or strip them.
func isOf(object runtime.Object, r Resource, key syncer.Key) error {
	m, err := meta.Accessor(object)
	switch {
	case err != nil || reflect.TypeOf(object) != reflect.TypeOf(r.New()):
		return fmt.Errorf("read an object of %s: the answer is a %T", r.Resource, object)
	case m.GetNamespace() != key.Namespace || m.GetName() != key.Name:
		return fmt.Errorf("read an object of %s: the answer is another object, %.64q in namespace %.64q", r.Resource, m.GetName(), m.GetNamespace())
	case m.GetUID() == "" || m.GetResourceVersion() == "":
		return fmt.Errorf("read an object of %s: the answer has no UID or no resourceVersion", r.Resource)
	}
	return nil
}

// outcomeOf says what an answer to the question for an object means. That it is not
// found counts only in the words of an API server about this very object: a proxy, or a
// server that does not know the resource, answers 404 as well.
func outcomeOf(err error, key syncer.Key) Outcome {
	switch {
	case err == nil:
		return There
	case isGone(err, key):
		return Gone
	case apierrors.IsForbidden(err) && ByAuthorizer(err):
		return Refused
	default:
		return Failed
	}
}

func isGone(err error, key syncer.Key) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == key.Name && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// objectBytes bounds what is read of one object; the largest that an API server stores
// by default has 1.5 MB.
const objectBytes = 4 << 20

// readObject reads what a request is answered with, an object or a list of them, into an
// empty one. How large it is decides the server, so no more of it is read than is allowed.
func readObject(ctx context.Context, request *rest.Request, what string, most int, into runtime.Object) (runtime.Object, error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", what, err)
	case len(text) > most:
		return nil, fmt.Errorf("read %s: %w (%d MiB)", what, ErrTooLarge, most>>20)
	case len(text) == 0:
		return nil, fmt.Errorf("read %s: the answer is empty", what) // would decode as one without content
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, into)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", what, err)
	}
	if status, ok := object.(*metav1.Status); ok {
		return nil, apierrors.FromObject(status)
	}
	return object, nil
}

// revision reads the revision of a list of at most one object, in whatever namespace shows one.
func (s *Session) revision(ctx context.Context, r Resource) (uint64, error) {
	var list runtime.Object
	var err error
	for _, scope := range s.listWatcher(r).scopes() {
		var took time.Duration
		if scope.Namespace != "" {
			scope.ListWatcher = scope.within(probeTimeout/2, &took)
		}
		if list, err = scope.List(ctx, metav1.ListOptions{Limit: 1}); err == nil || ctx.Err() != nil || ofAll(err) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return number(accessor.GetResourceVersion()), nil
}

// objectRevision reads the revision of one object.
func (s *Session) objectRevision(ctx context.Context, r Resource, key syncer.Key) (uint64, Outcome) {
	object, outcome, _ := s.Read(ctx, r, key)
	if outcome != There {
		return 0, outcome
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return 0, Failed
	}
	return number(accessor.GetResourceVersion()), There
}
