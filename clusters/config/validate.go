// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
)

// Validate returns everything that is wrong with a configuration and what to do about it,
// in the order of the fields. It is pure: whether files exist and clusters answer is found
// out elsewhere.
func (c *Config) Validate() field.ErrorList {
	var v validator
	v.oneOf(field.NewPath("apiVersion"), c.APIVersion, APIVersion)
	v.oneOf(field.NewPath("kind"), c.Kind, Kind)
	v.listen(field.NewPath("listen"), c.Listen)
	switch at := field.NewPath("metricsListen"); {
	case c.MetricsListen == "":
	case c.MetricsListen == c.Listen && !strings.HasSuffix(c.Listen, ":0"):
		v.add(kubeconfig.Detailed(field.Duplicate(at, c.Listen), "listen has it; leave this out, or give another port"))
	default:
		v.listen(at, c.MetricsListen)
	}
	v.label(field.NewPath("instance"), c.Instance)
	v.label(field.NewPath("namespace"), c.Namespace)
	if c.Ingress.Kubeconfig == "" && c.Ingress.Context != "" {
		const remedy = "has no meaning without ingress.kubeconfig; give that, or leave the context out"
		v.add(field.Invalid(field.NewPath("ingress", "context"), c.Ingress.Context, remedy))
	}
	v.globs(field.NewPath("ingress", "namespaces"), c.Ingress.Namespaces, true)
	v.members(c)
	if s := c.ClustersFrom.Secrets; s != nil {
		v.selector(field.NewPath("clustersFrom", "secrets", "selector"), s.Selector)
	}
	v.replicas(field.NewPath("replicas"), c)
	v.rules(field.NewPath("rules"), c)
	v.sinks(field.NewPath("sinks"), c.Sinks)
	if d := c.LeaderElection.LeaseDuration.Value(); d < 2*time.Second || d > time.Hour || d%time.Second != 0 {
		v.add(field.Invalid(field.NewPath("leaderElection", "leaseDuration"), string(c.LeaderElection.LeaseDuration), "write whole seconds, 2s to 1h"))
	}
	return v.faults
}

// validator collects faults; each method checks one kind of field.
type validator struct{ faults field.ErrorList }

func (v *validator) add(faults ...*field.Error) { v.faults = append(v.faults, faults...) }

func (v *validator) oneOf(at *field.Path, value string, known ...string) {
	if !slices.Contains(known, value) {
		v.add(field.NotSupported(at, value, known))
	}
}

func (v *validator) label(at *field.Path, name string) {
	switch {
	case name == "":
		v.add(field.Required(at, "write a short name, such as idc-a"))
	case len(validation.IsDNS1123Label(name)) > 0:
		v.add(field.Invalid(at, name, "is not a DNS label; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit"))
	}
}

// names checks names that are DNS labels and unique.
func (v *validator) names(at *field.Path, count int, name func(i int) string) {
	first := map[string]int{}
	for i := range count {
		own := at.Index(i).Child("name")
		v.label(own, name(i))
		if j, repeated := first[name(i)]; repeated && name(i) != "" {
			v.add(kubeconfig.Detailed(field.Duplicate(own, name(i)), fmt.Sprintf("%s has it; give each its own", at.Index(j))))
		} else {
			first[name(i)] = i
		}
	}
}

func (v *validator) listen(at *field.Path, address string) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if _, bad := netip.ParseAddr(host); err != nil || host != "" && bad != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
		v.add(field.Invalid(at, address, "write host:port, such as 127.0.0.1:9440"))
	}
}

// members checks what they share, and if that is right each of them: otherwise what is wrong with it would be reported again
// for each that inherits it.
func (v *validator) members(c *Config) {
	at, shared := field.NewPath("clusters"), c.ClusterDefaults.faults(field.NewPath("clusterDefaults"))
	v.add(shared...)
	v.names(at, len(c.Clusters), func(i int) string { return c.Clusters[i].Name })
	for i := range c.Clusters {
		if c.Clusters[i].Kubeconfig == "" {
			v.add(field.Required(at.Index(i).Child("kubeconfig"), "name a kubeconfig file; a relative path starts at this file's directory"))
		}
		if len(shared) == 0 {
			v.add(c.Clusters[i].faults(at.Index(i))...)
		}
	}
}

// faults are what is wrong with settings, whose fields are below a path.
func (c *ClusterSettings) faults(at *field.Path) field.ErrorList {
	var v validator
	v.globs(at.Child("namespaces", "include"), c.Namespaces.Include, true)
	v.globs(at.Child("namespaces", "exclude"), c.Namespaces.Exclude, false)
	if names := c.Namespaces.Plain(); names != nil && len(names) == 0 { // a member that has nothing would lose its endpoints
		v.add(field.Invalid(at.Child("namespaces", "exclude"), c.Namespaces.Exclude, "leaves out all that include names; include another, or write [] to exclude none"))
	}
	v.selector(at.Child("serviceSelector"), c.ServiceSelector)
	for i, text := range c.AllowedCIDRs {
		v.add(validation.IsValidCIDR(at.Child("allowedCIDRs").Index(i), text)...)
	}
	v.duration(at.Child("holdSilentNodes"), c.HoldSilentNodes, math.MaxInt64)
	v.duration(at.Child("stableFor"), c.StableFor, math.MaxInt64)
	v.duration(at.Child("staleAfter"), c.StaleAfter, math.MaxInt64)
	return v.faults
}

func (v *validator) selector(at *field.Path, text string) {
	if _, err := labels.Parse(text); err != nil {
		v.add(field.Invalid(at, text, "write a label selector, such as app=web,tier!=test"))
	}
}

// globs checks names or globs of namespaces or members.
func (v *validator) globs(at *field.Path, globs []string, required bool) {
	if required && len(globs) == 0 {
		v.add(field.Required(at, `would match nothing; write ["*"] for everything, or leave the field out`))
	}
	v.patterns(at, globs, "abcdefghijklmnopqrstuvwxyz0123456789-*?[]^\\", "a name nor a glob; use lower-case letters, digits, '-', and the wildcards * and ?")
}

// patterns checks globs of some characters; without any, of all.
func (v *validator) patterns(at *field.Path, globs []string, characters, are string) {
	for i, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil || glob == "" || characters != "" && strings.Trim(glob, characters) != "" {
			v.add(field.Invalid(at.Index(i), glob, "is neither "+are))
		}
	}
}

func (v *validator) duration(at *field.Path, d Duration, most time.Duration) {
	value, err := time.ParseDuration(string(d))
	if err != nil || value < 0 {
		v.add(field.Invalid(at, string(d), "write a length of time, such as 30s or 1h30m"))
	} else if value > most {
		v.add(field.Invalid(at, string(d), fmt.Sprintf("write at most %s", most)))
	}
}

func (v *validator) replicas(at *field.Path, c *Config) {
	r := &c.Replicas
	for i, kind := range r.Write {
		v.oneOf(at.Child("write").Index(i), kind, WriteEndpoints, WriteEndpointSlices)
	}
	if !slices.Contains(r.Write, WriteEndpointSlices) {
		v.add(field.Required(at.Child("write"), "must contain EndpointSlices: they are always written"))
	}
	for i, f := range r.Failover {
		at := at.Child("failover").Index(i)
		v.globs(at.Child("namespaces"), f.Namespaces, true)
		if len(f.Order) == 0 {
			v.add(field.Required(at.Child("order"), "name members, the first choice first"))
		}
		for j, name := range f.Order {
			own := at.Child("order").Index(j)
			if slices.Index(f.Order, name) < j {
				v.add(field.Duplicate(own, name))
			}
			v.label(own, name) // a glob would say nothing of the order
			v.known(own, name, c)
		}
	}
	v.oneOf(at.Child("orphans"), r.Orphans, OrphansKeep, OrphansDelete)
	v.patterns(at.Child("copyLabels"), r.CopyLabels, "", "a key nor a glob, such as example.com/*")
	v.patterns(at.Child("copyAnnotations"), r.CopyAnnotations, "", "a key nor a glob, such as example.com/*")
}

// known checks a name or glob of members: where all are known, one that matches none is a
// mistake.
func (v *validator) known(at *field.Path, glob string, c *Config) {
	is := func(m Cluster) bool { return rules.MatchesAny([]string{glob}, m.Name) }
	if c.ClustersFrom.Secrets == nil && !slices.ContainsFunc(c.Clusters, is) {
		v.add(kubeconfig.Detailed(field.NotFound(at, glob), "name one of clusters[], or leave it out"))
	}
}

func (v *validator) rules(at *field.Path, c *Config) {
	v.names(at, len(c.Rules), func(i int) string { return c.Rules[i].Name })
	for i := range c.Rules {
		r, at := &c.Rules[i], at.Index(i)
		v.globs(at.Child("clusters"), r.Clusters, false)
		for j, glob := range r.Clusters {
			v.known(at.Child("clusters").Index(j), glob, c)
		}
		v.globs(at.Child("namespaces"), r.Namespaces, false)
		v.selector(at.Child("serviceSelector"), r.ServiceSelector)
	}
	_, faults := rules.Compile(at, c.Rules)
	v.add(faults...)
}

func (v *validator) sinks(at *field.Path, sinks []Sink) {
	v.names(at, len(sinks), func(i int) string { return sinks[i].Name })
	for i := range sinks {
		s, at := &sinks[i], at.Index(i)
		v.sinkURL(at, s)
		v.globs(at.Child("namespaces"), s.Namespaces, true)
		v.selector(at.Child("serviceSelector"), s.ServiceSelector)
		v.duration(at.Child("window"), s.Window, time.Hour)
		v.duration(at.Child("removalWindow"), s.RemovalWindow, time.Hour)
		if rate := s.MaxRequestsPerSecond; math.IsNaN(rate) || rate < 0.001 || rate > 1000 {
			v.add(field.Invalid(at.Child("maxRequestsPerSecond"), rate, "write 0.001 to 1000"))
		}
	}
}

// sinkURL checks where requests go, and that no secret goes there in the clear. The URL is
// not repeated: it may hold one.
func (v *validator) sinkURL(at *field.Path, s *Sink) {
	where, err := url.Parse(s.URL)
	if err != nil || where.Opaque != "" || where.Hostname() == "" || where.Scheme != "https" && where.Scheme != "http" || where.User != nil || where.Fragment != "" {
		v.add(field.Invalid(at.Child("url"), field.OmitValueType{}, "write it as https://slb.example.com/v1/members; credentials belong into auth"))
		return
	}
	auth := &s.Auth
	if (auth.TLS.CertFile == "") != (auth.TLS.KeyFile == "") {
		v.add(field.Required(at.Child("auth", "tls"), "give both certFile and keyFile, or neither"))
	}
	address, err := netip.ParseAddr(where.Hostname())
	loopback := where.Hostname() == "localhost" || err == nil && address.Unmap().IsLoopback()
	if auth.BearerTokenFile != "" && where.Scheme == "http" && !loopback {
		v.add(field.Forbidden(at.Child("auth", "bearerTokenFile"), "would be sent in the clear; write url with https://"))
	}
}
