// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"tributary.dev/tributary/clusters/config/strict"
	"tributary.dev/tributary/clusters/kubeconfig"
)

// Fault is one thing wrong with the configuration; see strict.Fault.
type Fault = strict.Fault

// Faults are all things wrong with it; see strict.Faults.
type Faults = strict.Faults

// Validate returns every fault of the configuration, with the path of its field
// and what to do, in the order of the fields. It is pure: whether files exist
// and clusters answer is found out elsewhere.
func (c *Config) Validate() Faults {
	var k checker
	k.constant("apiVersion", c.APIVersion, APIVersion)
	k.constant("kind", c.Kind, Kind)
	k.listen("listen", c.Listen)
	k.metrics(c)
	k.label("instance", c.Instance)
	k.namespace("namespace", c.Namespace)
	k.ingress("ingress", &c.Ingress)
	if c.Clusters == nil {
		k.fault("clusters", "must be given", "list the member clusters, or write [] to run without any")
	}
	shared := k.defaults("clusterDefaults", c.ClusterDefaults)
	for i := range c.Clusters {
		k.cluster(fmt.Sprintf("clusters[%d]", i), &c.Clusters[i])
	}
	k.faults = slices.DeleteFunc(k.faults, func(f Fault) bool { return inherited(f, shared) })
	k.clustersFrom("clustersFrom", &c.ClustersFrom)
	unique(&k, "clusters", "cluster", c.Clusters, func(c Cluster) string { return c.Name })
	k.replicas("replicas", &c.Replicas, c.Clusters, c.ClustersFrom.Secrets != nil)
	k.podRules("rules", c)
	k.readiness("readiness", c.Readiness.StableFor, c.Readiness.Namespaces)
	k.leases("leases", &c.Leases)
	k.leaderElection("leaderElection", &c.LeaderElection)
	k.sinks("sinks", c.Sinks)
	return k.faults
}

// defaults checks what members share and returns what is wrong with it.
func (k *checker) defaults(at string, c Cluster) Faults {
	for _, own := range []struct{ field, value string }{{".name", c.Name}, {".kubeconfig", c.Kubeconfig}} {
		if own.value != "" {
			k.fault(at+own.field, "is each cluster's own", "give it in clusters[]")
		}
	}
	var of checker
	c.Name, c.Kubeconfig = "x", "x"
	of.cluster(at, &c)
	k.faults = append(k.faults, of.faults...)
	return of.faults
}

// inherited reports whether a fault of a member is one of what it shares with all.
func inherited(f Fault, shared Faults) bool {
	field, found := strings.CutPrefix(f.Field, "clusters[")
	_, field, _ = strings.Cut(field, "]")
	return found && slices.ContainsFunc(shared, func(s Fault) bool {
		return s.Field == "clusterDefaults"+field
	})
}

func (k *checker) clustersFrom(at string, from *ClustersFrom) {
	if from.Secrets == nil {
		return
	}
	if name := from.Secrets.Namespace; name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		k.fault(at+".secrets.namespace", fmt.Sprintf("%q is not a namespace", name), "use lower-case letters, digits and '-'")
	}
	if selector, err := labels.Parse(from.Secrets.Selector); err != nil || selector.Empty() {
		k.fault(at+".secrets.selector", fmt.Sprintf("%q is not a label selector, or selects everything", from.Secrets.Selector), "write it as for kubectl get -l, such as "+SecretLabel+"="+SecretLabelValue)
	}
}

// checker collects faults; each method checks one kind of field.
type checker struct {
	faults Faults
	// more is true if there may be members that the file does not name.
	more bool
}

func (k *checker) fault(field, message, remedy string) {
	k.faults = append(k.faults, Fault{Field: field, Message: message, Remedy: remedy})
}

func (k *checker) constant(field, got, want string) {
	switch got {
	case want:
	case "":
		k.fault(field, "must be given", fmt.Sprintf("write %s: %s", field, want))
	default:
		k.fault(field, fmt.Sprintf("%q is not known to this version", got), "write "+want)
	}
}

func (k *checker) listen(field, address string) {
	const remedy = "write host:port, such as 127.0.0.1:9440"
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		k.fault(field, fmt.Sprintf("%q is not host:port", address), remedy)
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		k.fault(field, fmt.Sprintf("%q is not a port number from 0 to 65535", port), remedy)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && len(validation.IsDNS1123Subdomain(strings.ToLower(host))) > 0 {
		k.fault(field, fmt.Sprintf("%q is neither an address nor a host name", host), remedy)
	}
}

// metrics checks the fields of the address for metrics and probes alone.
func (k *checker) metrics(c *Config) {
	switch {
	case c.MetricsListen != "":
		k.listen("metricsListen", c.MetricsListen)
		if overlap(c.Listen, c.MetricsListen) {
			k.fault("metricsListen", fmt.Sprintf("%q and listen, %q, are one address", c.MetricsListen, c.Listen), "give it another port")
		}
	case c.MetricsTLS != MetricsTLS{}:
		k.fault("metricsTLS", "has no meaning without metricsListen", "give metricsListen, or leave metricsTLS out")
	}
	const both = "give both, or none for plain HTTP"
	switch {
	case c.MetricsTLS.CertFile == "" && c.MetricsTLS.KeyFile != "":
		k.fault("metricsTLS.certFile", "must be given with keyFile", both)
	case c.MetricsTLS.KeyFile == "" && c.MetricsTLS.CertFile != "":
		k.fault("metricsTLS.keyFile", "must be given with certFile", both)
	case c.MetricsTokenReview && c.MetricsTLS.CertFile == "":
		k.fault("metricsTokenReview", "would have tokens sent in clear", "give metricsTLS")
	}
}

// overlap reports whether nobody can listen at both addresses.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	every := func(host string) bool {
		address, err := netip.ParseAddr(host)
		return host == "" || err == nil && address.IsUnspecified()
	}
	return errA == nil && errB == nil && portA == portB && portA != "0" && (hostA == hostB || every(hostA) || every(hostB))
}

func (k *checker) ingress(at string, in *Ingress) {
	if in.Kubeconfig == "" {
		if in.Context != "" {
			k.fault(at+".context", "has no meaning without "+at+".kubeconfig", "give the kubeconfig, or leave the context out")
		}
		if len(in.AllowInKubeconfig) > 0 {
			k.fault(at+".allowInKubeconfig", "has no meaning without "+at+".kubeconfig", "give the kubeconfig, or leave the list out")
		}
	}
	k.connection(at, &in.Connection)
	if len(in.Namespaces) == 0 {
		k.fault(at+".namespaces", "is empty: nothing could be written", `write ["*"] for every namespace, or leave the field out`)
	}
	k.globs(at+".namespaces", in.Namespaces)
	for i, name := range in.Namespaces {
		if strings.HasPrefix(name, kubePrefix) {
			k.fault(fmt.Sprintf("%s.namespaces[%d]", at, i), fmt.Sprintf("%q is of Kubernetes itself, and never written to", name), "leave it out")
		}
	}
	if in.RolesOnly && in.Only() == nil {
		k.fault(at+".rolesOnly", "needs "+at+".namespaces to name namespaces, without a pattern", "list the namespaces in which there are Roles")
	}
	if strings.TrimSpace(in.Identity) != in.Identity || len(in.Identity) > 128 {
		k.fault(at+".identity", fmt.Sprintf("%.140q is not a UID", in.Identity), "write what kubectl get namespace kube-system -o jsonpath={.metadata.uid} prints")
	}
}

func (k *checker) connection(at string, c *Connection) {
	switch qps := c.Client.QPS; {
	case math.IsNaN(qps) || math.IsInf(qps, 0) || qps < 0:
		k.fault(at+".client.qps", "must not be negative or infinite", "write 0 for no limit")
	case qps == 0 && c.Client.Burst > 0:
		k.fault(at+".client.burst", "has no meaning without "+at+".client.qps", "give qps, or leave burst out")
	}
	if c.Client.Burst < 0 {
		k.fault(at+".client.burst", "must not be negative", "write 0 for twice qps")
	}
	closedList(k, at+".allowInKubeconfig", c.AllowInKubeconfig, kubeconfig.Features())
}

// closedList checks that every item is one of known and none is repeated.
func closedList[T ~string](k *checker, field string, items, known []T) {
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !slices.Contains(known, item) {
			k.fault(at, fmt.Sprintf("%q is not known", string(item)), "use one of "+listed(known))
		} else if first := slices.Index(items, item); first < i {
			k.fault(at, fmt.Sprintf("%q repeats %s[%d]", string(item), field, first), "keep one")
		}
	}
}

func listed[T ~string](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, ", ")
}

func (k *checker) cluster(at string, c *Cluster) {
	switch {
	case c.Name == "":
		k.fault(at+".name", "must be given", "choose a short name, such as idc-a")
	case len(c.Name) > validation.DNS1123LabelMaxLength:
		k.fault(at+".name", fmt.Sprintf("has %d characters", len(c.Name)), fmt.Sprintf("use at most %d", validation.DNS1123LabelMaxLength))
	case len(validation.IsDNS1123Label(c.Name)) > 0:
		k.fault(at+".name", fmt.Sprintf("%q is not a DNS label", c.Name), "use lower-case letters, digits and '-', and begin and end with a letter or digit")
	}
	if c.Kubeconfig == "" {
		k.fault(at+".kubeconfig", "must be given", "name a kubeconfig file; a relative path starts at this file's directory")
	}
	k.connection(at, &c.Connection)
	if len(c.Namespaces.Include) == 0 {
		k.fault(at+".namespaces.include", "is empty: no Service would be replicated", `write ["*"] for every namespace, or leave the field out`)
	}
	k.globs(at+".namespaces.include", c.Namespaces.Include)
	k.globs(at+".namespaces.exclude", c.Namespaces.Exclude)
	k.targets(at+".namespaces", &c.Namespaces)
	if c.RolesOnly && len(c.Namespaces.Only()) == 0 {
		k.fault(at+".rolesOnly", "needs namespaces.include to name namespaces, without a pattern", "list the namespaces in which there are Roles")
	}
	k.selector(at+".serviceSelector", c.ServiceSelector)
	for i, text := range c.AllowedCIDRs {
		k.cidr(fmt.Sprintf("%s.allowedCIDRs[%d]", at, i), text)
	}
	k.steering(at, c)
	k.trust(at, c)
}

func (k *checker) selector(field, text string) {
	if _, err := labels.Parse(text); err != nil {
		k.fault(field, fmt.Sprintf("%q is not a label selector: %s", text, strings.TrimPrefix(err.Error(), "unable to parse requirement: ")), "write it as for kubectl get -l, such as app=web,tier!=test")
	}
}

// namespaceGlobCharacters are those of namespace names and of globs. A pattern
// with any other could never match, which is worth saying.
const namespaceGlobCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-*?[]^\\"

func (k *checker) globs(field string, globs []string) {
	for i, glob := range globs {
		at := fmt.Sprintf("%s[%d]", field, i)
		if _, err := path.Match(glob, ""); err != nil {
			k.fault(at, fmt.Sprintf("%q is not a glob: a '[' without its ']', or a '\\' at the end", glob), "close it")
		} else if glob == "" || strings.Trim(glob, namespaceGlobCharacters) != "" {
			k.fault(at, fmt.Sprintf("%q cannot match any namespace", glob), "use lower-case letters, digits, '-', and the wildcards * and ?")
		}
	}
}

func (k *checker) cidr(field, text string) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		k.fault(field, fmt.Sprintf("%q is not a CIDR", text), "write an address and a length, such as 10.4.0.0/16 or fd00:4::/64")
	case prefix.Addr().Is4In6():
		k.fault(field, fmt.Sprintf("%q is an IPv4 range in IPv6 form", text), "write it in IPv4 form")
	case prefix != prefix.Masked():
		k.fault(field, fmt.Sprintf("%q has bits set beyond its length", text), "write "+prefix.Masked().String())
	}
}

// label checks a name that stands in labels.
func (k *checker) label(field, name string) {
	if len(validation.IsDNS1123Label(name)) > 0 {
		k.fault(field, fmt.Sprintf("%.70q is not a DNS label", name), "use at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit")
	}
}

// unique checks that no two items of a list have one name.
func unique[T any](k *checker, at, what string, items []T, nameOf func(T) string) {
	first := map[string]int{}
	for i, item := range items {
		name := nameOf(item)
		if j, repeated := first[name]; !repeated {
			first[name] = i
		} else if name != "" {
			k.fault(fmt.Sprintf("%s[%d].name", at, i), fmt.Sprintf("%q repeats %s[%d].name", name, at, j), "give each "+what+" its own name")
		}
	}
}
