// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
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

// sinkStatuses are the sinks as the status shows them.
func sinkStatuses(of []sinks.Status, now time.Time) []metrics.SinkStatus {
	var out []metrics.SinkStatus
	for _, s := range of {
		one := metrics.SinkStatus{
			Name: s.Name, URL: withoutQuery(s.URL), State: "standby", Services: s.Services, Requests: s.Requests, Failures: s.Failures,
			LastAcknowledged: utc(s.LastAcknowledged), LastError: s.LastError, Unkept: s.Unkept,
		}
		if s.Telling {
			one.State, one.Pending, one.Refused = "live", s.Pending, s.Refused
			if !s.Oldest.IsZero() {
				one.LagSeconds = max(0, now.Sub(s.Oldest).Seconds())
			}
		}
		if s.Failing {
			one.State = "failing"
		}
		out = append(out, one)
	}
	return out
}

// withoutQuery leaves out of a URL what may be a secret.
func withoutQuery(text string) string {
	where, err := url.Parse(text)
	if err != nil {
		return ""
	}
	where.RawQuery, where.User, where.Fragment = "", nil, ""
	return where.String()
}
