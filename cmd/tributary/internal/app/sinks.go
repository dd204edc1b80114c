// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/reconcile/sinks/state"
	"tributary.dev/tributary/syncer"
)

// sinkDial is how long it may take to connect to a receiver.
const sinkDial = 5 * time.Second

// sinkSpecs are the sinks of a configuration file.
func sinkSpecs(file string, c *config.Config) []sinks.Spec {
	specs := make([]sinks.Spec, len(c.Sinks))
	for i, s := range c.Sinks {
		s = s.Resolved(file)
		identity, _ := json.Marshal(s) // of plain values
		specs[i] = sinks.Spec{
			Name: s.Name, URL: s.URL, Auth: SinkAuth(&s), Selects: s.Selects(), Changes: s.Window.Value(), Removals: s.RemovalWindow.Value(),
			Rate: s.MaxRequestsPerSecond, MaxServices: s.MaxServicesPerRequest, Timeout: s.Timeout.Value(), Config: string(identity),
		}
	}
	return specs
}

// SinkAuth is how the requests of a sink prove who sends them.
func SinkAuth(s *config.Sink) sinks.Auth {
	return sinks.Auth{BearerTokenFile: s.Auth.BearerTokenFile, CertFile: s.Auth.TLS.CertFile, KeyFile: s.Auth.TLS.KeyFile,
		CAFile: s.Auth.TLS.CAFile, ServerName: s.Auth.TLS.ServerName}
}

// tellSinks tells what is outside of Kubernetes while a session leads.
func (r *App) tellSinks(ctx context.Context, session *ingressSession) {
	c := &r.running().Config
	dialer := &net.Dialer{Timeout: sinkDial}
	r.sinks.Run(ctx, sinks.Term{
		Where: state.Where{Client: session.write.Clientset(), Namespace: c.OwnNamespace(), Instance: c.Instance},
		Hold:  session.permit.Hold, Dial: session.permit.Dial(dialer.DialContext),
		Look: func(key syncer.Key) {
			session.reconciler.Dirty(key, lanes.Bulk, record.Cause{Kind: "Service", Namespace: key.Namespace, Name: key.Name, Event: "resync", Arrival: time.Now()})
		},
	})
}
