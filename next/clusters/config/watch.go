// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"tributary.dev/tributary/next/clusters/rules"
)

// Loaded is a configuration together with the way to each of its clusters. It is never
// changed once it has been handed out. It holds credentials: String keeps them out of
// logs.
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
	// SecretsUnread is true while members are wanted from Secrets of which no list was
	// offered yet. What stands of clusters that are not configured may be theirs.
	SecretsUnread bool
}

// Access is the way to one cluster.
type Access struct {
	// REST is made from the last kubeconfig that was accepted; nil if there has been
	// none. It is shared: change a rest.CopyConfig of it.
	REST *rest.Config
	// Hash identifies REST: two equal ones lead to the same place with the same
	// credential. Empty while REST is nil.
	Hash string
	// File and Secret are where the kubeconfig is kept, one of them: a path, or
	// NAMESPACE/NAME. Neither: the service account of this process's pod.
	File, Secret string
	// Context is the one of the kubeconfig that is used.
	Context string
	// Note is what an operator should know about the kubeconfig, such as the program that
	// it runs; empty if there is nothing.
	Note string
	// Expires is when the credential ends; zero if it does not say.
	Expires time.Time
	// Err says why the kubeconfig, as it stands, is not the one in use, or why the
	// settings of a Secret are not; nil when they are.
	Err error
}

// Secret is a labelled kubeconfig Secret of the own namespace.
type Secret struct {
	Namespace, Name string
	// Settings is the annotation SettingsAnnotation.
	Settings string
	// Kubeconfig is the data under SecretKey.
	Kubeconfig []byte
}

// What a Secret that is a member looks like; its name is the member's.
const (
	// SecretLabel with SecretLabelValue is what clustersFrom.secrets.selector selects by
	// default.
	SecretLabel      = "tributary.dev/member"
	SecretLabelValue = "true"
	// SecretKey is the key of the kubeconfig.
	SecretKey = "kubeconfig"
	// SettingsAnnotation holds fields of clusters[], as YAML.
	SettingsAnnotation = "tributary.dev/settings"
)

// Watcher follows a configuration file, every kubeconfig that it names, and every file
// that those name.
type Watcher struct{ loaded *Loaded }

// Open reads the files for the first time. It fails if the configuration file is not
// valid; what is wrong with a kubeconfig concerns its cluster alone (Access.Err).
func Open(path string) (*Watcher, error) { return nil, nil }

// Loaded is what counts now. Not while Run runs on another goroutine.
func (w *Watcher) Loaded() *Loaded { return w.loaded }

// Offer hands over a complete list of the Secrets that clustersFrom selects. It may be
// called from any goroutine.
func (w *Watcher) Offer(secrets []Secret) {}

// Use is Offer for whoever does not Run.
func (w *Watcher) Use(secrets []Secret) *Loaded { return w.loaded }

// Run looks at the files until ctx ends and calls apply, on this goroutine, with what
// counts from now on whenever that changed.
func (w *Watcher) Run(ctx context.Context, apply func(*Loaded)) {}
