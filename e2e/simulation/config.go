// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// instance is the name of the installation.
const instance = "sim"

// Config is what the configuration file says. One that is in use is never changed.
type Config struct {
	Members []MemberConfig // sorted by name
	// Failover orders members by their names.
	Failover    bool
	DropOrphans bool
	OnlySlices  bool
	Excluded    string // a namespace that may not be written to
}

// MemberConfig is what it says of one member.
type MemberConfig struct {
	Name string
	// Only are the namespaces that are followed, a stream each; nil: one stream for all.
	Only      []string
	Drain     bool
	Hold      time.Duration // holdSilentNodes
	StableFor time.Duration
	Stale     time.Duration
}

func (c *Config) clone() *Config {
	d := *c
	d.Members = slices.Clone(c.Members)
	return &d
}

func (c *Config) member(name string) *MemberConfig {
	at := slices.IndexFunc(c.Members, func(m MemberConfig) bool { return m.Name == name })
	if at < 0 {
		return nil
	}
	return &c.Members[at]
}

// place is a member's in the failover order.
func (c *Config) place(name string) int {
	if !c.Failover {
		return 0
	}
	return slices.IndexFunc(c.Members, func(m MemberConfig) bool { return m.Name == name })
}

func (c *Config) settings() *reconcile.Settings {
	all := func(string) bool { return true }
	return &reconcile.Settings{
		MayWrite: func(namespace string) bool { return namespace != c.Excluded },
		Settings: plan.Settings{Instance: instance, WriteEndpoints: !c.OnlySlices, CreateNamespaces: true, DropOrphans: c.DropOrphans, CopyLabel: all},
	}
}

// covers reports whether a namespace is followed.
func (m *MemberConfig) covers(namespace string) bool {
	return m.Only == nil || slices.Contains(m.Only, namespace)
}

func (m *MemberConfig) state() member.Config {
	return member.Config{
		Namespaces: m.Only, Covers: m.covers, Replicates: func(svc *syncer.Service) bool {
			return !svc.ExternalName && svc.Annotations[syncer.AnnotationReplicate] != "false"
		},
		Options: syncer.Options{HoldSilentNodes: m.Hold, StableFor: m.StableFor},
		Drain:   m.Drain, StaleAfter: m.Stale,
	}
}
