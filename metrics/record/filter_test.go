// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	record := burst()
	for _, test := range []struct {
		query string
		match bool
	}{
		{"", true},
		{"service=shop/web", true},
		{"service=shop/we", false},
		{"service=other/web", false},
		{"ip=10.2.3.4", true},  // added
		{"ip=10.2.3.5", true},  // removed
		{"ip=10.2.3.6", true},  // readied
		{"ip=10.2.3.7", true},  // unreadied
		{"ip=10.2.3.8", false}, // not there
		{"ip=fd00::4", true},
		{"ip=fd00:0:0::4", true},
		{"ip=::ffff:10.2.3.4", true},
		{"ip=fd00::5", false},
		{"cluster=idc-a", true},
		{"cluster=idc-b", false},
		{"cluster=idc", false},
		{"service=shop/web&ip=10.2.3.4&cluster=idc-a", true},
		{"service=shop/web&ip=10.2.3.8", false},
	} {
		values, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		query, err := ParseQuery(values)
		if err != nil {
			t.Errorf("%s: %v", test.query, err)
		} else if got := query.Match(&record); got != test.match {
			t.Errorf("%s: match = %v", test.query, got)
		}
	}
}

func TestFollowNeedsNoValue(t *testing.T) {
	for query, want := range map[string]bool{"": false, "follow": true, "follow=": true, "follow=1": true, "follow=false": false} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := ParseQuery(values); err != nil || q.Follow != want {
			t.Errorf("%q: follow = %v, %v", query, q.Follow, err)
		}
	}
}

func TestFilterIPOfCauseOnly(t *testing.T) {
	record := written()
	record.Removed = nil
	filter := Query{IP: netip.MustParseAddr("10.2.3.4")}
	if !filter.Match(&record) {
		t.Error("a change that the address's pod caused is part of its story")
	}
}

func TestParseQueryNamesTheParameter(t *testing.T) {
	for query, want := range map[string]string{
		"service=web":    `service: "web" is not NAMESPACE/NAME`,
		"service=a/b/c":  `service: "a/b/c" is not NAMESPACE/NAME`,
		"service=/web":   `service: "/web" is not NAMESPACE/NAME`,
		"ip=10.2.3":      `ip: "10.2.3" is not an IP address`,
		"ip=10.2.3.4:80": `ip: "10.2.3.4:80" is not an IP address`,
		"ip=":            `ip: "" is not an IP address`,
		"namespace=x":    `parameter "namespace" is unknown; known are`,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = ParseQuery(values); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", query, err, want)
		}
	}
}

func TestHostOf(t *testing.T) {
	for entry, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "10.0.0.1": "10.0.0.1", "[fd00::1]:80": "fd00::1", "fd00::1": "fd00::1", "": "", "[": "[",
	} {
		if got := HostOf(entry); got != want {
			t.Errorf("HostOf(%q) = %q; want %q", entry, got, want)
		}
	}
}

func FuzzParseQuery(f *testing.F) {
	f.Add("service=a/b&ip=::1&follow=1&cluster=x")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		query, err := ParseQuery(values)
		if err != nil {
			return
		}
		record := burst()
		query.Match(&record)
	})
}
