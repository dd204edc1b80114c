// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// source shows the members to the reconciler: it implements reconcile.Source.
type source struct{ set *clusters.Set }

// Gather implements reconcile.Source.
func (s source) Gather(replica syncer.Key) reconcile.Gathered {
	shares, commit := s.set.Gather(replica)
	return gathered(shares, commit)
}

// Peek implements reconcile.Source.
func (s source) Peek(replica syncer.Key) reconcile.Gathered {
	return gathered(s.set.Peek(replica), nil)
}

func gathered(shares []clusters.Share, commit func()) reconcile.Gathered {
	g := reconcile.Gathered{Commit: commit}
	for _, share := range shares {
		if share.Pending {
			g.Unseen = append(g.Unseen, share.Cluster)
			continue
		}
		g.Contributions = append(g.Contributions, plan.Contribution{
			Cluster: share.Cluster, Source: share.Source, Contribution: share.Contribution,
		})
	}
	return g
}

// Replicas implements reconcile.Source.
func (s source) Replicas() iter.Seq[syncer.Key] { return slices.Values(s.set.Replicas()) }

// Members implements reconcile.Source.
func (s source) Members() []reconcile.MemberState {
	members := s.set.Members()
	out := make([]reconcile.MemberState, len(members))
	for i, m := range members {
		out[i] = reconcile.MemberState{Name: m.Name, Synced: m.Synced}
	}
	return out
}

// sink hands what the members report to the reconciler of the moment: it
// implements clusters.Sink. Without one (the ingress cluster was not reached
// yet) reports are dropped, since each new reconciler looks at everything.
type sink struct {
	to atomic.Pointer[reconcile.Reconciler]
}

// Dirty implements clusters.Sink.
func (s *sink) Dirty(_ string, dirty []store.Dirty, cause metrics.Cause, bulk bool) {
	to := s.to.Load()
	if to == nil {
		return
	}
	for _, d := range dirty {
		to.Dirty(d.Replica, lane(d.Effect, bulk), cause)
	}
}

func lane(effect syncer.Effect, bulk bool) lanes.Lane {
	switch {
	case bulk:
		return lanes.Bulk
	case effect == syncer.Removal:
		return lanes.Removal
	default:
		return lanes.Addition
	}
}

// settings are what the configuration says about writing.
func settings(c *config.Config) reconcile.Settings {
	return reconcile.Settings{Settings: plan.Settings{
		WriteEndpoints:       slices.Contains(c.Replicas.Write, config.WriteEndpoints),
		WriteSlices:          slices.Contains(c.Replicas.Write, config.WriteEndpointSlices),
		CreateNamespaces:     c.Replicas.CreateNamespaces,
		MaxEndpointsPerSlice: c.Replicas.MaxEndpointsPerSlice,
	}}
}

// setOptions are what all members share.
func setOptions(to *sink, m *metrics.Metrics, logger *slog.Logger, changed func(string)) clusters.Options {
	return clusters.Options{
		Sink:     to,
		Observer: m,
		Wrap: func(cluster string) func(next roundTripper) roundTripper {
			return m.Transport(metrics.RoleMember, cluster)
		},
		NativeLag: m.NativeLag,
		Changed:   changed,
		Version:   readBuildVersion().Version,
		Logger:    logger,
	}
}
