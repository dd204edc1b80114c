// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tributary.dev/tributary/e2e/fleet"
)

// setup is the configuration file; the rest are defaults.
type setup struct {
	clusters []entry
	replicas map[string]any
}

// entry is one of its clusters.
type entry struct {
	Name       string     `json:"name"`
	Kubeconfig string     `json:"kubeconfig"`
	Namespaces *selection `json:"namespaces,omitempty"`
}

type selection struct {
	Include []string `json:"include"`
}

// of lists a member under its own name; without namespaces, all of them.
func of(site *fleet.Site, namespaces ...string) entry {
	e := entry{Name: site.Name(), Kubeconfig: site.Kubeconfig}
	if len(namespaces) > 0 {
		e.Namespaces = &selection{namespaces}
	}
	return e
}

// write replaces the configuration file; JSON is YAML too. It may be called from any
// goroutine.
func (w *world) write(s setup) error {
	config := map[string]any{
		"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "listen": w.listen,
		"ingress": map[string]string{"kubeconfig": w.fleet.Ingress.Kubeconfig}, "clusters": s.clusters,
	}
	if len(s.replicas) > 0 {
		config["replicas"] = s.replicas
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	temp := filepath.Join(w.fleet.Dir, "next.yaml")
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, w.config)
}

// reload replaces the configuration file and returns when tributary has read it.
func (w *world) reload(s setup) error {
	before := w.metric(reloads, "")
	if err := w.write(s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	rarely := time.NewTicker(200 * time.Millisecond) // each response is work for tributary
	defer rarely.Stop()
	for w.metric(reloads, "") <= before {
		select {
		case <-rarely.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is %v still", reloads, before)
		}
	}
	return nil
}

const reloads = "tributary_config_reloads_total"
