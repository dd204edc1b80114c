// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
)

// errNoKubeconfig is a member none of whose kubeconfigs was ever accepted, or none with its settings.
var errNoKubeconfig = errors.New("its kubeconfig and settings were not accepted yet")

// errUnproven is another address that may be another cluster's.
var errUnproven = errors.New("the kubeconfig has another server, which does not show that it is the same cluster: grant `get` on namespace kube-system")

// session is a way to a member that is in use.
type session struct {
	*kube.Session
	spec sessionSpec
}

// sessionSpec is where a member is reached and what is taken from it.
type sessionSpec struct {
	cluster config.Cluster
	access  config.Access
}

// namespaces are those to read; none for all, filtered here.
func (s sessionSpec) namespaces() []string { return s.cluster.Namespaces.Only() }

// leadsElsewhere reports whether another session is needed.
func (s sessionSpec) leadsElsewhere(than sessionSpec) bool {
	return s.access.REST != nil && (s.access.Hash != than.access.Hash || !slices.Equal(s.namespaces(), than.namespaces()) || s.cluster.RolesOnly != than.cluster.RolesOnly)
}

// follows reports whether a session may take the place of another: at another address a
// cluster that was known by its identity is to show it, unless it is said to grant Roles alone.
func (s *session) follows(former *session) bool {
	return s.Identified() || s.Identity() == "" || s.Host() == former.Host() || s.spec.cluster.RolesOnly
}

// open connects and makes sure of the identity of what answers. The caller releases
// the session.
func (m *Member) open(ctx context.Context, spec sessionSpec) (*session, error) {
	if spec.access.REST == nil {
		if spec.access.Err != nil {
			return nil, fmt.Errorf("%w: %w", errNoKubeconfig, spec.access.Err)
		}
		return nil, errNoKubeconfig
	}
	o := kube.SessionOptions{
		ConnectOptions: kube.ConnectOptions{Cluster: m.name, Version: m.opts.Version, Logger: m.log, Pin: m.identity, RolesOnly: spec.cluster.RolesOnly},
		Namespaces:     spec.namespaces(),
	}
	o.Wrap = m.clock.Wrap
	if m.opts.Wrap != nil {
		observe := m.opts.Wrap(m.name)
		o.Wrap = func(next http.RoundTripper) http.RoundTripper { return m.clock.Wrap(observe(next)) }
	}
	s, err := kube.Open(ctx, spec.access.REST, o)
	if err != nil {
		return nil, err
	}
	return &session{s, spec}, nil
}
