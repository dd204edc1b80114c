// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
)

// errNoAccess is a member whose kubeconfig was never accepted.
var errNoAccess = errors.New("there is no kubeconfig that can be used")

// newAccess returns an access to the member as it is on record. The caller holds mu, or is
// alone.
func (m *Member) newAccess() *kube.Access {
	m.pin = kube.NewPin(m.onRecord())
	pin := m.pin
	return kube.NewAccess(func(ctx context.Context) (*kube.Session, error) { return m.open(ctx, pin) })
}

// onRecord is the UID by which the member is on record; empty: it is not.
func (m *Member) onRecord() string {
	if m.options.Identity == nil {
		return ""
	}
	return m.options.Identity(m.name)
}

// open opens a session with the credential that counts now.
func (m *Member) open(ctx context.Context, pin *kube.Pin) (*kube.Session, error) {
	m.mu.Lock()
	access := m.settings.Access
	m.mu.Unlock()
	if access.REST == nil {
		return nil, fmt.Errorf("%w: %w", errNoAccess, access.Err)
	}
	var wrap func(http.RoundTripper) http.RoundTripper
	if m.options.Wrap != nil {
		wrap = m.options.Wrap(m.name)
	}
	session, err := kube.Open(ctx, access.REST, kube.Options{
		Cluster: m.name, Version: m.options.Version, Pin: pin, Wrap: wrap})
	if err != nil {
		m.failed(err)
		return nil, err
	}
	if uid := session.Identity(); uid != "" && m.options.Learned != nil {
		m.options.Learned(m.name, uid)
	}
	return session, nil
}

// rotate takes new credentials into use.
func (m *Member) rotate() {
	kube.Rotate(m.ctx, m.rotated, m.accessNow, func(err error) {
		m.log.Warn("the new credential of the cluster does not work; the former one stays in use", "error", err)
	})
}

// recorded has the member begin anew if it is on record as another cluster than the one that
// is followed (T4).
func (m *Member) recorded() {
	m.mu.Lock()
	m.renew = m.onRecord() != m.pin.Known()
	m.mu.Unlock()
	signal(m.work)
}

// beginAnew ends all that reads the former cluster before anything of the other one is read.
// It is for one goroutine.
func (m *Member) beginAnew() {
	m.mu.Lock()
	renew, former, native := m.renew, m.access, m.native
	if m.renew = false; renew {
		m.access, m.native = m.newAccess(), nil
	}
	m.mu.Unlock()
	if renew {
		native.end()
		m.streams.reconcile(nil)
		former.Close()
		m.step(member.Anew{})
	}
}
