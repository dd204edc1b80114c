// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"tributary.dev/tributary/reconcile/leases"
)

// keepLeases shows the freshness of the members in the ingress cluster until ctx
// is done. The members must be there: a Lease of nobody goes, and with it the identity
// of one that is away.
func (r *App) keepLeases(ctx context.Context, session *ingressSession) {
	renewer := leases.Renewer{
		Leases:    func(namespace string) leases.API { return session.leases(namespace) },
		Namespace: r.leaseNamespace,
		Members:   r.freshness, Instance: session.key.election.instance, Holder: session.key.election.identity, Logger: r.logger,
	}
	renewer.Run(ctx)
}

func (s *ingressSession) leases(namespace string) leases.API {
	return s.watch.Clientset().CoordinationV1().Leases(namespace)
}

func (r *App) leaseNamespace() string { return r.running().Config.LeaseNamespace() }

// freshness is how fresh each member is.
func (r *App) freshness() []leases.Member {
	var out []leases.Member
	for _, s := range r.set.Conditions() {
		out = append(out, leases.Member{Cluster: s.Name, Fresh: s.Synced && s.Up, Seen: s.LastContact, Identity: s.Identity,
			State: stateText(s.State, s.Reason)})
	}
	return out
}

// stateText is a state with its reason.
func stateText(state, reason string) string {
	if reason == "" {
		return state
	}
	return state + ", " + reason
}
