// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"
)

// How long a new credential waits that does not work.
const firstRotation, slowestRotation = time.Second, 30 * time.Second

// Rotate takes another credential into use each time that one is signalled, until ctx ends:
// what runs goes on as it was until a session could be opened with it, and then resumes through
// that. failed is told each time that it does not work.
func (a *Access) Rotate(ctx context.Context, signalled <-chan struct{}, failed func(error)) {
	wait, again := firstRotation, (<-chan time.Time)(nil)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signalled:
			wait = firstRotation
		case <-again:
		}
		again = nil
		if err := a.exchange(ctx); err != nil && ctx.Err() == nil {
			failed(err)
			again, wait = time.After(wait), min(2*wait, slowestRotation)
		}
	}
}

// exchange goes over to a session that is opened now. A first one that is being opened is
// waited for: it may have begun with the former credential.
func (a *Access) exchange(ctx context.Context) error {
	if _, err := a.Get(ctx); err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err == nil {
		a.Swap(s)
	}
	return err
}
