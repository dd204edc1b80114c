// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
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
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
			return strings.TrimSpace(string(text))
		}
	}
	if environment != "" {
		return environment
	}
	return fallbackNamespace
}
