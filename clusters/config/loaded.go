// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"slices"

	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
)

// Loaded is a configuration together with the way to each of its clusters. It is never
// changed once it has been handed out.
type Loaded struct {
	// Config has the members from Secrets after those of the file. Fields that need a
	// restart are as they were when the process started.
	Config *Config
	// Rules are those of the configuration, compiled; Rules.For has those of a member.
	Rules *rules.Program
	// Ingress is the way to the ingress cluster.
	Ingress Access
	// Members has the way to each of Config.Clusters, by name.
	Members map[string]Access
	// Restart are the fields of the file whose edit needs a restart to take effect.
	Restart []string
	// Refused is why the file, as it stands, is not the one in use; nil when it is.
	Refused error
	// SecretErrors is why Secrets are no members: each is about the name of one.
	SecretErrors []error
	// SecretsUnread is true while members are wanted from Secrets of which no list was
	// offered yet. What stands of clusters that are not configured may be theirs.
	SecretsUnread bool
}

// Err is everything that is wrong at the moment: with the file, with kubeconfigs and with
// Secrets. nil if nothing is.
func (l *Loaded) Err() error {
	all := []error{l.Refused, l.Ingress.Err}
	for _, c := range l.Config.Clusters {
		all = append(all, l.Members[c.Name].Err)
	}
	return errors.Join(append(all, l.SecretErrors...)...)
}

// Access is the way to one cluster, by the last kubeconfig that was accepted; REST is nil
// and Hash empty if there has been none.
type Access struct {
	kubeconfig.Accepted
	// File and Secret are where the kubeconfig is kept, one of them: a path, or
	// NAMESPACE/NAME. Neither: this process's pod is in the cluster.
	File, Secret string
	// Err says why the kubeconfig as it stands, or the settings of a Secret, are not those
	// in use; nil when they are.
	Err error
}

// with is the way that was accepted, or the former one and why.
func (a Access) with(accepted *kubeconfig.Accepted, err error) Access {
	if err != nil {
		a.Err = err
		return a
	}
	return Access{Accepted: *accepted}
}

// keeping is the configuration with those fields of another that cannot change while a
// process runs, and the names of those in which they differ.
func (c *Config) keeping(started *Config) (running *Config, differ []string) {
	out := *c
	out.Clusters = slices.Clone(c.Clusters)
	for _, f := range []struct {
		name string
		is   *string
		was  string
	}{
		{"listen", &out.Listen, started.Listen},
		{"metricsListen", &out.MetricsListen, started.MetricsListen},
		{"instance", &out.Instance, started.Instance},
		{"namespace", &out.Namespace, started.Namespace},
	} {
		if *f.is != f.was {
			*f.is, differ = f.was, append(differ, f.name)
		}
	}
	if out.LeaderElection != started.LeaderElection {
		out.LeaderElection, differ = started.LeaderElection, append(differ, "leaderElection")
	}
	return &out, differ
}
