// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// replicas checks what is written. It may speak of the clusters and, if there may be
// more than these, of others.
func (k *checker) replicas(at string, r *Replicas, clusters []Cluster, more bool) {
	k.more = more
	known := []OutputKind{WriteEndpoints, WriteEndpointSlices}
	if len(r.Write) == 0 {
		k.fault(at+".write", "is empty: no endpoint would be written", "list one or both of "+listed(known))
	}
	closedList(k, at+".write", r.Write, known)
	if r.MaxEndpointsPerSlice < 1 || r.MaxEndpointsPerSlice > 1000 {
		k.fault(at+".maxEndpointsPerSlice", fmt.Sprintf("%d is out of range", r.MaxEndpointsPerSlice), "use 1 to 1000")
	}
	oneOf(k, at+".mode", r.Mode, modes)
	k.template(at+".separateName", r.SeparateName, clusters)
	k.order(at+".failover", r.Failover, clusters)
	for i := range r.Rules {
		k.rule(fmt.Sprintf("%s.rules[%d]", at, i), &r.Rules[i], clusters)
	}
	oneOf(k, at+".orphans", r.Orphans, []Orphans{OrphansKeep, OrphansDelete})
	k.pass(at+".labels", r.Labels)
	k.pass(at+".annotations", r.Annotations)
}

// oneOf checks a value that must be given.
func oneOf[T ~string](k *checker, field string, value T, known []T) {
	if !slices.Contains(known, value) {
		k.fault(field, fmt.Sprintf("%q is not known", string(value)), "use one of "+listed(known))
	}
}

func (k *checker) rule(at string, r *Rule, clusters []Cluster) {
	if len(r.Namespaces) == 0 {
		k.fault(at+".namespaces", "is empty: the rule would never apply", "list names or globs of namespaces")
	}
	k.globs(at+".namespaces", r.Namespaces)
	if r.Mode != "" {
		oneOf(k, at+".mode", r.Mode, modes)
	}
	if r.SeparateName != "" {
		k.template(at+".separateName", r.SeparateName, clusters)
	}
	k.order(at+".failover", r.Failover, clusters)
}

// template checks that names made from it are names of Services, whatever is put
// in the placeholders, unless their length has to be cut.
func (k *checker) template(field, template string, clusters []Cluster) {
	const remedy = "write it as {service}-{cluster}"
	literal := strings.NewReplacer(placeService, "", placeCluster, "", placeNamespace, "").Replace(template)
	starts := func(what string) bool { return strings.HasPrefix(template, what) }
	switch {
	case !strings.Contains(template, placeService) || !strings.Contains(template, placeCluster):
		k.fault(field, fmt.Sprintf("%q lacks {service} or {cluster}: replicas of several members would have one name", template), remedy)
	case strings.Trim(literal, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		k.fault(field, fmt.Sprintf("%q has more than lower-case letters, digits, '-' and {service}, {cluster}, {namespace}", template), remedy)
	case len(literal) > 30:
		k.fault(field, fmt.Sprintf("%q has %d characters of its own", template, len(literal)), "use at most 30")
	case starts(placeNamespace) || !starts("{") && (template[0] < 'a' || template[0] > 'z'):
		k.fault(field, fmt.Sprintf("%q would make names that do not begin with a letter", template), "begin with {service} or a letter")
	case strings.HasSuffix(template, "-"):
		k.fault(field, fmt.Sprintf("%q ends with '-'", template), remedy)
	case starts(placeCluster):
		for i := range clusters {
			if name := clusters[i].Name; name != "" && name[0] >= '0' && name[0] <= '9' {
				k.fault(field, fmt.Sprintf("%q would make names that begin with the digit of cluster %s", template, name), "begin with {service}")
			}
		}
	}
}

// order checks names of members.
func (k *checker) order(field string, names []string, clusters []Cluster) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !k.more && !slices.ContainsFunc(clusters, func(c Cluster) bool { return c.Name == name }) {
			k.fault(at, fmt.Sprintf("%q is not the name of a cluster of this file", name), "name one of clusters[], or leave it out")
		} else if first := slices.Index(names, name); first < i {
			k.fault(at, fmt.Sprintf("%q repeats %s[%d]", name, field, first), "keep one")
		}
	}
}

func (k *checker) pass(field string, p Pass) {
	for _, list := range []struct {
		name  string
		globs []string
	}{{"pass", p.Pass}, {"drop", p.Drop}} {
		for i, glob := range list.globs {
			if _, err := path.Match(unslashed(glob), ""); err != nil || glob == "" {
				k.fault(fmt.Sprintf("%s.%s[%d]", field, list.name, i), fmt.Sprintf("%q is not a glob", glob), "write a key such as example.com/team, or a glob such as example.com/*")
			}
		}
	}
}

// steering checks the fields of a member that say how its endpoints are used.
func (k *checker) steering(at string, c *Cluster) {
	if c.Mode != "" {
		oneOf(k, at+".mode", c.Mode, modes)
	}
	if c.Force && !c.Drain {
		k.fault(at+".force", "has no meaning without "+at+".drain", "write drain: true beside it, or leave it out")
	}
}

// maxPrefix leaves room for some of the namespace before the hash of a cut name.
const maxPrefix = 40

// targets checks the names that namespaces get in the ingress cluster.
func (k *checker) targets(at string, n *Namespaces) {
	const remedy = "use lower-case letters, digits and '-', and begin and end with a letter or digit"
	for _, from := range slices.Sorted(maps.Keys(n.Rename)) {
		for _, name := range []string{from, n.Rename[from]} {
			if len(validation.IsDNS1123Label(name)) > 0 {
				k.fault(at+".rename", fmt.Sprintf("%q is not a namespace", name), remedy)
			}
		}
		if strings.HasPrefix(n.Rename[from], kubePrefix) {
			k.fault(at+".rename", fmt.Sprintf("%q is one of Kubernetes itself, and is never written to", n.Rename[from]), "choose another")
		}
	}
	switch {
	case n.Prefix == "":
	case len(validation.IsDNS1123Label(n.Prefix+"x")) > 0:
		k.fault(at+".prefix", fmt.Sprintf("%q cannot begin a namespace", n.Prefix), remedy)
	case len(n.Prefix) > maxPrefix:
		k.fault(at+".prefix", fmt.Sprintf("has %d characters", len(n.Prefix)), fmt.Sprintf("use at most %d", maxPrefix))
	case strings.HasPrefix(n.Prefix, kubePrefix):
		k.fault(at+".prefix", fmt.Sprintf("%q would make namespaces of Kubernetes itself", n.Prefix), "choose another")
	}
}
