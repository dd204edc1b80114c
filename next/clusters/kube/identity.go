// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"sync/atomic"
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

// Check compares, and remembers the first UID that is not empty. The error wraps
// ErrOtherCluster.
func (p *Pin) Check(uid string) error {
	if uid == "" || p.uid.CompareAndSwap(nil, &uid) {
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
