// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"tributary.dev/tributary/syncer"
)

// SinkType is how a sink is told.
type SinkType string

// SinkHTTP: by POST, a JSON batch in the CloudEvents 1.0 format.
const SinkHTTP SinkType = "HTTP"

// Sink is a receiver outside of Kubernetes, such as a load balancer's API, that is told
// what replicas are. See docs/sinks.md.
type Sink struct {
	// Name identifies the sink in metrics, logs and in what is kept of it. It is a DNS
	// label and unique. A new name is a new sink, which is told everything.
	Name string `json:"name"`
	// Type is how it is told: `HTTP`.
	Type SinkType `json:"type"`
	// URL is where requests are posted to: `https://` or `http://`. Credentials belong
	// into `auth`. With another URL the sink is told everything anew.
	URL string `json:"url"`
	// Auth says how requests prove who sends them.
	Auth SinkAuth `json:"auth"`
	// Namespaces are names or globs of namespaces of the ingress cluster: the replicas in
	// them are told. It may not be empty.
	Namespaces []string `json:"namespaces"`
	// ServiceSelector is a label selector that replicas must match, by the labels of the
	// replica's Service. Empty selects every replica.
	ServiceSelector string `json:"serviceSelector"`
	// Window is for how long changes of a Service are gathered, from the first of them.
	// Removals have a window of their own. What is back as it was by then is not told.
	Window Duration `json:"window"`
	// RemovalWindow is that of an address that goes, or turns not ready. For as long it
	// is told as it was, and not at all if it returns. `0s` tells it at once; what
	// came waits for its window, unless less than half would be left.
	RemovalWindow Duration `json:"removalWindow"`
	// MaxRequestsPerSecond is how many requests may begin in a second. Less than one
	// is possible: 0.2 is one in five seconds.
	MaxRequestsPerSecond float64 `json:"maxRequestsPerSecond"`
	// MaxServicesPerRequest is how many Services one request may tell of, 1 to 1000.
	MaxServicesPerRequest int `json:"maxServicesPerRequest"`
	// Timeout is how long one request may take until its answer, at most `5m`.
	Timeout Duration `json:"timeout"`
}

// SinkAuth says how requests prove who sends them, and whom they trust.
type SinkAuth struct {
	// BearerTokenFile is a file that holds a token, which is sent as
	// `Authorization: Bearer`. A relative path starts at the configuration file's
	// directory, as for the other files. It is read again for each request. It needs
	// `https://`, but on loopback.
	BearerTokenFile string `json:"bearerTokenFile"`
	// TLS is a client certificate, and which servers are trusted.
	TLS SinkTLS `json:"tls"`
}

// SinkTLS are files, read again for each request.
type SinkTLS struct {
	// CertFile and `keyFile` are a client certificate and its key, in PEM.
	CertFile string `json:"certFile"`
	// KeyFile is the key of `certFile`.
	KeyFile string `json:"keyFile"`
	// CAFile holds the authorities that the server's certificate must come from, in
	// PEM. Empty means those of the system.
	CAFile string `json:"caFile"`
	// ServerName is the name that the server's certificate must be for. Empty means the
	// host of `url`.
	ServerName string `json:"serverName"`
}

// Files are the files that the way to the sink is made of, by field; where none is
// given it is not among them.
func (a *SinkAuth) Files() map[string]*string {
	out := map[string]*string{}
	for field, path := range map[string]*string{
		"auth.bearerTokenFile": &a.BearerTokenFile, "auth.tls.certFile": &a.TLS.CertFile,
		"auth.tls.keyFile": &a.TLS.KeyFile, "auth.tls.caFile": &a.TLS.CAFile,
	} {
		if *path != "" {
			out[field] = path
		}
	}
	return out
}

// SetDefaults puts the defaults of a sink in place.
func (s *Sink) SetDefaults() {
	s.Type = SinkHTTP
	s.Namespaces = []string{"*"}
	s.Window, s.RemovalWindow, s.Timeout = "2s", "0s", "10s"
	s.MaxRequestsPerSecond, s.MaxServicesPerRequest = 5, 100
}

// Resolved is the sink with the paths of its files as they lead from the configuration
// file.
func (s Sink) Resolved(file string) Sink {
	for _, path := range s.Auth.Files() {
		*path = resolve(file, *path)
	}
	return s
}

// Selects returns which replicas the sink is told of. What it returns is pure and safe
// for concurrent use. The sink must be valid.
func (s *Sink) Selects() func(replica syncer.Key, of map[string]string) bool {
	globs := slices.Clone(s.Namespaces)
	selector, err := labels.Parse(s.ServiceSelector)
	if err != nil {
		selector = labels.Nothing()
	}
	return func(replica syncer.Key, of map[string]string) bool {
		return matchesAny(globs, replica.Namespace) && selector.Matches(labels.Set(of))
	}
}

// The bounds of a sink's fields.
const (
	maxSinkWindow   = time.Hour
	maxSinkTimeout  = 5 * time.Minute
	maxSinkRequests = 1000
	maxSinkServices = 1000
)

func (k *checker) sinks(at string, sinks []Sink) {
	for i := range sinks {
		k.sink(fmt.Sprintf("%s[%d]", at, i), &sinks[i])
	}
	unique(k, at, "sink", sinks, func(s Sink) string { return s.Name })
}

func (k *checker) sink(at string, s *Sink) {
	if s.Name == "" {
		k.fault(at+".name", "must be given", "choose a short name, such as slb")
	} else {
		k.label(at+".name", s.Name)
	}
	oneOf(k, at+".type", s.Type, []SinkType{SinkHTTP})
	k.sinkURL(at, s)
	if len(s.Namespaces) == 0 {
		k.fault(at+".namespaces", "is empty: nothing would be told", `write ["*"] for every namespace, or leave the field out`)
	}
	k.globs(at+".namespaces", s.Namespaces)
	k.selector(at+".serviceSelector", s.ServiceSelector)
	k.window(at+".window", s.Window)
	k.window(at+".removalWindow", s.RemovalWindow)
	if rate := s.MaxRequestsPerSecond; math.IsNaN(rate) || rate < 0.001 || rate > maxSinkRequests {
		k.fault(at+".maxRequestsPerSecond", fmt.Sprintf("%v is out of range", rate), fmt.Sprintf("use 0.001 to %d", maxSinkRequests))
	}
	if n := s.MaxServicesPerRequest; n < 1 || n > maxSinkServices {
		k.fault(at+".maxServicesPerRequest", fmt.Sprintf("%d is out of range", n), fmt.Sprintf("use 1 to %d", maxSinkServices))
	}
	if timeout := s.Timeout.Value(); k.duration(at+".timeout", s.Timeout) && (timeout < 100*time.Millisecond || timeout > maxSinkTimeout) {
		k.fault(at+".timeout", fmt.Sprintf("%q is out of range", s.Timeout), "use 100ms to 5m")
	}
}

func (k *checker) window(field string, d Duration) {
	if k.duration(field, d) && d.Value() > maxSinkWindow {
		k.fault(field, fmt.Sprintf("%q is more than an hour", d), "use at most 1h")
	}
}

// sinkURL checks where requests go, and that no secret goes there in the clear. What is
// in the URL is not repeated: it may hold one.
func (k *checker) sinkURL(at string, s *Sink) {
	const remedy = "write it as https://slb.example.com/v1/members"
	where, err := url.Parse(s.URL)
	switch {
	case s.URL == "":
		k.fault(at+".url", "must be given", remedy)
		return
	case err != nil || where.Opaque != "" || where.Hostname() == "" || where.Scheme != "https" && where.Scheme != "http":
		k.fault(at+".url", "is not a URL of https or http", remedy)
		return
	case where.User != nil:
		k.fault(at+".url", "holds credentials", "take them out, and use "+at+".auth")
	case !validPort(where.Port()):
		k.fault(at+".url", "names a port that is not from 1 to 65535", remedy)
	case where.Fragment != "":
		k.fault(at+".url", "holds a fragment, which is never sent", "leave out what follows the #")
	}
	tls := &s.Auth.TLS
	if (tls.CertFile == "") != (tls.KeyFile == "") {
		k.fault(at+".auth.tls", "has only one of certFile and keyFile", "give both, or neither")
	}
	if where.Scheme == "https" {
		return
	}
	if s.Auth.BearerTokenFile != "" && !loopback(where.Hostname()) {
		k.fault(at+".auth.bearerTokenFile", "would send the token in the clear", "write "+at+".url with https://")
	}
	if *tls != (SinkTLS{}) {
		k.fault(at+".auth.tls", "has no meaning for http://", "write "+at+".url with https://, or leave it out")
	}
}

// validPort takes the digits of a URL's port; none are that of its scheme.
func validPort(digits string) bool {
	port, err := strconv.ParseUint(digits, 10, 16)
	return digits == "" || err == nil && port > 0
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}
