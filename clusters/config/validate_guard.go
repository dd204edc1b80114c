// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// trust checks what says how far a member is believed.
func (k *checker) trust(at string, c *Cluster) {
	k.guard(at+".guard", &c.Guard)
	k.readiness(at+".readiness", cmp.Or(c.Readiness.StableFor, "0s"), c.Readiness.Namespaces)
	k.duration(at+".holdSilentNodes", c.HoldSilentNodes)
	k.duration(at+".staleAfter", c.StaleAfter)
	k.duration(at+".nativeTolerance", c.NativeTolerance)
	if c.MaxObjects < 0 {
		k.fault(at+".maxObjects", "must not be negative", "write 0 for no limit")
	}
}

func (k *checker) guard(at string, g *Guard) {
	if g.MinEndpoints < 0 {
		k.fault(at+".minEndpoints", "must not be negative", "write 0 to judge by percent alone")
	}
	for _, p := range []struct {
		field string
		value int
	}{{"percent", g.Percent}, {"confirmPercent", g.ConfirmPercent}, {"panicPercent", g.PanicPercent}} {
		if p.value < 0 || p.value > 100 {
			k.fault(at+"."+p.field, fmt.Sprintf("%d is not a share of 100", p.value), "use 0 to 100")
		}
	}
	if g.ConfirmPercent < g.Percent {
		k.fault(at+".confirmPercent", "is less than "+at+".percent", "use at least that")
	}
	if g.PanicPercent == 0 {
		k.fault(at+".panicPercent", "is 0: every pod that turns not ready would be a mass event", "use 1 to 99, or 100 for never")
	}
	const longest = 10 * time.Minute
	if k.duration(at+".confirmAfter", g.ConfirmAfter) && (g.ConfirmAfter.Value() < time.Second || g.ConfirmAfter.Value() > longest) {
		k.fault(at+".confirmAfter", fmt.Sprintf("%q is out of range", string(g.ConfirmAfter)), "use 1s to 10m")
	}
}

// duration reports whether the text is a length of time.
func (k *checker) duration(field string, d Duration) (valid bool) {
	v, err := time.ParseDuration(string(d))
	if err != nil || v < 0 {
		k.fault(field, fmt.Sprintf("%q is not a length of time", string(d)), "write a number with its unit, such as 30s, 5m or 1h30m")
		return false
	}
	return true
}

func (k *checker) leases(at string, l *Leases) { k.namespace(at+".namespace", l.Namespace) }

// namespace checks the name of a namespace that may be left out.
func (k *checker) namespace(field, name string) {
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		k.fault(field, fmt.Sprintf("%q is not the name of a namespace", strings.ToValidUTF8(name, "")), "use lower-case letters, digits and '-'")
	}
}

// The bounds of the durations of an election.
const (
	shortestRetry = 100 * time.Millisecond
	longestLease  = 10 * time.Minute
	// retryJitter is by how much client-go stretches a retry period.
	retryJitter = 1.2
)

func (k *checker) leaderElection(at string, l *LeaderElection) {
	k.namespace(at+".namespace", l.Namespace)
	// All three are looked at, whatever is wrong with the first.
	valid := k.duration(at+".leaseDuration", l.LeaseDuration)
	valid = k.duration(at+".renewDeadline", l.RenewDeadline) && valid
	valid = k.duration(at+".retryPeriod", l.RetryPeriod) && valid
	if !valid {
		return
	}
	lease, renew, retry := l.LeaseDuration.Value(), l.RenewDeadline.Value(), l.RetryPeriod.Value()
	if lease%time.Second != 0 || lease > longestLease {
		k.fault(at+".leaseDuration", fmt.Sprintf("%q is not a whole number of seconds of at most ten minutes", l.LeaseDuration), "write it as 10s")
	}
	if lease <= renew {
		k.fault(at+".leaseDuration", fmt.Sprintf("%q is not more than %s.renewDeadline", l.LeaseDuration, at), "leave time between the two: a leader must stop before its Lease can be taken")
	}
	if retry < shortestRetry {
		k.fault(at+".retryPeriod", fmt.Sprintf("%q is less than %s", l.RetryPeriod, shortestRetry), "write it as 2s")
	} else if float64(renew) <= retryJitter*float64(retry) {
		k.fault(at+".renewDeadline", fmt.Sprintf("%q is not more than 1.2 times %s.retryPeriod", l.RenewDeadline, at), "leave time for more than one attempt")
	}
}
