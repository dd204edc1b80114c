// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Role tells the clients of members from those of the ingress cluster.
type Role string

// The roles of API servers.
const (
	RoleMember  Role = "member"
	RoleIngress Role = "ingress"
)

// Transport returns a wrapper for rest.Config.Wrap that counts the requests of
// one API server and times them until the answer begins. cluster is empty for
// the ingress cluster.
func (m *Metrics) Transport(role Role, cluster string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return &transport{m: m, role: string(role), cluster: cluster, next: next}
	}
}

type transport struct {
	m             *Metrics
	role, cluster string
	next          http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := t.next.RoundTrip(req)
	took := time.Since(start)
	if !t.m.known(t.cluster) {
		return resp, err
	}
	verb, code := verbOf(req), "error"
	if err == nil {
		code = codeOf(resp.StatusCode)
	}
	t.m.requests.WithLabelValues(t.role, t.cluster, verb, code).Inc()
	t.m.requestTook.WithLabelValues(t.role, t.cluster, verb).Observe(took.Seconds())
	return resp, err
}

// WrappedRoundTripper lets client-go reach the transport below, which it does
// to close idle connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// verbOf names a request as the Kubernetes API does, closely enough for a
// graph: a GET of a collection is a list, with watch=… a watch.
func verbOf(req *http.Request) string {
	switch req.Method {
	case http.MethodGet:
		query := req.URL.Query()
		switch watch := query.Get("watch"); {
		case watch == "true" || watch == "1":
			return "watch"
		case isCollection(req.URL.Path):
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return "other"
}

// isCollection reports whether a path names all objects of a resource:
// /api/v1/pods, /api/v1/namespaces/x/pods, /apis/group/version/resource.
func isCollection(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return len(parts) == 1
}

// codeOf bounds what a server can make of the label.
func codeOf(status int) string {
	if http.StatusText(status) == "" {
		return "other"
	}
	return strconv.Itoa(status)
}
