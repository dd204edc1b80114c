// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	// Refused is why the current file is not the one in use; nil when it is.
	Refused error
	// SecretErrors is why Secrets are no members: each is about the name of one.
	SecretErrors []error
	// SecretsUnread is true while members are wanted from Secrets of which no list was
	// offered yet. Endpoints of clusters that are not configured may be theirs.
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
	// File and Secret are where the kubeconfig is, one of them: a path, or
	// NAMESPACE/NAME. Neither: this process's pod is in the cluster.
	File, Secret string
	// Err says why the current kubeconfig, or the settings of a Secret, are not those
	// in use; nil when they are.
	Err error
}

// with returns the way to where a kubeconfig is: what was accepted of it, or the former with the
// error.
func (a Access) with(file, secret string, accepted *kubeconfig.Accepted, err error) Access {
	a.File, a.Secret, a.Err = file, secret, err
	if err == nil {
		a.Accepted = *accepted
	}
	return a
}

// withFixed is the configuration with those fields of another that cannot change while a
// process runs, and the names of those in which they differ.
func (c *Config) withFixed(started *Config) (running *Config, differ []string) {
	out := *c
	out.Clusters = slices.Clone(c.Clusters)
	fix := func(name string, is *string, was string) {
		if *is != was {
			*is, differ = was, append(differ, name)
		}
	}
	fix("listen", &out.Listen, started.Listen)
	fix("metricsListen", &out.MetricsListen, started.MetricsListen)
	fix("instance", &out.Instance, started.Instance)
	fix("namespace", &out.Namespace, started.Namespace)
	fix("ingress.identity", &out.Ingress.Identity, started.Ingress.Identity)
	if out.LeaderElection != started.LeaderElection {
		out.LeaderElection, differ = started.LeaderElection, append(differ, "leaderElection")
	}
	return &out, differ
}

// What a Secret that is a member looks like; its name is the member's.
const (
	// SecretLabel with SecretLabelValue is what clustersFrom.secrets.selector selects by
	// default.
	SecretLabel      = "tributary.dev/member"
	SecretLabelValue = "true"
	// SecretKey is the key of the kubeconfig.
	SecretKey = "kubeconfig"
	// SettingsAnnotation holds other fields of clusters[], as YAML.
	SettingsAnnotation = "tributary.dev/settings"
)

// Secret is a Secret of Tributary's own namespace that clustersFrom selects.
type Secret struct {
	Namespace, Name string
	// Settings is the annotation SettingsAnnotation.
	Settings string
	// Kubeconfig is the value of SecretKey.
	Kubeconfig []byte
}

// String names the Secret: its content is never formatted.
func (s Secret) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// member is the one that a Secret describes, on top of what all share. With an error it is
// as if it had no settings.
func (s Secret) member(c *Config) (Cluster, error) {
	out := c.member(nil)
	text, faults := toJSON([]byte(s.Settings))
	if len(faults) == 0 {
		faults, _ = strict(text, &out.ClusterSettings)
	}
	if len(faults) == 0 {
		faults = out.faults(nil)
	}
	if len(faults) > 0 {
		out = c.member(nil)
	}
	out.Name = s.Name
	return out, in(s.String()+", annotation "+SettingsAnnotation, faults...)
}

// addSecrets puts the members that are Secrets after those of the file, which win where
// names collide. One whose settings are refused continues with those that it had before. If
// it had none it is a member that is not followed: its endpoints stay.
func (l *Loaded) addSecrets(secrets []Secret, before *Loaded) {
	for _, s := range slices.SortedFunc(slices.Values(secrets), func(a, b Secret) int { return cmp.Compare(a.Name, b.Name) }) {
		var wrong *field.Error
		at := field.NewPath("metadata", "name")
		if _, taken := l.Members[s.Name]; taken {
			wrong = kubeconfig.Detailed(field.Duplicate(at, s.Name), "the configuration file has a member of that name, which counts; rename one of the two")
		} else if len(validation.IsDNS1123Label(s.Name)) > 0 {
			wrong = field.Invalid(at, s.Name, "is the member's name and not a DNS label; rename it")
		}
		if wrong != nil {
			l.SecretErrors = append(l.SecretErrors, in(s.String(), wrong))
			continue
		}
		way := before.Members[s.Name]
		member, err := s.member(l.Config)
		if err != nil && way.REST != nil {
			named := func(m Cluster) bool { return m.Name == s.Name }
			member = before.Config.Clusters[slices.IndexFunc(before.Config.Clusters, named)]
		}
		key := s.Namespace + "/" + s.Name
		if err != nil && way.REST == nil {
			way = way.with("", key, nil, err)
		} else {
			accepted, faults := kubeconfig.FromSecret(member.Context, s.Kubeconfig)
			if len(s.Kubeconfig) == 0 {
				faults = field.ErrorList{field.Required(field.NewPath("data", SecretKey), "store the kubeconfig under this key")}
			}
			way = way.with("", key, accepted, in(s.String(), faults...))
			way.Err = errors.Join(err, way.Err)
		}
		l.Members[s.Name] = way
		l.Config.Clusters = append(l.Config.Clusters, member)
	}
}
