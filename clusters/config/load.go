// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config/strict"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
)

// Parse decodes a configuration file, puts defaults in place and validates. It is
// pure; file is used in faults only. The error is of type Faults and names every
// fault that can be told from the text.
func Parse(file string, data []byte) (Config, error) {
	var c Config
	faults := strict.Decode(data, &c, strict.Exact)
	faults = append(faults, unrelated(c.Validate(), faults)...)
	if err := faults.Locate(file, data).In(file).Err(); err != nil {
		return Config{}, err
	}
	c.compile()
	return c, nil
}

// compile prepares what members need of the configuration as a whole.
func (c *Config) compile() {
	policy := c.Policy()
	if c.program == nil {
		c.program, _ = rules.Compile(c.podRules()) // validated
	}
	for i := range c.Clusters {
		c.Clusters[i].meaning = c.Clusters[i].compile(policy, c.Readiness, c.program)
	}
}

// unrelated keeps those faults of validation that do not merely follow from a
// fault of decoding: a field that could not be decoded is not "missing" as well.
func unrelated(validation, decoding Faults) Faults {
	return slices.DeleteFunc(validation, func(v Fault) bool {
		return slices.ContainsFunc(decoding, func(d Fault) bool {
			return d.Field == "" || within(v.Field, d.Field) || within(d.Field, v.Field)
		})
	})
}

// within reports whether field is parent or lies below it.
func within(field, parent string) bool {
	rest, found := strings.CutPrefix(field, parent)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Loaded is a configuration together with the way to each of its clusters. It is
// never changed once it has been handed out, and may be formatted.
type Loaded struct {
	Config  Config
	Ingress Access
	// Members has one entry for each of Config.Clusters, by name.
	Members map[string]Access
	// Metrics is the certificate of metricsListen.
	Metrics Certificate
	// SecretsUnread is true while members are wanted from Secrets of which no list was
	// read yet.
	SecretsUnread bool
	// SecretFaults is what is wrong with the settings of Secrets.
	SecretFaults Faults

	// file and text are what Config was read from.
	file string
	text []byte
}

// Fault is one of a field of the configuration file, with its place.
func (l *Loaded) Fault(field, message, remedy string) Fault {
	return Faults{{File: l.file, Field: field, Message: message, Remedy: remedy}}.Locate(l.file, l.text)[0]
}

// String keeps the text of the file out of logs.
func (l *Loaded) String() string { return "config.Loaded of " + l.file }

// GoString is String, for the same reason.
func (l *Loaded) GoString() string { return l.String() }

// Access is the way to one cluster.
type Access struct {
	// REST is made from the last kubeconfig that was accepted, with the limits of
	// the configuration; nil if there has been none. It is shared: change a
	// rest.CopyConfig of it.
	REST *rest.Config
	// Hash identifies REST: two equal ones lead to the same place with the same
	// credential and limits, and for the ingress cluster with the same pinned identity
	// and the same bounds. Empty while REST is nil.
	Hash string
	// File and Secret are where the kubeconfig is kept, one of them: the path of a file,
	// or NAMESPACE/NAME.
	File, Secret string
	// Err says why the kubeconfig, as it stands, is not the one in use; it is of
	// type Faults. Nil when it is.
	Err error
	// RefusedSettings is true where Err is about the settings of a Secret. REST is of its
	// kubeconfig all the same, or nil if none of its settings were ever accepted.
	RefusedSettings bool
	// Context is the context of the kubeconfig that REST is made from; "" in a cluster.
	Context string
	// Followed says that Context is one of several and that only the kubeconfig's
	// current-context names it, and what to write to hold it; "" otherwise.
	Followed string
}

// Certificate is what TLS is served with.
type Certificate struct {
	// TLS is the last one that could be used; nil if there has been none, or none is wanted.
	TLS *tls.Certificate
	// Err says why the files, as they stand, are not the one in use; it is of type Faults.
	Err error
}

// Faults lists what is wrong with the kubeconfigs (that of the ingress cluster, then
// those of the members in the order of the file), and with other files that are named.
func (l *Loaded) Faults() Faults {
	var out Faults
	add := func(err error) {
		if faults, ok := errors.AsType[Faults](err); ok {
			out = append(out, faults...)
		}
	}
	add(l.Ingress.Err)
	for _, c := range l.Config.Clusters {
		add(l.Members[c.Name].Err)
	}
	for _, fault := range l.SecretFaults {
		if !slices.Contains(out, fault) {
			out = append(out, fault)
		}
	}
	add(l.Metrics.Err)
	return out
}

// resolve is where a path that is written in the configuration file leads to.
func resolve(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// limit is the accepted client with the limits of the configuration. field is the one that
// names a context.
func (c *Connection) limit(accepted *kubeconfig.Accepted, field string) Access {
	out := Access{REST: rest.CopyConfig(accepted.REST), Hash: accepted.Hash, Context: accepted.Context}
	if accepted.Among > 0 {
		out.Followed = fmt.Sprintf("follows the current-context of its kubeconfig, %q, one of %d: write %s to hold it", accepted.Context, accepted.Among, field)
	}
	if qps := c.Client.QPS; qps > 0 {
		burst := c.Client.Burst
		if burst == 0 {
			burst = max(1, int(2*qps))
		}
		out.REST.QPS, out.REST.Burst = float32(qps), burst
		out.Hash = fmt.Sprintf("%s qps=%v burst=%d", accepted.Hash, qps, burst)
	}
	return out
}
