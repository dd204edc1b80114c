// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"cmp"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// configuration is a configuration file that takes one namespace of its members.
type configuration struct {
	path, listen, namespace, ingress string
	members                          []memberConfig
	// instance and identity are left out while empty; client limits requests to the ingress cluster.
	instance, identity string
	// election is where the leader's Lease is; empty: in namespace.
	election string
	client   map[string]int
}

type memberConfig struct {
	Name         string           `json:"name"`
	Kubeconfig   string           `json:"kubeconfig"`
	Namespaces   namespacesConfig `json:"namespaces"`
	AllowedCIDRs []string         `json:"allowedCIDRs,omitempty"`
	Guard        map[string]any   `json:"guard,omitempty"`
	// AllowInKubeconfig lets kubeconfigs name files.
	AllowInKubeconfig []string `json:"allowInKubeconfig,omitempty"`
}

type namespacesConfig struct {
	Include []string `json:"include"`
	Exclude []string `json:"exclude,omitempty"`
}

// set adds a member, or lets it be reached by another kubeconfig.
func (c *configuration) set(name, kubeconfig string) *memberConfig {
	i := slices.IndexFunc(c.members, func(m memberConfig) bool { return m.Name == name })
	if i < 0 {
		i = len(c.members)
		c.members = append(c.members, memberConfig{Name: name, Namespaces: namespacesConfig{Include: []string{c.namespace}}})
	}
	c.members[i].Kubeconfig = kubeconfig
	return &c.members[i]
}

// drop takes a member out.
func (c *configuration) drop(name string) {
	c.members = slices.DeleteFunc(c.members, func(m memberConfig) bool { return m.Name == name })
}

// write replaces the file, as an editor does.
func (c *configuration) write() error {
	ingress := map[string]any{"kubeconfig": c.ingress}
	if c.identity != "" {
		ingress["identity"] = c.identity
	}
	if c.client != nil {
		ingress["client"] = c.client
	}
	file := map[string]any{
		"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "listen": c.listen,
		"ingress": ingress, "clusters": c.members,
		"leases": map[string]string{"namespace": c.namespace}, "leaderElection": map[string]string{"namespace": cmp.Or(c.election, c.namespace)},
	}
	if c.instance != "" {
		file["instance"] = c.instance
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	return replace(c.path, text)
}

// replace replaces a file at once.
func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".next", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}
