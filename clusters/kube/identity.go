// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/syncer"
)

// Pin is the UID by which a cluster is known, once it is known. Safe for concurrent use.
type Pin struct{ uid atomic.Value }

// NewPin returns a pin that knows a UID; "" is none yet.
func NewPin(uid string) *Pin {
	p := new(Pin)
	p.uid.Store(uid)
	return p
}

// Known returns the UID, or "".
func (p *Pin) Known() string { return p.uid.Load().(string) }

// starting is for how long an API server may refuse everybody: until it has read its roles.
const starting = 3 * time.Second

// prove asks for the identity of the cluster at the end of a connection: the namespace
// kube-system is created first, never created anew, and its UID is unique. The first UID that
// is shown is remembered. A cluster may withhold the right to read it at any time: then it is
// believed, because nothing can be known, but where the UID is on record only if the cluster
// has not just started.
func (s *Session) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var ns metav1.Object
	var err error
	_ = wait.PollUntilContextTimeout(ctx, starting/10, starting, true, func(context.Context) (bool, error) {
		ns, err = s.get(ctx, Namespaces, syncer.Key{Name: metav1.NamespaceSystem})
		return !apierrors.IsForbidden(err) || s.pin.Known() == "", nil
	})
	switch {
	case apierrors.IsForbidden(err):
		s.proved.Store(math.MaxInt64)
		return nil
	case err != nil:
		return fmt.Errorf("ask for the identity of the cluster: %w", err)
	}
	if uid := string(ns.GetUID()); !s.pin.uid.CompareAndSwap("", uid) && uid != s.pin.Known() {
		return fmt.Errorf("%w at %s: its namespace %s has UID %.64q, and %.64q is expected",
			ErrOtherCluster, s.host, metav1.NamespaceSystem, uid, s.pin.Known())
	}
	s.proved.Store(time.Now().Add(justProved).UnixNano())
	return nil
}

// proveAgain asks for the identity once more, unless the cluster has just shown it or withholds it: a proxy
// that holds our connections may have another cluster behind it by now. A connection that does not
// answer may be frozen. All who wait share one question, which ends with the session.
func (s *Session) proveAgain(ctx context.Context) error {
	if time.Now().UnixNano() < s.proved.Load() {
		return nil
	}
	shown := s.proving.DoChan("", func() (any, error) {
		err := s.prove(s.pool.ended)
		if TimedOut(err) {
			s.retire(0)
		}
		return nil, err
	})
	select {
	case answer := <-shown:
		return answer.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
