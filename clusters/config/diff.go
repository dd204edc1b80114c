// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
)

// Diff is what differs between two configurations. Lists hold names of members
// and are sorted.
type Diff struct {
	// Added and Removed members. A renamed one is both.
	Added, Removed []string
	// Reconnect lists members that are reached differently: another server,
	// credential or limit.
	Reconnect []string
	// Changed lists members of which other fields differ: what is taken from
	// them, or where it goes. A member may be in Reconnect as well.
	Changed []string
	// Refused lists members whose kubeconfig is refused, for a reason that is new;
	// an added one too. They go on with what they had.
	Refused []string
	// Ingress is true if the ingress cluster is reached differently, and
	// IngressRefused if its kubeconfig is refused for a reason that is new.
	Ingress, IngressRefused bool
	// Replicas is true if what is written differs, and Listen if what is served where does
	// (an address, a certificate).
	Replicas, Listen bool
	// Policy is true if how the Services of members that stay share replicas may
	// differ: a mode, a drain, the order of the members.
	Policy bool
	// Annotations is true if other annotations are taken over: Services have to be
	// read again, because what is not taken over is not kept.
	Annotations bool
	// Sinks is true if who is told outside of Kubernetes, or how, differs.
	Sinks bool
}

// Compare lists what differs from old to new. Neither may be nil. It is pure.
func Compare(old, new *Loaded) Diff {
	d := Diff{
		Ingress:        old.Ingress.Hash != new.Ingress.Hash,
		IngressRefused: refusedAnew(old.Ingress, new.Ingress),
		Replicas:       !reflect.DeepEqual(old.Config.Replicas, new.Config.Replicas) || !slices.Equal(old.Config.Ingress.Namespaces, new.Config.Ingress.Namespaces),
		Listen:         old.Config.served() != new.Config.served() || old.Metrics.TLS != new.Metrics.TLS,
		Policy:         old.Config.Policy().differs(new.Config.Policy()),
		Sinks:          !reflect.DeepEqual(old.Config.Sinks, new.Config.Sinks),
		Annotations:    !reflect.DeepEqual(old.Config.Replicas.Annotations, new.Config.Replicas.Annotations),
	}
	moved := !reflect.DeepEqual(old.Config.Replicas.placing(), new.Config.Replicas.placing())
	moved = moved || !reflect.DeepEqual(old.Config.Readiness, new.Config.Readiness) || !reflect.DeepEqual(old.Config.Rules, new.Config.Rules)
	before := byName(old.Config.Clusters)
	after := byName(new.Config.Clusters)
	for name := range before {
		if _, stays := after[name]; !stays {
			d.Removed = append(d.Removed, name)
		}
	}
	for name, now := range after {
		if refusedAnew(old.Members[name], new.Members[name]) {
			d.Refused = append(d.Refused, name)
		}
		was, stayed := before[name]
		if !stayed {
			d.Added = append(d.Added, name)
			continue
		}
		if old.Members[name].Hash != new.Members[name].Hash {
			d.Reconnect = append(d.Reconnect, name)
		}
		if moved || !reflect.DeepEqual(was.taken(), now.taken()) {
			d.Changed = append(d.Changed, name)
		}
	}
	for _, names := range [][]string{d.Added, d.Removed, d.Reconnect, d.Changed, d.Refused} {
		slices.Sort(names)
	}
	return d
}

func refusedAnew(old, new Access) bool {
	return new.Err != nil && (old.Err == nil || old.Err.Error() != new.Err.Error())
}

func byName(clusters []Cluster) map[string]Cluster {
	out := make(map[string]Cluster, len(clusters))
	for _, c := range clusters {
		out[c.Name] = c
	}
	return out
}

// taken is the member without what says how it is reached.
func (c Cluster) taken() Cluster {
	c.Connection, c.meaning = Connection{}, nil
	return c
}

// served is what the configuration says of its pages.
func (c *Config) served() any {
	return [...]any{c.Listen, c.MetricsListen, c.MetricsTLS, c.MetricsTokenReview}
}

// placing is the part of the fields that decides where Services go.
func (r Replicas) placing() Replicas {
	return Replicas{Mode: r.Mode, SeparateName: r.SeparateName, Rules: r.Rules}
}
