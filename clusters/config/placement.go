// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/syncer"
)

// AnnotationReplicate on a source Service keeps it from being replicated when
// its value is exactly "false".
const AnnotationReplicate = "tributary.dev/replicate"

// kubePrefix begins the names of the namespaces of Kubernetes itself.
const kubePrefix = "kube-"

// apiserver is the Service of every cluster's own API server.
var apiserver = syncer.Key{Namespace: "default", Name: "kubernetes"}

// meaning is the compiled form of a member's fields.
type meaning struct {
	selector  labels.Selector
	allowed   []netip.Prefix
	policy    *Policy
	readiness Readiness // what is said for all members
	rules     *rules.Set
}

// compile prepares what Place and AllowedPrefixes need. It returns nil if the
// fields are not valid.
func (c *Cluster) compile(policy *Policy, readiness Readiness, program *rules.Program) *meaning {
	selector, err := labels.Parse(c.ServiceSelector)
	if err != nil {
		return nil
	}
	r := &meaning{selector: selector, policy: policy, readiness: readiness, rules: program.For(c.Name)}
	for _, text := range c.AllowedCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil
		}
		r.allowed = append(r.allowed, prefix)
	}
	return r
}

// compiled is what Parse prepared; for a Cluster built by hand it is compiled
// anew at each call, with the defaults of everything beside it.
func (c *Cluster) compiled() *meaning {
	if c.meaning != nil {
		return c.meaning
	}
	all := Config{Clusters: []Cluster{*c}}
	all.SetDefaults()
	return c.compile(all.Policy(), all.Readiness, nil)
}

// PodRules are the rules that are for this member; nil if there are none.
func (c Cluster) PodRules() *rules.Set {
	if c.meaning == nil {
		return nil
	}
	return c.meaning.rules
}

// Place says whether a Service of this member is replicated, and as what. It is
// pure and safe for concurrent use. A Cluster whose fields are not valid places
// nothing.
//
// Never replicated are ExternalName Services (they have no endpoints),
// default/kubernetes (each cluster has its own), Services annotated
// tributary.dev/replicate: "false", and replicas themselves. The replica has the
// name of the Service, or in mode separate one that names the member too, and
// the namespace that the Service's has in the ingress cluster.
func (c Cluster) Place(svc *syncer.Service) (replica syncer.Key, ok bool) {
	replica, excluded := c.place(svc)
	return replica, excluded == ""
}

// Excluded says why a Service of this member is not replicated; empty where it is.
func (c Cluster) Excluded(svc *syncer.Service) string {
	_, excluded := c.place(svc)
	return excluded
}

func (c Cluster) place(svc *syncer.Service) (replica syncer.Key, excluded string) {
	r := c.compiled()
	switch {
	case r == nil:
		return replica, "the configuration of the cluster is not valid"
	case svc.ExternalName:
		return replica, "it is of type ExternalName"
	case svc.Key == apiserver:
		return replica, "every cluster has its own"
	case svc.Annotations[AnnotationReplicate] == "false":
		return replica, `its annotation ` + AnnotationReplicate + ` is "false"`
	case svc.Labels[syncer.LabelManagedBy] == syncer.ManagedBy, svc.Annotations[syncer.AnnotationSources] != "":
		return replica, "it is a replica itself" // or a copy that somebody else made of one and labelled as his own
	case !c.Namespaces.Match(svc.Namespace):
		return replica, "namespaces.include and namespaces.exclude leave its namespace out"
	case !r.selector.Matches(labels.Set(svc.Labels)):
		return replica, "serviceSelector does not match its labels"
	}
	replica = syncer.Key{Name: svc.Name}
	var ok bool
	if replica.Namespace, ok = c.Namespaces.target(svc.Namespace); !ok {
		return syncer.Key{}, "namespaces.prefix would make its namespace one of Kubernetes' own"
	}
	o := r.policy.opinion(replica.Namespace, c.Name, svc)
	if o.mode == ModeSeparate {
		replica.Name = separateName(o.template, svc.Key, c.Name)
	}
	if replica == apiserver {
		return syncer.Key{}, "the ingress cluster's own Service has that name"
	}
	return replica, ""
}

// target is what a namespace of the member is called in the ingress cluster; ok is
// false for one that only a prefix would make one of Kubernetes' own.
func (n Namespaces) target(namespace string) (name string, ok bool) {
	if to, renamed := n.Rename[namespace]; renamed {
		return to, true
	}
	if n.Prefix == "" {
		return namespace, true
	}
	name = shortened(n.Prefix+namespace, namespace)
	return name, !strings.HasPrefix(name, kubePrefix)
}

// Only are the namespaces that are included, sorted, if all are given by their names,
// and none otherwise. Rights in these are then enough in the member: nothing is asked of
// any other.
func (n Namespaces) Only() []string {
	return slices.DeleteFunc(named(n.Include), func(name string) bool { return !n.Match(name) })
}

// Match reports whether the namespace is included and not excluded.
func (n Namespaces) Match(namespace string) bool {
	return matchesAny(n.Include, namespace) && !matchesAny(n.Exclude, namespace)
}

// AllowedPrefixes are the ranges that the member's addresses may lie in; none
// means any. The result is shared: treat it as read-only.
func (c Cluster) AllowedPrefixes() []netip.Prefix {
	if r := c.compiled(); r != nil {
		return r.allowed
	}
	return nil
}
