// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/inventory"
	"tributary.dev/tributary/reconcile/leases"
)

// Which cluster is which is read from Tributary's own namespace, never from what
// tenants can write to.

const (
	// identitiesTimeout bounds how long the start waits for what is known.
	identitiesTimeout = 5 * time.Second
	// identitiesLook is the time between two looks at what has become known, and
	// identitiesPause how long nothing is tried after a failure.
	identitiesLook  = time.Second
	identitiesPause = 30 * time.Second
	// identitiesTries is how often in a row reading must be refused to be believed.
	identitiesTries = 3
)

// inventoryOf is where a session keeps what is known.
func (s *ingressSession) inventoryOf(c *config.Config) inventory.Store {
	return inventory.Store{Client: s.watch.Clientset(), Namespace: c.OwnNamespace(), Instance: c.Instance}
}

// expectedIdentity is that of the cluster that a session must lead to: the one that is
// pinned or, where none is, that served until now; "" is any.
func expectedIdentity(c *config.Config, former *ingressSession) string {
	if c.Ingress.Identity != "" || former == nil {
		return c.Ingress.Identity
	}
	return former.watch.Identity()
}

// otherIngress adds to an error that tells of another cluster what can be done.
func otherIngress(err error) error {
	if !errors.Is(err, kube.ErrOtherCluster) {
		return err
	}
	return fmt.Errorf("%w; if it is the ingress cluster that is meant, write its UID as ingress.identity", err)
}

// identify reads what is recorded of the cluster that a session leads to, and refuses
// another than that, unless it is the expected one. What cannot be read is not nothing: it
// fails, but where that may not be read, or is another's. A refusal is believed when it is
// repeated: an API server that has just started denies what it grants a moment later.
func (s *ingressSession) identify(ctx context.Context, c *config.Config, former *ingressSession) error {
	ctx, cancel := context.WithTimeout(ctx, identitiesTimeout)
	defer cancel()
	for n := 1; ; n++ {
		s.known, s.unrecorded = s.inventoryOf(c).Read(ctx)
		if n == identitiesTries || !apierrors.IsForbidden(s.unrecorded) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(identitiesLook):
		}
	}
	if err := s.unrecorded; err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !errors.Is(err, inventory.ErrForeign) {
		return fmt.Errorf("the identities of clusters cannot be read: %w", err)
	}
	identity := ""
	if s.watch.Identified() {
		identity = s.watch.Identity()
	}
	return acceptIngress(c, expectedIdentity(c, former), identity, s.known.Ingress)
}

// acceptIngress refuses another cluster than the expected one or, where none is expected,
// than the recorded one. identity is that of the cluster that answers, "" where it may
// not be read. It is pure.
func acceptIngress(c *config.Config, expected, identity, recorded string) error {
	whence := "is expected"
	if expected == "" && recorded != "" && identity != "" {
		expected, whence = recorded, "is recorded in namespace "+c.OwnNamespace()
	}
	switch {
	case expected == "" || identity == expected:
		return nil
	case identity == "":
		return fmt.Errorf("the ingress cluster cannot be told from another than %.64q, because its kube-system namespace cannot be read", expected)
	}
	return otherIngress(fmt.Errorf("%w: its kube-system namespace has UID %.64q, and %.64q %s", kube.ErrOtherCluster, identity, expected, whence))
}

// KnownIdentities reads by what members were known to the processes before, and refuses the
// ingress cluster, which has this identity, if a process that starts now would.
func KnownIdentities(ctx context.Context, client kubernetes.Interface, c *config.Config, identity string) (members map[string]string, err error) {
	known, _ := inventory.Store{Client: client, Namespace: c.OwnNamespace(), Instance: c.Instance}.Read(ctx) // a missing right shows among the rights
	return known.Members, acceptIngress(c, c.Ingress.Identity, identity, known.Ingress)
}

// follows refuses a new current-context of a kubeconfig where the file names no
// context and nothing else tells whether it is the same cluster.
func (s *ingressSession) follows(access config.Access, c *config.Config, former *ingressSession) error {
	if former == nil || c.Ingress.Context != "" || access.Context == former.context {
		return nil
	}
	if s.watch.Identified() && (s.watch.Identity() == former.watch.Identity() || c.Ingress.Identity != "") {
		return nil // it is the same, or the one that is meant
	}
	return fmt.Errorf("the current-context of its kubeconfig is %q now, and was %q: write ingress.context if that is meant", access.Context, former.context)
}

// readIdentities finds out by which identity the members were known to the process
// before this one, so that another cluster at the address of one is not taken for
// it, and who was in panic then. Leases of the version before tell, too. One of which neither tells is the first
// cluster that answers.
func (r *App) readIdentities(ctx context.Context, session *ingressSession) {
	if session.unrecorded != nil {
		r.logger.Error("the identities of clusters cannot be read: after a restart another cluster at the address of one is not recognised", "error", session.unrecorded)
	}
	identities := maps.Clone(session.known.Members)
	if identities == nil {
		identities = map[string]string{}
	}
	if namespace := r.leaseNamespace(); namespace != "" {
		ctx, cancel := context.WithTimeout(ctx, identitiesTimeout)
		defer cancel()
		leased, err := leases.Identities(ctx, session.leases(namespace), session.key.election.instance)
		if err != nil {
			r.logger.Warn("leases are not read", "namespace", namespace, "error", err)
		}
		for cluster, identity := range leased {
			if identities[cluster] == "" {
				identities[cluster] = identity
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.identities, r.panics = identities, session.known.Panics
}

// forgetIdentities forgets names that are not configured and of which nothing stands:
// whoever gets such a name later may be another cluster.
func (r *App) forgetIdentities(session *ingressSession, configured func(string) bool) {
	r.mu.Lock()
	gone := slices.DeleteFunc(sortedKeys(r.identities), configured)
	r.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	standing := session.reconciler.Clusters()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range gone {
		if !standing[name] {
			delete(r.identities, name)
		}
	}
}

// pinned is the identity by which a member was known before this process.
func (r *App) pinned(cluster string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.identities[cluster]
}

// panicAt is when the panic began that a member was in when it was last heard of, or zero.
func (r *App) panicAt(cluster string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.panics[cluster]
}

// keepInventory writes down what becomes known until ctx is done.
func (r *App) keepInventory(ctx context.Context, session *ingressSession) {
	tick := time.NewTicker(identitiesLook)
	defer tick.Stop()
	var written inventory.Inventory
	var pause time.Time
	failed, first := false, true
	for {
		if known := r.known(session); time.Now().After(pause) && (first || !known.Equal(written)) {
			asking, cancel := context.WithTimeout(ctx, identitiesTimeout)
			err := r.writeDown(asking, session, known)
			cancel()
			switch {
			case err == nil:
				written, first = known, false
			case ctx.Err() == nil:
				if pause = time.Now().Add(identitiesPause); !failed {
					r.logger.Error("the identities of clusters cannot be written down: after a restart another cluster at the address of one is not recognised", "error", err)
				}
			}
			failed = err != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// writeDown writes down what is known. Nothing is written over that was not read, and who
// could not read it at the start does so first.
func (r *App) writeDown(ctx context.Context, session *ingressSession, known inventory.Inventory) error {
	loaded := r.running()
	if session.unrecorded != nil {
		if err := session.identify(ctx, &loaded.Config, nil); err != nil || session.unrecorded != nil {
			return cmp.Or(err, session.unrecorded)
		}
	}
	return session.inventoryOf(&loaded.Config).Write(ctx, known, func(member string) bool {
		return loaded.SecretsUnread || slices.ContainsFunc(loaded.Config.Clusters, func(c config.Cluster) bool { return c.Name == member })
	})
}

// known is what there is to write down.
func (r *App) known(session *ingressSession) inventory.Inventory {
	configured := map[string]bool{}
	for _, c := range r.running().Config.Clusters {
		configured[c.Name] = true
	}
	unread := r.running().SecretsUnread // then nobody knows which are
	r.forgetIdentities(session, func(name string) bool { return unread || configured[name] })
	r.mu.Lock()
	defer r.mu.Unlock()
	members := r.set.Conditions()
	for _, s := range members {
		if s.Identity != "" && configured[s.Name] && r.identities != nil {
			r.identities[s.Name] = s.Identity
		}
	}
	r.panics = panics(r.panics, members, func(name string) bool { return unread || configured[name] })
	return inventory.Inventory{
		Ingress: cmp.Or(session.watch.Identity(), session.known.Ingress), Members: maps.Clone(r.identities), Panics: r.panics,
	}
}

// panics are when the panics began of the members that are in one; of a member that was not
// read whole that is as it is on record. It is pure.
func panics(recorded map[string]time.Time, members []clusters.Status, configured func(string) bool) map[string]time.Time {
	is := map[string]time.Time{}
	for name, at := range recorded {
		if configured(name) {
			is[name] = at
		}
	}
	for _, m := range members {
		if m.Synced {
			delete(is, m.Name)
		}
		if !m.PanicAt.IsZero() {
			is[m.Name] = m.PanicAt.UTC()
		}
	}
	return is
}
