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
)

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
	// Kubeconfig is what stands under SecretKey.
	Kubeconfig []byte
}

// String names the Secret: its content is never formatted.
func (s Secret) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// member is the one that a Secret describes, on top of what all share. With an error it is
// as if it had no settings.
func (s Secret) member(c *Config) (Cluster, error) {
	text, faults := toJSON([]byte(s.Settings))
	if len(faults) == 0 {
		faults, _ = strict(text, &ClusterSettings{})
	}
	if len(faults) == 0 {
		out := c.member(text)
		if out.Name, faults = s.Name, out.faults(nil); len(faults) == 0 {
			return out, nil
		}
	}
	plain := c.member(nil)
	plain.Name = s.Name
	return plain, in(s.String()+", annotation "+SettingsAnnotation, faults...)
}

// addSecrets puts the members that are Secrets after those of the file, which win where
// names meet. One whose settings are refused goes on with those that it had before. If it
// had none it is a member that is not followed: what stands of it stays.
func (l *Loaded) addSecrets(secrets []Secret, before *Loaded) {
	for _, s := range slices.SortedFunc(slices.Values(secrets), func(a, b Secret) int { return cmp.Compare(a.Name, b.Name) }) {
		named := func(m Cluster) bool { return m.Name == s.Name }
		at := field.NewPath("metadata", "name")
		if _, taken := l.Members[s.Name]; taken {
			wrong := kubeconfig.Detailed(field.Duplicate(at, s.Name), "the configuration file has a member of that name, which counts; rename one of the two")
			l.SecretErrors = append(l.SecretErrors, in(s.String(), wrong))
			continue
		}
		if len(validation.IsDNS1123Label(s.Name)) > 0 {
			wrong := field.Invalid(at, s.Name, "is the member's name and not a DNS label; rename it")
			l.SecretErrors = append(l.SecretErrors, in(s.String(), wrong))
			continue
		}
		way := before.Members[s.Name]
		member, err := s.member(l.Config)
		if err != nil && way.REST != nil {
			member = before.Config.Clusters[slices.IndexFunc(before.Config.Clusters, named)]
		}
		if way.Err = err; err == nil || way.REST != nil {
			accepted, faults := kubeconfig.FromSecret(member.Context, s.Kubeconfig)
			way = way.with(accepted, in(s.String(), faults...))
			way.Err = errors.Join(err, way.Err)
		}
		way.File, way.Secret = "", s.Namespace+"/"+s.Name
		l.Members[s.Name] = way
		l.Config.Clusters = append(l.Config.Clusters, member)
	}
}
