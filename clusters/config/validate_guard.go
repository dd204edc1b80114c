// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// trust checks what says how far a member is believed.
func (k *checker) trust(at string, c *Cluster) {
	k.guard(at+".guard", &c.Guard)
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

func (k *checker) leases(at string, l *Leases) {
	if l.Namespace == "" {
		return
	}
	if faults := validation.IsDNS1123Label(l.Namespace); len(faults) > 0 {
		k.fault(at+".namespace", fmt.Sprintf("%q is not the name of a namespace", strings.ToValidUTF8(l.Namespace, "")), "use lower-case letters, digits and '-'")
	}
}
