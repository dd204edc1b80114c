// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pin is the UID by which a cluster is known, once it is known. The zero value knows
// none yet. Safe for concurrent use.
type Pin struct{ uid atomic.Pointer[string] }

// NewPin returns a pin that knows a UID; "" is none.
func NewPin(uid string) *Pin {
	p := new(Pin)
	if uid != "" {
		p.uid.Store(&uid)
	}
	return p
}

// check compares, and remembers the first UID. The error wraps ErrOtherCluster.
func (p *Pin) check(uid string) error {
	if p.uid.CompareAndSwap(nil, &uid) {
		return nil
	}
	if known := p.Known(); uid != known {
		return fmt.Errorf("%w: its kube-system namespace has UID %.64q, and %.64q is expected", ErrOtherCluster, uid, known)
	}
	return nil
}

// Known returns the UID, or "".
func (p *Pin) Known() string {
	if uid := p.uid.Load(); uid != nil {
		return *uid
	}
	return ""
}

// identityTimeout bounds one question for a cluster's identity.
const identityTimeout = 5 * time.Second

// prove asks for the identity of the cluster at the end of a connection: of all that a
// cluster holds, the namespace kube-system is made first, never made anew, and never the
// same twice. To read it is a right that a cluster may withhold at any time: then nothing
// can be told, and it is believed for a while.
func (s *Session) prove(ctx context.Context) (told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	request := s.client(Namespaces).Get().Resource(Namespaces.Resource).Name(metav1.NamespaceSystem).MaxRetries(0)
	object, err := readObject(ctx, request, "namespace "+metav1.NamespaceSystem, new(corev1.Namespace))
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask cluster %s for its identity: %w", s.cluster, err)
	}
	m, err := meta.Accessor(object)
	if err != nil || m.GetName() != metav1.NamespaceSystem || m.GetUID() == "" {
		return false, fmt.Errorf("ask cluster %s for its identity: the answer is not its namespace %s", s.cluster, metav1.NamespaceSystem)
	}
	if err := s.pin.check(string(m.GetUID())); err != nil {
		return false, fmt.Errorf("cluster %s at %s: %w", s.cluster, s.host, err)
	}
	return true, nil
}
