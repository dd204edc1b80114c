// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory is what an installation knows of clusters beyond a restart: by
// which identity, the UID of its kube-system namespace, each is known. It is kept in
// Tributary's own namespace of the ingress cluster, where tenants do not write; nothing
// that tenants can write to says which cluster a member is.
//
// It is an annotated Lease, beside those of the members and the leader: so it needs
// no right that those do not.
package inventory
