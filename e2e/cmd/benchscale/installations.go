// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// installations are the installations of one arm.
type installations []*fleet.Tributary

// installations starts those of an arm, each with its share of the namespaces.
func (b *bench) installations(ctx context.Context, a *arm) (all installations, err error) {
	defer func() {
		if err != nil {
			all.kill()
		}
	}()
	for i := range a.shards {
		config := filepath.Join(b.fleet.Dir, fmt.Sprintf("tributary-%d.yaml", i))
		listen, err := cluster.FreeAddress()
		if err != nil {
			return all, err
		}
		if err := b.fleet.WriteConfig(config, listen); err != nil {
			return all, err
		}
		if err := b.edit(config, i, a.shards); err != nil {
			return all, err
		}
		t, err := fleet.StartTributary(ctx, fleet.TributaryOptions{Binary: a.binary, Config: config})
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

// edit adds the served members to a configuration, and restricts it to every n-th namespace for one of n installations.
func (b *bench) edit(config string, i, n int) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var c map[string]any
	if err := yaml.Unmarshal(text, &c); err != nil {
		return err
	}
	if n > 1 {
		var its []string
		for k := i; k < namespaces; k += n {
			its = append(its, namespaceOf(k))
		}
		c["instance"] = fmt.Sprintf("shard-%d", i)
		c["ingress"].(map[string]any)["namespaces"] = its
		c["clusterDefaults"] = map[string]any{"namespaces": map[string]any{"include": its}}
	}
	if b.served {
		var members []map[string]any
		for _, s := range b.stubs {
			members = append(members, map[string]any{"name": s.name, "kubeconfig": s.kubeconfig})
		}
		c["clusters"] = members
	}
	if text, err = yaml.Marshal(c); err != nil {
		return err
	}
	return os.WriteFile(config, text, 0o600)
}

// each calls do for all of them concurrently.
func (all installations) each(do func(t *fleet.Tributary) error) error {
	var group errgroup.Group
	for _, t := range all {
		group.Go(func() error { return do(t) })
	}
	return group.Wait()
}

func (all installations) kill() {
	for _, t := range all {
		t.Kill()
	}
}

// resident sums a figure of /proc/PID/status in MiB.
func (all installations) resident(field string) (sum float64) {
	for _, t := range all {
		sum += resident(t.PID(), field)
	}
	return sum
}

// cpu is the processor time that all of them have used.
func (all installations) cpu() (sum time.Duration) {
	for _, t := range all {
		sum += cpu(t.PID())
	}
	return sum
}

// resident returns a figure of /proc/PID/status in MiB.
func resident(pid int, field string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, field); found {
			kb, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

// cpu is the processor time that a process has used: the fourteenth and fifteenth fields of its stat, hundredths of a second.
func cpu(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text))
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.Atoi(fields[13])
	system, _ := strconv.Atoi(fields[14])
	return time.Duration(user+system) * 10 * time.Millisecond
}
