// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/syncer"
)

// settingsOf are what a configuration says to the reconciler.
func settingsOf(c *config.Config) *reconcile.Settings {
	return &reconcile.Settings{
		MayWrite: c.MayWrite,
		Settings: plan.Settings{
			Instance: c.Instance, WriteEndpoints: c.Replicas.WritesEndpoints(), CreateNamespaces: c.Replicas.CreateNamespaces,
			DropOrphans: c.Replicas.Orphans == config.OrphansDelete,
			CopyLabel:   c.Replicas.CopiesLabel, CopyAnnotation: c.Replicas.CopiesAnnotation,
		},
	}
}

// Shares implements reconcile.Source: the App shows the members and the configuration to the reconciler.
func (a *App) Shares(replica syncer.Key) []syncer.Share {
	shares, replicas := a.set.Give(replica), &a.running().Config.Replicas
	for i := range shares {
		shares[i].Place = replicas.Place(replica.Namespace, shares[i].Member)
	}
	return shares
}

// Settings implements reconcile.Source.
func (a *App) Settings() *reconcile.Settings { return a.settings.Load() }

// Replicas implements reconcile.Source.
func (a *App) Replicas() []syncer.Key { return a.set.Replicas() }

// AllListed implements reconcile.Source.
func (a *App) AllListed() bool { return !a.running().SecretsUnread && a.set.AllListed() }

// dirty hands what a member reports to the reconciler.
func (a *App) dirty(name string, changes []member.Change, bulk bool) {
	for i := range changes {
		c := &changes[i]
		a.reconciler.Step(func(core *reconcile.Core, now time.Time) {
			core.Add(now, c.Replica, c.Effect, bulk, causeOf(name, c.Cause))
		})
	}
}

func causeOf(name string, c *member.Cause) record.Cause {
	return record.Cause{
		Cluster: name, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, UID: c.UID, Event: c.Event, State: c.State, IP: c.IP,
		SourceTime: c.SourceTime, Arrival: c.Arrived, Live: c.Live,
	}
}

// published is what the ingress cluster has of a member, for its start.
func (a *App) published(ctx context.Context, name string) member.Published {
	if a.reconciler.Cache.WaitForSync(ctx) != nil {
		return nil // ctx has ended
	}
	replicas := &a.running().Config.Replicas
	return a.reconciler.Cache.Published(name, func(namespace string) int { return replicas.Place(namespace, name) })
}

// compareAll has every replica compared.
func (a *App) compareAll(event string) {
	a.reconciler.Step(func(c *reconcile.Core, now time.Time) { c.AddAll(now, event) })
}

// onceListed has every replica compared each time that all members have been listed: orphans may
// be dropped then, and it is known which replicas no member has.
func (a *App) onceListed() {
	if a.AllListed() {
		a.compareAll(record.EventListed)
	}
}

// sinkSpecs are the sinks of a configuration.
func sinkSpecs(c *config.Config) []sinks.Spec {
	specs := make([]sinks.Spec, len(c.Sinks))
	for i := range c.Sinks {
		s := &c.Sinks[i]
		identity, _ := json.Marshal(s) // of plain values
		specs[i] = sinks.Spec{
			Name: s.Name, URL: s.URL, Auth: SinkAuth(s), Selects: s.Selects(), Window: s.Window.Value(), RemovalWindow: s.RemovalWindow.Value(),
			Rate: s.MaxRequestsPerSecond, Config: string(identity),
		}
	}
	return specs
}

// SinkAuth is how the requests of a sink prove who sends them.
func SinkAuth(s *config.Sink) sinks.Auth {
	return sinks.Auth{BearerTokenFile: s.Auth.BearerTokenFile, CertFile: s.Auth.TLS.CertFile, KeyFile: s.Auth.TLS.KeyFile, CAFile: s.Auth.TLS.CAFile}
}
