// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"tributary.dev/tributary/clusters/kube"
)

// errNoAccess is a member whose kubeconfig was never accepted.
var errNoAccess = errors.New("there is no kubeconfig that can be used")

// onRecord is the UID by which the member is on record; empty: it is not.
func (m *Member) onRecord() string {
	if m.options.Identity == nil {
		return ""
	}
	return m.options.Identity(m.name)
}

// open opens a session with the credential that counts now.
func (m *Member) open(ctx context.Context) (*kube.Session, error) {
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
		Cluster: m.name, Version: m.options.Version, Pin: m.pin, Wrap: wrap})
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
	m.access.Rotate(m.ctx, m.rotated, func(err error) {
		m.log.Warn("the new credential of the cluster does not work; the former one stays in use", "error", err)
	})
}
