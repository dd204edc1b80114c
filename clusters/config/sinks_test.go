// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

func TestFaultsOfSinks(t *testing.T) {
	for _, test := range []struct {
		name, sinks string
		want        []string
	}{
		{"what must be given", "[{}]", []string{
			`sinks[0].name: must be given; choose a short name, such as slb`,
			`sinks[0].url: must be given; write it as https://slb.example.com/v1/members`,
		}},
		{"names", "[{name: A_b, url: 'https://x'}, {name: b, url: 'https://x'}, {name: b, url: 'https://x'}]", []string{
			`sinks[0].name: "A_b" is not a DNS label; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit`,
			`sinks[2].name: "b" repeats sinks[1].name; give each sink its own name`,
		}},
		{"a misspelt field", "[{name: a, url: 'https://x', windw: 1s}]", []string{`sinks[0].windw: unknown field; did you mean "window"?`}},
		{"type", "[{name: a, type: http, url: 'https://x'}]", []string{`sinks[0].type: "http" is not known; use one of HTTP`}},
		{"URLs", "[{name: a, url: slb.example.com}, {name: b, url: 'https://me:secret@x/'}, {name: c, url: 'https://x/#y'}, {name: d, url: 'ftp://x'}, {name: e, url: 'https://x:99999/'}, {name: f, url: 'https://x:0/'}, {name: g, url: 'https://x:65535/'}]", []string{
			`sinks[0].url: is not a URL of https or http; write it as https://slb.example.com/v1/members`,
			`sinks[1].url: holds credentials; take them out, and use sinks[1].auth`,
			`sinks[2].url: holds a fragment, which is never sent; leave out what follows the #`,
			`sinks[3].url: is not a URL of https or http; write it as https://slb.example.com/v1/members`,
			`sinks[4].url: names a port that is not from 1 to 65535; write it as https://slb.example.com/v1/members`,
			`sinks[5].url: names a port that is not from 1 to 65535; write it as https://slb.example.com/v1/members`,
		}},
		{"secrets in the clear", "[{name: a, url: 'http://x', auth: {bearerTokenFile: t}}, {name: b, url: 'http://127.0.0.1:1', auth: {bearerTokenFile: t}}, {name: c, url: 'http://x', auth: {tls: {caFile: c}}}]", []string{
			`sinks[0].auth.bearerTokenFile: would send the token in the clear; write sinks[0].url with https://`,
			`sinks[2].auth.tls: has no meaning for http://; write sinks[2].url with https://, or leave it out`,
		}},
		{"half a certificate", "[{name: a, url: 'https://x', auth: {tls: {keyFile: k}}}]", []string{
			`sinks[0].auth.tls: has only one of certFile and keyFile; give both, or neither`,
		}},
		{"selection", "[{name: a, url: 'https://x', namespaces: [], serviceSelector: 'a=='}, {name: b, url: 'https://x', namespaces: ['A']}]", []string{
			`sinks[0].namespaces: is empty: nothing would be told; write ["*"] for every namespace, or leave the field out`,
			`sinks[1].namespaces[0]: "A" cannot match any namespace; use lower-case letters, digits, '-', and the wildcards * and ?`,
		}},
		{"bounds", "[{name: a, url: 'https://x', window: 2h, removalWindow: -1s, maxRequestsPerSecond: 0, maxServicesPerRequest: 1001, timeout: 1ms}]", []string{
			`sinks[0].window: "2h" is more than an hour; use at most 1h`,
			`sinks[0].removalWindow: "-1s" is not a length of time; write a number with its unit, such as 30s, 5m or 1h30m`,
			`sinks[0].maxRequestsPerSecond: 0 is out of range; use 0.001 to 1000`,
			`sinks[0].maxServicesPerRequest: 1001 is out of range; use 1 to 1000`,
			`sinks[0].timeout: "1ms" is out of range; use 100ms to 5m`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("tributary.yaml", []byte(header+"clusters: []\nsinks: "+test.sinks+"\n"))
			if err == nil {
				t.Fatal("no fault")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("a secret is repeated: %v", err)
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "tributary.yaml:4:") {
					t.Errorf("without its place: %s", line)
				}
			}
			got := place.ReplaceAllString(err.Error(), ": ")
			if want := "tributary.yaml: " + strings.Join(test.want, "\ntributary.yaml: "); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestSinkSelects(t *testing.T) {
	s := mustParse(t, header+"clusters: []\nsinks: [{name: a, url: 'https://x', namespaces: [shop, pay-*], serviceSelector: tier=web}]\n").Sinks[0]
	selects := s.Selects()
	web := map[string]string{"tier": "web"}
	for _, test := range []struct {
		namespace string
		labels    map[string]string
		want      bool
	}{{"shop", web, true}, {"pay-a", web, true}, {"pay", web, false}, {"shop", nil, false}, {"shop", map[string]string{"tier": "db"}, false}} {
		if got := selects(syncer.Key{Namespace: test.namespace, Name: "x"}, test.labels); got != test.want {
			t.Errorf("%v: %v", test, got)
		}
	}
}

func TestPathsOfSinksStartAtTheFile(t *testing.T) {
	s := Sink{Auth: SinkAuth{BearerTokenFile: "t", TLS: SinkTLS{CAFile: "/abs/ca"}}}
	got := s.Resolved("/etc/tributary/config.yaml").Auth
	if want := (SinkAuth{BearerTokenFile: "/etc/tributary/t", TLS: SinkTLS{CAFile: "/abs/ca"}}); got != want || s.Auth.BearerTokenFile != "t" {
		t.Errorf("got %+v, of %+v", got, s.Auth)
	}
}

func TestDiffOfSinks(t *testing.T) {
	a := mustParse(t, header+"clusters: []\nsinks: [{name: a, url: 'https://x'}]\n")
	b := mustParse(t, header+"clusters: []\nsinks: [{name: a, url: 'https://x', window: 3s}]\n")
	if got := Compare(&Loaded{Config: a}, &Loaded{Config: b}); !reflect.DeepEqual(got, Diff{Sinks: true}) {
		t.Errorf("%+v", got)
	}
}
