// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Role tells the clients of members from those of the ingress cluster.
type Role string

// The roles of API servers.
const (
	RoleMember  Role = "member"
	RoleIngress Role = "ingress"
)

// Transport returns a wrapper for rest.Config.Wrap that counts the answers of one API server
// and times them until they begin. cluster is empty for the ingress cluster.
func (m *Metrics) Transport(role Role, cluster string) func(http.RoundTripper) http.RoundTripper {
	of := prometheus.Labels{"role": string(role), "member_cluster": cluster}
	return func(next http.RoundTripper) http.RoundTripper {
		timed := promhttp.InstrumentRoundTripperDuration(m.requestTook.MustCurryWith(of), next)
		return transport{promhttp.InstrumentRoundTripperCounter(m.requests.MustCurryWith(of), timed), next}
	}
}

type transport struct {
	http.RoundTripper
	next http.RoundTripper
}

// WrappedRoundTripper lets client-go reach the transport below, which it does to close idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
