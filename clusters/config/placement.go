// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"tributary.dev/tributary/syncer"
)

// AnnotationReplicate on a source Service keeps it from being replicated when
// its value is exactly "false".
const AnnotationReplicate = "tributary.dev/replicate"

// The label that replicas carry in the ingress cluster. When the ingress cluster
// is itself listed as a member, its replicas are not sources.
const (
	labelManagedBy     = "app.kubernetes.io/managed-by"
	valueManagedBy     = "tributary"
	apiserverName      = "kubernetes"
	apiserverNamespace = "default"
)

// rules is the compiled form of a member's fields.
type rules struct {
	selector labels.Selector
	allowed  []netip.Prefix
}

// compile prepares what Place and AllowedPrefixes need. It returns nil if the
// fields are not valid.
func (c *Cluster) compile() *rules {
	selector, err := labels.Parse(c.ServiceSelector)
	if err != nil {
		return nil
	}
	r := &rules{selector: selector}
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
// anew at each call.
func (c *Cluster) compiled() *rules {
	if c.rules != nil {
		return c.rules
	}
	return c.compile()
}

// Place says whether a Service of this member is replicated, and as what. It is
// pure and safe for concurrent use. A Cluster whose fields are not valid places
// nothing.
//
// Never replicated are ExternalName Services (they have no endpoints),
// default/kubernetes (each cluster has its own), Services annotated
// tributary.dev/replicate: "false", and replicas themselves.
func (c Cluster) Place(svc *syncer.Service) (replica syncer.Key, ok bool) {
	r := c.compiled()
	switch {
	case r == nil,
		svc.ExternalName,
		svc.Key == syncer.Key{Namespace: apiserverNamespace, Name: apiserverName},
		svc.Annotations[AnnotationReplicate] == "false",
		svc.Labels[labelManagedBy] == valueManagedBy,
		!c.Namespaces.Match(svc.Namespace),
		!r.selector.Matches(labels.Set(svc.Labels)):
		return syncer.Key{}, false
	}
	return svc.Key, true
}

// Match reports whether the namespace is included and not excluded.
func (n Namespaces) Match(namespace string) bool {
	matches := func(glob string) bool {
		matched, err := path.Match(glob, namespace)
		return err == nil && matched
	}
	return slices.ContainsFunc(n.Include, matches) && !slices.ContainsFunc(n.Exclude, matches)
}

// AllowedPrefixes are the ranges that the member's addresses may lie in; none
// means any. The result is shared: treat it as read-only.
func (c Cluster) AllowedPrefixes() []netip.Prefix {
	if r := c.compiled(); r != nil {
		return r.allowed
	}
	return nil
}
