// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"

	"tributary.dev/tributary/next/syncer"
)

// Replicates says why a Service of this member is not replicated; empty where it is.
// The function is pure and safe for concurrent use.
func (c *Cluster) Replicates() func(svc *syncer.Service) (excluded string) { return nil }

// Prefixes are AllowedCIDRs; none means any address.
func (c *Cluster) Prefixes() []netip.Prefix { return nil }

// Plain are the included namespaces, sorted, if include has plain names alone; nil
// otherwise.
func (n *Namespaces) Plain() []string { return nil }

// Match reports whether a namespace is included and not excluded.
func (n *Namespaces) Match(namespace string) bool { return false }

// Settings is all that the configuration says of a member but how it is reached, as one
// comparable text.
func (c *Cluster) Settings() string { return "" }

// MayWrite returns which namespaces may be written to.
func (c *Config) MayWrite() func(namespace string) bool { return nil }

// Place is a member's place in the failover order of a namespace, the first choice 0; 0
// for all where members serve together.
func (r *Replicas) Place(namespace, member string) int { return 0 }

// Copies returns which labels, or annotations, a replica gets by key.
func (r *Replicas) Copies() (label, annotation func(key string) bool) { return nil, nil }

// WritesEndpoints reports whether Endpoints are written beside slices.
func (r *Replicas) WritesEndpoints() bool { return false }

// Selects returns which replicas the sink is told of, by their labels.
func (s *Sink) Selects() func(replica syncer.Key, labels map[string]string) bool { return nil }
