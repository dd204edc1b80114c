// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/reconcile/leases"
)

// namespaceFile names the namespace of a pod's service account.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// keepLeases shows the freshness of the members in the ingress cluster until ctx
// is done. The members must be there: a Lease of nobody goes, and with it the identity
// of one that is away.
func (r *App) keepLeases(ctx context.Context, session *ingressSession) {
	keeper := leases.Keeper{
		Leases:    func(namespace string) leases.API { return session.leases(namespace) },
		Namespace: r.leaseNamespace,
		Members:   r.freshness, Holder: session.key.election.identity, Logger: r.logger,
	}
	keeper.Run(ctx)
}

func (s *ingressSession) leases(namespace string) leases.API {
	return s.watch.Clientset().CoordinationV1().Leases(namespace)
}

// identitiesTimeout bounds how long the start waits for the Leases.
const identitiesTimeout = 5 * time.Second

// readIdentities finds out by which identity the members were known to the process
// before this one, so that another cluster at the address of one is not taken for
// it: from the replicas that stand, and from the Leases, which also know members
// that feed none. One of which neither tells is the first cluster that answers.
func (r *App) readIdentities(ctx context.Context, session *ingressSession) {
	identities := session.reconciler.Identities()
	if namespace := r.leaseNamespace(); namespace != "" {
		ctx, cancel := context.WithTimeout(ctx, identitiesTimeout)
		defer cancel()
		leased, err := leases.Identities(ctx, session.leases(namespace))
		if err != nil {
			r.logger.Warn("leases are not read: members that feed no replica are not recognised", "namespace", namespace, "error", err)
		}
		for cluster, identity := range leased {
			identities[cluster] = cmp.Or(identities[cluster], identity)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.identities = identities
}

// recallIdentities is readIdentities for members that join later: a name that was
// there before, and of which endpoints still stand, means the cluster it meant then.
func (r *App) recallIdentities(added []string) {
	session := r.ingress.Load()
	if len(added) == 0 || session == nil {
		return
	}
	standing := session.reconciler.Identities()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range added {
		if identity := standing[name]; identity != "" && r.identities != nil {
			r.identities[name] = identity
		}
	}
}

// pinned is the identity by which a member was known before this process.
func (r *App) pinned(cluster string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.identities[cluster]
}

func (r *App) leaseNamespace() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return leaseNamespace(&r.loaded.Config, namespaceFile)
}

// leaseNamespace is where Leases go, "" for nowhere. The namespace of the pod that
// this process runs in is meant only if that pod is in the ingress cluster.
func leaseNamespace(c *config.Config, file string) string {
	switch {
	case !c.Leases.Enabled:
		return ""
	case c.Leases.Namespace != "" || c.Ingress.Kubeconfig != "":
		return c.Leases.Namespace
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// freshness is how fresh each member is.
func (r *App) freshness() []leases.Member {
	var out []leases.Member
	for _, s := range r.set.Status() {
		out = append(out, leases.Member{Cluster: s.Name, Fresh: s.Synced && s.State.Up(), Seen: s.LastContact, Identity: s.Identity,
			State: stateText(string(s.State), string(s.Reason))})
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

// LeaseNamespace is where the Leases of members go by a configuration, "" for nowhere.
func LeaseNamespace(c *config.Config) string { return leaseNamespace(c, namespaceFile) }
