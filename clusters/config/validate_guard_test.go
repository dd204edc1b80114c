// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTrustIsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"numbers out of range": {one("guard: {minEndpoints: -1, percent: 101, confirmPercent: -2, panicPercent: 0}", "maxObjects: -1"), []string{
			`clusters[0].guard.minEndpoints: must not be negative; write 0 to judge by percent alone`,
			`clusters[0].guard.percent: 101 is not a share of 100; use 0 to 100`,
			`clusters[0].guard.confirmPercent: -2 is not a share of 100; use 0 to 100`,
			`clusters[0].guard.confirmPercent: is less than clusters[0].guard.percent; use at least that`,
			`clusters[0].guard.panicPercent: is 0: every pod that turns not ready would be a mass event; use 1 to 99, or 100 for never`,
			`clusters[0].maxObjects: must not be negative; write 0 for no limit`,
		}},
		"times": {one("guard: {confirmAfter: 100ms}", "staleAfter: soon", "holdSilentNodes: -5s"), []string{
			`clusters[0].guard.confirmAfter: "100ms" is out of range; use 1s to 10m`,
			`clusters[0].holdSilentNodes: "-5s" is not a length of time; write a number with its unit, such as 30s, 5m or 1h30m`,
			`clusters[0].staleAfter: "soon" is not a length of time; write a number with its unit, such as 30s, 5m or 1h30m`,
		}},
		"a time without unit": {one("guard: {confirmAfter: 5}"), []string{`clusters[0].guard.confirmAfter: must be text; put it in quotes`}},
		"namespace of leases": {one() + "leases: {namespace: Own_}\n", []string{
			`leases.namespace: "Own_" is not the name of a namespace; use lower-case letters, digits and '-'`,
		}},
		"durations of an election": {one() + "leaderElection: {leaseDuration: 1500ms, renewDeadline: 1500ms, retryPeriod: 2s, namespace: Own_}\n", []string{
			`leaderElection.namespace: "Own_" is not the name of a namespace; use lower-case letters, digits and '-'`,
			`leaderElection.leaseDuration: "1500ms" is not a whole number of seconds of at most ten minutes; write it as 10s`,
			`leaderElection.leaseDuration: "1500ms" is not more than leaderElection.renewDeadline; leave time between the two: a leader must stop before its Lease can be taken`,
			`leaderElection.renewDeadline: "1500ms" is not more than 1.2 times leaderElection.retryPeriod; leave time for more than one attempt`,
		}},
		"election times": {one() + "leaderElection: {leaseDuration: soon, renewDeadline: 1h, retryPeriod: 1ms}\n", []string{
			`leaderElection.leaseDuration: "soon" is not a length of time; write a number with its unit, such as 30s, 5m or 1h30m`,
		}},
		"election at a rush": {one() + "leaderElection: {retryPeriod: 1ms}\n", []string{
			`leaderElection.retryPeriod: "1ms" is less than 100ms; write it as 2s`,
		}},
	} {
		_, err := Parse("f", []byte(c.text))
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		got := strings.Split(strings.ReplaceAll(place.ReplaceAllString(err.Error(), ": "), "f: ", ""), "\n")
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[Duration]time.Duration{"0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "": 0, "x": 0} {
		if got := text.Value(); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
