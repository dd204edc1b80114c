// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"cmp"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// own is Tributary's own namespace in the ingress cluster.
const own = "tributary-system"

// configuration is a configuration file that takes one namespace of its members.
type configuration struct {
	path, listen, namespace, ingress string
	members                          []memberConfig
	// instance and identity are left out while empty; lease is short by default.
	instance, identity, lease string
	replicas                  map[string]any
	rules                     []map[string]any
}

// memberConfig is one of clusters.
type memberConfig struct {
	Name            string           `json:"name"`
	Kubeconfig      string           `json:"kubeconfig"`
	Namespaces      namespacesConfig `json:"namespaces"`
	AllowedCIDRs    []string         `json:"allowedCIDRs,omitempty"`
	Drain           bool             `json:"drain,omitempty"`
	HoldSilentNodes string           `json:"holdSilentNodes,omitempty"`
	StableFor       string           `json:"stableFor,omitempty"`
	StaleAfter      string           `json:"staleAfter,omitempty"`
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

// kubeconfig is how a member is reached.
func (c *configuration) kubeconfig(name string) string {
	i := slices.IndexFunc(c.members, func(m memberConfig) bool { return m.Name == name })
	return c.members[i].Kubeconfig
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
	file := map[string]any{
		"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "listen": c.listen, "namespace": own,
		"ingress": ingress, "clusters": c.members, "leaderElection": map[string]string{"leaseDuration": cmp.Or(c.lease, "5s")},
	}
	if c.instance != "" {
		file["instance"] = c.instance
	}
	if c.replicas != nil {
		file["replicas"] = c.replicas
	}
	if c.rules != nil {
		file["rules"] = c.rules
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
