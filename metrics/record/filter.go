// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Query is what a reader of /debug/changes asks for. Zero fields pick everything.
type Query struct {
	Namespace, Service string
	// IP picks records that add, remove, ready or unready the address, on any
	// port, and those that a pod with that address caused.
	IP netip.Addr
	// Cluster picks records that the cluster caused.
	Cluster string
	// Follow leaves the answer open for records to come.
	Follow bool
}

// ParseQuery reads the query of /debug/changes: service (NAMESPACE/NAME),
// ip, cluster, follow. An error names the parameter.
func ParseQuery(values url.Values) (q Query, err error) {
	for param, texts := range values {
		value, ok := texts[0], true
		switch param {
		case "service":
			q.Namespace, q.Service, ok = strings.Cut(value, "/")
			ok = ok && q.Namespace != "" && q.Service != "" && !strings.Contains(q.Service, "/")
		case "ip":
			q.IP, err = netip.ParseAddr(value)
			q.IP, ok = q.IP.Unmap(), err == nil
		case "cluster":
			q.Cluster = value
		case "follow":
			q.Follow = value != "false"
		default:
			return q, fmt.Errorf("parameter %q is unknown; known are cluster, follow, ip, service", param)
		}
		if !ok {
			return q, fmt.Errorf("%s: %q is not %s", param, value, map[string]string{"service": "NAMESPACE/NAME", "ip": "an IP address"}[param])
		}
	}
	return q, nil
}

// Match reports whether the query picks the record.
func (q *Query) Match(r *Change) bool {
	return (q.Service == "" || r.Service == q.Service && r.Namespace == q.Namespace) &&
		(q.Cluster == "" || r.Cluster == q.Cluster) && (!q.IP.IsValid() || r.touches(q.IP))
}

func (r *Change) touches(ip netip.Addr) bool {
	text := ip.String()
	if r.Cause.IP == text {
		return true
	}
	for _, list := range [...][]string{r.Added, r.Removed, r.Readied, r.Unreadied} {
		if slices.ContainsFunc(list, func(s string) bool { return HostOf(s) == text }) {
			return true
		}
	}
	return false
}

// HostOf returns the address of "ip:port", "[ip]:port" or "ip".
func HostOf(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	return s
}
