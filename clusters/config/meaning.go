// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/syncer"
)

// Replicates returns what says why a Service of this member is not replicated; empty
// where it is. The function is pure and safe for concurrent use.
func (c *Cluster) Replicates() func(svc *syncer.Service) (excluded string) {
	namespaces, selector := c.Namespaces, rules.Selector(c.ServiceSelector)
	return func(svc *syncer.Service) string {
		switch {
		case svc.ExternalName:
			return "it is of type ExternalName"
		case svc.Key == (syncer.Key{Namespace: "default", Name: "kubernetes"}): // its API server
			return "every cluster has its own"
		case svc.Annotations[syncer.AnnotationReplicate] == "false":
			return "its annotation " + syncer.AnnotationReplicate + ` is "false"`
		case svc.Labels[syncer.LabelManagedBy] == syncer.ManagedBy, svc.Annotations[syncer.AnnotationReplica] != "":
			return "it is a replica itself"
		case !namespaces.Match(svc.Namespace):
			return "namespaces.include and namespaces.exclude leave its namespace out"
		case !selector.Matches(labels.Set(svc.Labels)):
			return "serviceSelector does not match its labels"
		}
		return ""
	}
}

// Match reports whether a namespace is included and not excluded.
func (n *Namespaces) Match(namespace string) bool {
	return rules.MatchesAny(n.Include, namespace) && !rules.MatchesAny(n.Exclude, namespace)
}

// Plain are the namespaces, sorted, if include has plain names alone: rights in these are
// enough then, and nothing is asked of any other. nil otherwise.
func (n *Namespaces) Plain() []string {
	if slices.ContainsFunc(n.Include, func(glob string) bool { return strings.ContainsAny(glob, `*?[\`) }) {
		return nil
	}
	out := slices.Compact(slices.Sorted(slices.Values(n.Include)))
	return slices.DeleteFunc(out, func(name string) bool { return !n.Match(name) })
}

// Prefixes are AllowedCIDRs; none means any address.
func (c *Cluster) Prefixes() (out []netip.Prefix) {
	for _, text := range c.AllowedCIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			out = append(out, prefix)
		}
	}
	return out
}

// Settings is all that the configuration says of a member but how it is reached and what
// the rules say, as one comparable text: another text is another member to follow.
func (c *Cluster) Settings() string {
	of := *c
	of.Kubeconfig, of.Context = "", ""
	text, _ := json.Marshal(of) // texts and numbers always marshal
	return string(text)
}

// MayWrite reports whether a namespace of the ingress cluster may be written to: those of
// Kubernetes itself and Tributary's own may not.
func (c *Config) MayWrite(namespace string) bool {
	return namespace != c.Namespace && !strings.HasPrefix(namespace, "kube-") && rules.MatchesAny(c.Ingress.Namespaces, namespace)
}

// Place is a member's place in the failover order of a namespace, 0 for the first choice.
// It is 0 for all where they serve together. Members that the order does not name share
// the place after the last.
func (r *Replicas) Place(namespace, member string) int {
	for _, f := range r.Failover {
		if rules.MatchesAny(f.Namespaces, namespace) {
			if i := slices.Index(f.Order, member); i >= 0 {
				return i
			}
			return len(f.Order)
		}
	}
	return 0
}

// WritesEndpoints reports whether Endpoints are written beside slices.
func (r *Replicas) WritesEndpoints() bool { return slices.Contains(r.Write, WriteEndpoints) }

// trackers are the keys by which tools know what is theirs: a copy of one makes the tool
// adopt the replica, then change or prune it. An entry that ends with a slash means
// all keys of that domain and of the domains below it.
var trackers = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "applyset.kubernetes.io/", // kubectl apply --applyset
	"argocd.argoproj.io/",
	"fluxcd.io/",                // of which kustomize., helm. and source.toolkit
	"helm.sh/", "meta.helm.sh/", // chart, hook, resource-policy; release-name, release-namespace
	"config.k8s.io/", "kustomize.config.k8s.io/", "cli-utils.sigs.k8s.io/", // kustomize, kpt
	"configsync.gke.io/", "configmanagement.gke.io/",
	"kapp.k14s.io/", "fleet.cattle.io/", "objectset.rio.cattle.io/", "pulumi.com/", "carvel.dev/", "operators.coreos.com/", "olm.owner",
}

// tracker reports whether a key is one of trackers.
func tracker(key string) bool {
	domain, _, slashed := strings.Cut(key, "/")
	return slices.ContainsFunc(trackers, func(t string) bool {
		of, all := strings.CutSuffix(t, "/")
		return key == t || slashed && all && (domain == of || strings.HasSuffix(domain, "."+of))
	})
}

// CopiesLabel reports whether the replica of a Service gets its label of a key. Keys that
// have a meaning on what Tributary writes are not its concern.
func (r *Replicas) CopiesLabel(key string) bool {
	return !tracker(key) && rules.MatchesAny(r.CopyLabels, key)
}

// CopiesAnnotation is CopiesLabel for annotations.
func (r *Replicas) CopiesAnnotation(key string) bool {
	return !tracker(key) && rules.MatchesAny(r.CopyAnnotations, key)
}

// Selects returns which replicas the sink is told of, by their labels.
func (s *Sink) Selects() func(replica syncer.Key, of map[string]string) bool {
	globs, selector := s.Namespaces, rules.Selector(s.ServiceSelector)
	return func(replica syncer.Key, of map[string]string) bool {
		return rules.MatchesAny(globs, replica.Namespace) && selector.Matches(labels.Set(of))
	}
}
