// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"tributary.dev/tributary/clusters/config/strict"
)

// ClustersFrom are members that the file does not name.
type ClustersFrom struct {
	// Secrets are members, each by its name, for as long as they exist. The key
	// `kubeconfig` holds what a kubeconfig file would. Annotations such as
	// `tributary.dev/staleAfter: 30m` are the other fields of `clusters[]`. Lists and
	// mappings are as in `[a, b]` and `{a: b}`. `allowInKubeconfig` is not among them. A
	// cluster of the file with the same name counts instead. One whose annotations are
	// refused goes on with its former settings. Without any it is a member that is not
	// followed, and what stands of it stays.
	Secrets *SecretSource `json:"secrets"`
}

// SecretSource says which Secrets of the ingress cluster are members. Whoever may
// write them decides what the ingress cluster routes to.
type SecretSource struct {
	// Namespace holds the Secrets. Empty means Tributary's own.
	Namespace string `json:"namespace"`
	// Selector is the label selector that they match.
	Selector string `json:"selector"`
}

// SetDefaults puts the defaults of a source in place.
func (s *SecretSource) SetDefaults() { s.Selector = SecretLabel + "=" + SecretLabelValue }

// What a Secret that is a member looks like; its name is the member's.
const (
	// SecretLabel with SecretLabelValue is what clustersFrom.secrets.selector selects by default.
	SecretLabel      = "tributary.dev/member"
	SecretLabelValue = "true"
	// SecretKey is the key of the kubeconfig.
	SecretKey = "kubeconfig"
	// SecretAnnotation begins the annotations that are settings: tributary.dev/staleAfter.
	SecretAnnotation = "tributary.dev/"
)

// Secret is one that is a member. It may be formatted: the kubeconfig is left out.
type Secret struct {
	Namespace, Name string
	Annotations     map[string]string
	Kubeconfig      []byte
}

// String names the Secret.
func (s Secret) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// GoString is String: the content is never formatted.
func (s Secret) GoString() string { return s.String() }

// unsettable are fields that whoever writes a Secret may not set: what it is, and what Tributary does on its behalf.
var unsettable = []string{"name", "kubeconfig", "allowInKubeconfig"}

// cluster is the member that a Secret describes, on top of what all share. With faults it is one of which only the name
// and a drain are known.
func (s Secret) cluster(defaults Cluster) (Cluster, Faults) {
	var faults Faults
	fields := strict.Fields(reflect.TypeFor[Cluster]())
	values := map[string]any{}
	refused := settled{defaults}
	refused.Name, refused.Kubeconfig, refused.Force, refused.unsettled = s.Name, s.String(), false, true
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		name, found := strings.CutPrefix(key, SecretAnnotation)
		if !found {
			continue
		}
		if slices.Contains(unsettable, name) {
			faults = append(faults, Fault{Field: key, Message: "is not for a Secret to say", Remedy: "take the annotation away"})
			continue
		}
		i := slices.IndexFunc(fields, func(f strict.Field) bool { return f.Name == name })
		if i >= 0 && fields[i].Type.Kind() == reflect.String {
			values[name] = s.Annotations[key]
			continue
		}
		var value any
		if err := yaml.Unmarshal([]byte(s.Annotations[key]), &value); err != nil {
			faults = append(faults, Fault{Field: key, Message: "is not valid YAML", Remedy: "write the value as in the configuration file, lists as [a, b]"})
			continue
		}
		values[name] = value
	}
	text, err := json.Marshal(values)
	if err != nil {
		faults = append(faults, Fault{Message: "has annotations that are no settings: " + err.Error()})
		return refused.Cluster, faults.In(s.String())
	}
	out := settled{defaults}
	faults = append(faults, strict.Decode(text, &out, strict.Exact)...)
	out.Name, out.Kubeconfig = s.Name, s.String()
	var k checker
	k.cluster("", &out.Cluster)
	faults = append(faults, unrelated(k.faults, faults)...)
	for i, fault := range faults {
		if name := strings.TrimPrefix(fault.Field, "."); name != "name" && !strings.HasPrefix(name, SecretAnnotation) {
			faults[i].Field = SecretAnnotation + name
		} else {
			faults[i].Field = name
		}
	}
	if len(faults) > 0 {
		refused.Drain = out.Drain
		return refused.Cluster, faults.In(s.String())
	}
	return out.Cluster, nil
}

// settled is a Cluster that starts from given values instead of the defaults.
type settled struct{ Cluster }

// SetDefaults leaves what is given.
func (*settled) SetDefaults() {}

// withSecrets adds the members that are Secrets to those of the file, which win where names meet. One whose settings
// are refused keeps those that it had before, whoever said them, but for how it is reached; one that had none is a
// member all the same. wrong are the faults of each. A nil list is one that nobody has read yet: then what stands of
// clusters that are not configured stays, whatever the policy for orphans, for it may be of these.
func (c Config) withSecrets(file string, secrets []Secret, before map[string]Cluster) (_ Config, wrong map[string]Faults) {
	if c.ClustersFrom.Secrets == nil {
		return c, nil
	}
	wrong = map[string]Faults{}
	if secrets == nil {
		c.Replicas.Orphans = OrphansKeep
	}
	c.Clusters = slices.Clone(c.Clusters)
	named := byName(c.Clusters)
	for _, secret := range slices.SortedFunc(slices.Values(secrets), func(a, b Secret) int { return cmp.Compare(a.Name, b.Name) }) {
		if _, taken := named[secret.Name]; taken {
			wrong[secret.Name] = Faults{{File: secret.String(), Message: fmt.Sprintf("is called as a cluster of %s, which counts", file), Remedy: "rename one of the two"}}
			continue
		}
		member, faults := secret.cluster(c.ClusterDefaults)
		if former, known := before[secret.Name]; len(faults) > 0 && known && !former.unsettled {
			if former.Kubeconfig != member.Kubeconfig {
				former.Connection = member.Connection
			}
			member = former
		}
		if len(faults) > 0 {
			wrong[secret.Name] = faults
		}
		c.Clusters = append(c.Clusters, member)
	}
	c.compile()
	return c, wrong
}
