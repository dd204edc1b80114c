// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter picks change records. Zero fields pick everything.
type Filter struct {
	Namespace, Service string
	// IP picks records that add, remove, ready or unready the address, on any
	// port, and those that a pod with that address caused.
	IP netip.Addr
	// Cluster picks records that the cluster caused.
	Cluster string
	// Since picks records that ended at that time or later.
	Since  time.Time
	Result Result
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
	// Limit is the number of records wanted, the newest ones; 0 means all.
	Limit int
}

// ParseChangesQuery reads the query of /debug/changes: service (NAMESPACE/NAME),
// ip, cluster, since (a duration back from now, or a time in RFC 3339), result,
// follow, limit. Errors are of type *ParamError.
func ParseChangesQuery(values url.Values, now time.Time) (q ChangesQuery, err error) {
	for param, given := range values {
		if len(given) != 1 {
			return q, &ParamError{param, "given more than once"}
		}
		if err := q.read(param, given[0], now); err != nil {
			return q, &ParamError{param, err.Error()}
		}
	}
	return q, nil
}

// read reads one parameter.
func (q *ChangesQuery) read(param, value string, now time.Time) (err error) {
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
	case "since":
		q.Since, err = parseSince(value, now)
		return err
	case "result":
		if q.Result = Result(value); !slices.Contains(Results(), q.Result) {
			return fmt.Errorf("%q is not a result; results are %v", value, Results())
		}
	case "follow":
		if q.Follow, err = strconv.ParseBool(cmp.Or(value, "true")); err != nil { // named is asked for
			return fmt.Errorf("%q is neither true nor false", value)
		}
	case "limit":
		if q.Limit, err = strconv.Atoi(value); err != nil || q.Limit < 1 {
			return fmt.Errorf("%q is not a number of records, 1 or more", value)
		}
	default:
		return errors.New("unknown; known are cluster, follow, ip, limit, result, service, since")
	}
	return nil
}

// parseSince reads a point in time: a duration back from now such as 10m, or a
// time in RFC 3339.
func parseSince(value string, now time.Time) (time.Time, error) {
	if back, err := time.ParseDuration(value); err == nil {
		if back < 0 {
			return time.Time{}, fmt.Errorf("%q lies in the future; give a duration back from now, such as 10m", value)
		}
		return now.Add(-back), nil
	}
	// The plus of a time zone that was not escaped in a URL arrives as a space.
	at, err := time.Parse(time.RFC3339, strings.ReplaceAll(value, " ", "+"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a duration such as 10m nor a time such as 2026-01-02T15:04:05Z", value)
	}
	return at, nil
}

// Match reports whether the filter picks the record.
func (f *Filter) Match(r *Change) bool {
	switch {
	case f.Service != "" && (r.Service != f.Service || r.Namespace != f.Namespace),
		f.Result != "" && r.Result != f.Result,
		!f.Since.IsZero() && r.Time.Before(f.Since),
		f.Cluster != "" && r.Cluster != f.Cluster:
		return false
	}
	return !f.IP.IsValid() || r.touches(f.IP)
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

// HostOf returns the address of "ip:port", "[ip]:port" or "ip". A bare IPv6
// address is one that has more than one colon and no bracket.
func HostOf(s string) string {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, rest, _ := strings.Cut(s, ":")
	if strings.Contains(rest, ":") {
		return s
	}
	return host
}
