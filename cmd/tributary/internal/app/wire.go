// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// source shows the members and the configuration to the reconciler: it implements
// reconcile.Source.
type source struct {
	set *clusters.Set
	// first is the configuration until one is applied.
	first *config.Loaded
	// compiled are the settings of the configuration that was asked for last.
	compiled atomic.Pointer[compiledSettings]
}

type compiledSettings struct {
	of *config.Loaded
	reconcile.Settings
}

// Gather implements reconcile.Source.
func (s *source) Gather(replica syncer.Key) reconcile.Snapshot {
	snapshot, commit := s.set.Gather(replica)
	return s.snapshot(snapshot, commit)
}

// Peek implements reconcile.Source.
func (s *source) Peek(replica syncer.Key) reconcile.Snapshot {
	return s.snapshot(s.set.Peek(replica), nil)
}

// Settings implements reconcile.Source.
func (s *source) Settings() *reconcile.Settings { return s.settings(s.set.Loaded()) }

func (s *source) settings(of *config.Loaded) *reconcile.Settings {
	if of == nil {
		of = s.first
	}
	c := s.compiled.Load()
	if c == nil || c.of != of {
		c = &compiledSettings{of, settings(&of.Config)}
		s.compiled.Store(c)
	}
	return &c.Settings
}

func (s *source) snapshot(of clusters.Snapshot, commit func()) reconcile.Snapshot {
	g := reconcile.Snapshot{Settings: s.settings(of.Loaded), Members: memberStates(of.Members), Gone: of.Gone, Commit: commit}
	for _, share := range of.Shares {
		if share.Pending || share.Unseen {
			g.Unseen = append(g.Unseen, share.Cluster)
			if len(share.Gone) > 0 {
				if g.Gone == nil {
					g.Gone = map[string][]netip.Addr{}
				}
				g.Gone[share.Cluster] = share.Gone
			}
			continue
		}
		g.Contributions = append(g.Contributions, plan.Contribution{
			Cluster: share.Cluster, Source: share.Source, Contribution: share.Contribution,
		})
	}
	return g
}

// Replicas implements reconcile.Source.
func (s *source) Replicas() iter.Seq[syncer.Key] { return slices.Values(s.set.Replicas()) }

// Members implements reconcile.Source.
func (s *source) Members() []reconcile.MemberState { return memberStates(s.set.Members()) }

func memberStates(members []clusters.MemberState) []reconcile.MemberState {
	out := make([]reconcile.MemberState, len(members))
	for i, m := range members {
		out[i] = reconcile.MemberState(m)
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
func (s *sink) Dirty(_ string, dirty []store.Dirty, cause record.Cause, bulk bool) {
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
	return reconcile.Settings{
		MayWrite:      c.Ingress.MayWrite(c.OwnNamespace()),
		DeleteRemoved: c.Replicas.Orphans == config.OrphansDelete,
		Settings: plan.Settings{
			Instance:             c.Instance,
			WriteEndpoints:       slices.Contains(c.Replicas.Write, config.WriteEndpoints),
			WriteSlices:          slices.Contains(c.Replicas.Write, config.WriteEndpointSlices),
			CreateNamespaces:     c.Replicas.CreateNamespaces,
			MaxEndpointsPerSlice: c.Replicas.MaxEndpointsPerSlice,
			Policy:               c.Policy(),
			PassLabel:            c.Replicas.Labels.Matcher(),
			PassAnnotation:       c.Replicas.Annotations.Matcher(),
		},
	}
}

// annotationFilter says which annotations of sources are kept in memory: those that replicas
// take over. It follows the configuration.
type annotationFilter struct {
	pass atomic.Pointer[func(string) bool]
}

func (k *annotationFilter) set(c *config.Config) {
	pass := settings(c).PassAnnotation
	k.pass.Store(&pass)
}

func (k *annotationFilter) keeps(annotation string) bool {
	return !plan.ReservedAnnotation(annotation) && (*k.pass.Load())(annotation)
}

// setOptions are what all members share.
func setOptions(to *sink, keep func(string) bool, m *metrics.Metrics, logger *slog.Logger, changed func(string)) clusters.Options {
	return clusters.Options{
		Sink:       to,
		Keep:       keep,
		Observer:   m,
		Heartbeats: m.Heartbeats(),
		Wrap: func(cluster string) func(next roundTripper) roundTripper {
			return m.Transport(metrics.RoleMember, cluster)
		},
		NativeLag: m.NativeLag,
		NativeEnd: m.NativeEnd,
		Changed:   changed,
		Logger:    logger,
	}
}
