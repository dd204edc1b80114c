// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// podNamespaceFile holds the namespace of the pod that a process runs in.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// fallbackNamespace is Tributary's own where nothing says otherwise.
const fallbackNamespace = "tributary-system"

// OwnNamespace is Tributary's own namespace in the ingress cluster. The namespace of
// the pod that this process runs in is meant only if that pod is in the ingress
// cluster.
func (c *Config) OwnNamespace() string {
	return c.ownNamespace(podNamespaceFile, os.Getenv("POD_NAMESPACE"))
}

func (c *Config) ownNamespace(file, environment string) string {
	if c.Namespace != "" {
		return c.Namespace
	}
	if c.Ingress.Kubeconfig == "" {
		if namespace := podNamespace(file); namespace != "" {
			return namespace
		}
	}
	return cmp.Or(environment, fallbackNamespace)
}

// LeaseNamespace is where the Leases of members go, "" for nowhere. The namespace of the
// pod that this process runs in is meant only if that pod is in the ingress cluster.
func (c *Config) LeaseNamespace() string { return c.leaseNamespace(podNamespaceFile) }

func (c *Config) leaseNamespace(file string) string {
	switch {
	case !c.Leases.Enabled:
		return ""
	case c.Leases.Namespace != "" || c.Ingress.Kubeconfig != "":
		return c.Leases.Namespace
	}
	return podNamespace(file)
}

// podNamespace reads that of a pod, "" where there is none.
func podNamespace(file string) string {
	text, _ := os.ReadFile(file)
	return strings.TrimSpace(string(text))
}

// MayWrite returns which namespaces of the ingress cluster may be written to, given
// Tributary's own. The function is pure and safe for concurrent use.
func (in *Ingress) MayWrite(own string) func(namespace string) bool {
	globs := slices.Clone(in.Namespaces)
	return func(namespace string) bool {
		return namespace != own && !strings.HasPrefix(namespace, kubePrefix) && matchesAny(globs, namespace)
	}
}

// Only are the namespaces that may be written to if all are given by their names:
// nothing is read elsewhere then. nil if any is a pattern.
func (in *Ingress) Only() []string {
	return named(in.Namespaces)
}

// named are the namespaces that some globs mean, sorted; nil if any is a pattern.
func named(globs []string) []string {
	if slices.ContainsFunc(globs, func(n string) bool { return strings.ContainsAny(n, `*?[\`) }) {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(globs)))
}

// scope is the part of the fields that decides whether, and how, the ingress cluster
// is reached anew; it belongs to the hash of its access.
func (in *Ingress) scope() string {
	text := ""
	if in.Identity != "" {
		text = " identity=" + in.Identity
	}
	if only := in.Only(); only != nil {
		text += fmt.Sprintf(" namespaces=%v", only)
	}
	if in.RolesOnly {
		text += " rolesOnly"
	}
	return text
}
