// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"strings"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/syncer"
)

// Settings are all that the configuration says of one member.
type Settings struct {
	Cluster config.Cluster
	Access  config.Access
	// Rules are those for the member.
	Rules *rules.Set
	// Annotations are those of Services that replicas get, as globs.
	Annotations []string
}

// SettingsOf returns the settings of all members of a configuration.
func SettingsOf(loaded *config.Loaded) []Settings {
	all := make([]Settings, 0, len(loaded.Config.Clusters))
	for i := range loaded.Config.Clusters {
		c := &loaded.Config.Clusters[i]
		all = append(all, Settings{
			Cluster: *c, Access: loaded.Members[c.Name], Rules: loaded.Rules.For(c.Name), Annotations: loaded.Config.Replicas.CopyAnnotations,
		})
	}
	return all
}

// reading is all of the settings by which objects are selected and read, but for rules, as one
// comparable text. If it differs, another Member reads everything anew.
func (s *Settings) reading() string {
	c := s.Cluster
	c.Drain, c.AllowedCIDRs, c.HoldSilentNodes, c.StableFor, c.StaleAfter = false, nil, "", "", ""
	return c.Settings() + strings.Join(s.Annotations, "\n")
}

// config is the configuration of the member's state.
func (s *Settings) config() member.Config {
	c := &s.Cluster
	excluded := c.Replicates()
	return member.Config{
		Namespaces: c.Namespaces.Plain(),
		Covers:     c.Namespaces.Match,
		Replicates: func(svc *syncer.Service) bool { return excluded(svc) == "" },
		Options: syncer.Options{AllowedCIDRs: c.Prefixes(), HoldSilentNodes: c.HoldSilentNodes.Value(),
			StableFor: c.StableFor.Value()},
		Rules:      s.Rules,
		Drain:      c.Drain,
		StaleAfter: c.StaleAfter.Value(),
	}
}

// decoder returns what objects are read with.
func (s *Settings) decoder() *decode.Decoder {
	o := decode.Options{Keep: (&config.Replicas{CopyAnnotations: s.Annotations}).CopiesAnnotation}
	if !s.Rules.Empty() { // for Match each pod is decoded as a whole
		o.Match = s.Rules.Match
	}
	return decode.New(o)
}
