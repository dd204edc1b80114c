// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/reconcile"
)

// memberChanged announces a member to the reconciler once it has been seen
// whole, for only from then on absence means anything; and when it has become stale or
// is in panic, or is no longer; where one is, or is drained, also when another comes to be
// live, or ceases.
func (r *App) memberChanged(string) {
	if !r.begun.Load() {
		return // they are only being made
	}
	var turned, seen []string
	r.mu.Lock()
	members := r.set.Members() // with the lock: see forgetMembers
	asks := slices.ContainsFunc(members, func(m clusters.MemberState) bool { return m.Panicking || m.Stale }) || r.drains()
	for _, m := range members {
		was := r.announced[m.Name]
		if m.Stale != was.Stale || m.Panicking != was.Panicking || asks && m.Live != was.Live {
			turned = append(turned, m.Name)
		}
		if m.Synced && !was.Synced {
			seen = append(seen, m.Name)
		}
		m.Synced = m.Synced || was.Synced
		r.announced[m.Name] = m
	}
	r.mu.Unlock()
	to := r.sink.to.Load()
	for _, name := range turned {
		to.Resync(name, "stale")
	}
	for _, name := range seen {
		to.Seen(name)
	}
	r.lookOnceSettled(to)
}

// drains reports whether a member is to be drained.
func (r *App) drains() bool {
	loaded := r.set.Loaded()
	return loaded != nil && slices.ContainsFunc(loaded.Config.Clusters, func(c config.Cluster) bool { return c.Drain })
}

// lead has the members know that this process is about to write; former is until when
// another may have, zero where none did since it wrote last. Those that begin anew are
// announced again once they are seen whole.
func (r *App) lead(former time.Time) {
	anew := r.set.Lead(former, r.standing)
	r.forgetMembers(anew)
	for _, name := range anew {
		r.logger.Warn("cluster is out of sight where this process begins to write: what stands of it stays until it is read anew", "cluster", name)
		r.memberChanged(name)
	}
}

// forgetMembers forgets whom the set has removed, so that a member that comes back is
// announced again. Nobody who looks at the set from now on sees them, and nobody who
// saw them before still has to note it.
func (r *App) forgetMembers(removed []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range removed {
		delete(r.announced, name)
	}
}

// lookOnceSettled makes every replica be looked at once although members are missing,
// as soon as none of them is about to be seen. Each that is seen brings its own
// replicas, and the last all of them: to look at all before would do the same work for
// nothing, while the lists are read.
func (r *App) lookOnceSettled(to *reconcile.Reconciler) {
	if r.looked.Load() {
		return
	}
	all := r.set.Conditions()
	missing := len(all) == 0
	for _, s := range all {
		if s.State == string(clusters.Connecting) || s.State == string(clusters.Syncing) {
			return
		}
		missing = missing || !s.Synced
	}
	if !r.looked.Swap(true) && missing {
		to.Resync("", "resync")
	}
}
