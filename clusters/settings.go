// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

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
	// Rules are those for the member; nil: none.
	Rules *rules.Set
	// Annotations are those of Services that replicas get, as globs.
	Annotations []string
	keep        func(annotation string) bool
}

// SettingsOf returns the settings of all members of a configuration.
func SettingsOf(loaded *config.Loaded) []Settings {
	all := make([]Settings, 0, len(loaded.Config.Clusters))
	for i := range loaded.Config.Clusters {
		c := &loaded.Config.Clusters[i]
		all = append(all, Settings{
			Cluster: *c, Access: loaded.Members[c.Name], Rules: loaded.Rules.For(c.Name),
			Annotations: loaded.Config.Replicas.CopyAnnotations, keep: loaded.Config.Replicas.CopiesAnnotation(),
		})
	}
	return all
}

// text is all of the settings but the access, as one comparable text.
func (s *Settings) text() string { return s.Cluster.Settings() + s.Rules.ID() + s.reading() }

// reading is what objects are read with, but for rules.
func (s *Settings) reading() string { return strings.Join(s.Annotations, "\n") }

// config is what the member's state goes by.
func (s *Settings) config(matched *member.Rules) member.Config {
	c := &s.Cluster
	excluded := c.Replicates()
	return member.Config{
		Namespaces: c.Namespaces.Plain(),
		Covers:     c.Namespaces.Match,
		Replicates: func(svc *syncer.Service) bool { return excluded(svc) == "" },
		Selection:  fmt.Sprintf("%q %q %q %q", c.Namespaces.Include, c.Namespaces.Exclude, c.ServiceSelector, s.Annotations),
		Options: syncer.Options{AllowedCIDRs: c.Prefixes(), HoldSilentNodes: c.HoldSilentNodes.Value(),
			StableFor: c.StableFor.Value()},
		Rules:      matched,
		Drain:      c.Drain,
		StaleAfter: c.StaleAfter.Value(),
	}
}

// reader is what objects are read with from one moment on. Until it is in force, for lists
// have been read with it, pods are matched as before, too.
type reader struct {
	decoder       *decode.Decoder
	rules         *member.Rules
	match, former func(*corev1.Pod) uint64
	inForce       atomic.Bool
}

// reader returns a new one in place of a former; nil: there was none.
func (s *Settings) reader(former *reader) *reader {
	r := &reader{decoder: decode.New(decode.Options{Keep: s.keep}), match: func(*corev1.Pod) uint64 { return 0 }}
	if set := s.Rules; set != nil {
		r.rules = &member.Rules{For: func(svc *syncer.Service) syncer.Rules {
			return syncer.Rules{Applies: set.Applies(svc), Then: set.Then()}
		}}
		r.match = set.Match
	}
	if former != nil {
		r.former = former.match
	}
	r.inForce.Store(former == nil)
	return r
}

// pod reads a pod.
func (r *reader) pod(o *corev1.Pod) item[syncer.Pod] {
	v := item[syncer.Pod]{Versioned: r.decoder.Pod(o), by: r}
	v.Object.Matches = r.match(o)
	if v.former = v.Object.Matches; !r.inForce.Load() {
		v.former = r.former(o)
	}
	return v
}
