// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Filter picks change records. Zero fields pick everything.
type Filter struct {
	Namespace, Service string
	// IP picks records that add, remove, ready or unready the address, on any
	// port, and those that a pod with that address caused.
	IP netip.Addr
	// Cluster picks records that the cluster caused.
	Cluster string
}

// ParamError is a query parameter that cannot be understood.
type ParamError struct {
	// Param is the parameter's name.
	Param string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error names the parameter first.
func (e *ParamError) Error() string { return fmt.Sprintf("parameter %q: %s", e.Param, e.Problem) }

// ChangesQuery is what a reader of /debug/changes asks for.
type ChangesQuery struct {
	Filter
	// Follow keeps the answer open for records to come.
	Follow bool
}

// ParseChangesQuery reads the query of /debug/changes: service (NAMESPACE/NAME),
// ip, cluster, follow. Errors are of type *ParamError.
func ParseChangesQuery(values url.Values) (q ChangesQuery, err error) {
	for param, given := range values {
		if len(given) != 1 {
			return q, &ParamError{param, "given more than once"}
		}
		if err := q.read(param, given[0]); err != nil {
			return q, &ParamError{param, err.Error()}
		}
	}
	return q, nil
}

// read reads one parameter.
func (q *ChangesQuery) read(param, value string) (err error) {
	switch param {
	case "service":
		var found bool
		if q.Namespace, q.Service, found = strings.Cut(value, "/"); !found || q.Namespace == "" || q.Service == "" || strings.Contains(q.Service, "/") {
			return fmt.Errorf("%q is not NAMESPACE/NAME", value)
		}
	case "ip":
		if q.IP, err = netip.ParseAddr(value); err != nil {
			return fmt.Errorf("%q is not an IP address", value)
		}
		q.IP = q.IP.Unmap()
	case "cluster":
		q.Cluster = value
	case "follow":
		if q.Follow, err = strconv.ParseBool(cmp.Or(value, "true")); err != nil { // named is asked for
			return fmt.Errorf("%q is neither true nor false", value)
		}
	default:
		return errors.New("unknown; known are cluster, follow, ip, service")
	}
	return nil
}

// Match reports whether the filter picks the record.
func (f *Filter) Match(r *Change) bool {
	return (f.Service == "" || r.Service == f.Service && r.Namespace == f.Namespace) &&
		(f.Cluster == "" || r.Cluster == f.Cluster) && (!f.IP.IsValid() || r.touches(f.IP))
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
