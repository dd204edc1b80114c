// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
)

// Interval is the time between two looks at the files. A change takes effect after two
// looks that agree: within two seconds.
const Interval = time.Second

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
	// SecretErrors is why Secrets are no members: each is about the name of one.
	SecretErrors []error
	// SecretsUnread is true while members are wanted from Secrets of which no list was
	// offered yet. What stands of clusters that are not configured may be theirs.
	SecretsUnread bool

	file string
}

// String keeps what it holds out of logs.
func (l *Loaded) String() string { return "configuration " + l.file }

// GoString is String, for the same reason.
func (l *Loaded) GoString() string { return l.String() }

// Err is everything that is wrong at the moment: with the file, with kubeconfigs and with
// Secrets. nil if nothing is.
func (l *Loaded) Err() error {
	all := []error{l.Refused, l.Ingress.Err}
	for _, c := range l.Config.Clusters {
		all = append(all, l.Members[c.Name].Err)
	}
	return errors.Join(append(all, l.SecretErrors...)...)
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
	// NAMESPACE/NAME. Neither: this process's pod is in the cluster.
	File, Secret string
	// Context is the one of the kubeconfig that is used, and Note what an operator should
	// know about it, such as the program that it runs; both may be empty.
	Context, Note string
	// Err says why the kubeconfig as it stands, or the settings of a Secret, are not those
	// in use; nil when they are.
	Err error
}

// Watcher follows a configuration file, every kubeconfig that it names, and every
// certificate and key that those name.
//
// It reads them at an interval and compares what they hold, instead of asking the kernel
// for events: that works on every file system, needs no care about what is renamed or
// swapped behind a symlink as Kubernetes projects Secrets, and no event can be missed.
//
// A Watcher is for one goroutine, Offer aside: Open, then Loaded for the start, then Run.
type Watcher struct {
	path string
	read func(path string) ([]byte, error)

	file followed
	// files are the kubeconfigs and what they name, by path. used are those that the last
	// assembly read.
	files map[string]*followed
	used  map[string]bool
	// config is the last valid file, started what the process started with, refused why
	// the file as it stands is not config.
	config, started *Config
	refused         error
	secrets         *[]Secret
	loaded          *Loaded
	// offered is the last list of Secrets, wake tells of it.
	offered atomic.Pointer[[]Secret]
	wake    chan struct{}
}

// Open reads the files for the first time. It fails, with an *Error, if the configuration
// file is not valid; what is wrong with a kubeconfig concerns its cluster alone and is in
// Access.Err.
func Open(path string) (*Watcher, error) { return open(path, kubeconfig.ReadFile) }

func open(path string, read func(string) ([]byte, error)) (*Watcher, error) {
	w := &Watcher{path: path, read: read, files: map[string]*followed{}, wake: make(chan struct{}, 1)}
	w.file.settle(w.look(path))
	c, err := w.parse(w.file.settled)
	if err != nil {
		return nil, err
	}
	w.config, w.started = c, c
	w.assemble()
	return w, nil
}

// Loaded is what counts now. It is not for use beside Run.
func (w *Watcher) Loaded() *Loaded { return w.loaded }

// Offer hands over a complete list of the Secrets that clustersFrom selects. It may be
// called from any goroutine; Run passes it on at once.
func (w *Watcher) Offer(secrets []Secret) {
	secrets = append([]Secret{}, secrets...)
	w.offered.Store(&secrets)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Use is Offer for whoever does not Run.
func (w *Watcher) Use(secrets []Secret) *Loaded {
	w.Offer(secrets)
	w.poll()
	return w.loaded
}

// Run looks at the files until ctx ends and calls apply, on this goroutine, with what
// counts from now on whenever that has changed. While apply runs, no look is taken.
func (w *Watcher) Run(ctx context.Context, apply func(*Loaded)) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.wake:
		}
		if w.poll() && ctx.Err() == nil {
			apply(w.loaded)
		}
	}
}

// poll takes one look at every file, and reports whether anything is new.
func (w *Watcher) poll() bool {
	changed := w.file.look(w.look(w.path))
	if changed {
		var next *Config
		if next, w.refused = w.parse(w.file.settled); w.refused == nil {
			w.config = next
		}
	}
	for path, f := range w.files {
		changed = f.look(w.look(path)) || changed
	}
	secrets := w.offered.Load()
	changed = changed || secrets != w.secrets
	w.secrets = secrets
	if changed {
		w.assemble()
	}
	return changed
}

func (w *Watcher) look(path string) content {
	data, err := w.read(path)
	return content{data, err}
}

func (w *Watcher) parse(c content) (*Config, error) {
	if c.err != nil {
		return nil, in(w.path, field.ErrorList{whole(c.err.Error())})
	}
	return Parse(w.path, c.data)
}

// readNamed reads a file that the configuration or a kubeconfig names, and follows it from
// then on: another content counts when it has settled.
func (w *Watcher) readNamed(path string) ([]byte, error) {
	f := w.files[path]
	if f == nil {
		f = &followed{}
		f.settle(w.look(path))
		w.files[path] = f
	}
	w.used[path] = true
	return f.settled.data, f.settled.err
}

// assemble puts the file, the Secrets and the kubeconfigs that count together. A cluster
// whose kubeconfig is refused keeps the way that it had before.
func (w *Watcher) assemble() {
	before := w.loaded
	if before == nil {
		before = &Loaded{}
	}
	w.used = map[string]bool{}
	out := &Loaded{Members: map[string]Access{}, Rules: w.config.program, Refused: w.refused, file: w.path}
	out.Config, out.Restart = w.config.keeping(w.started)
	ingress := &out.Config.Ingress
	out.Ingress = w.access(field.NewPath("ingress"), ingress.Kubeconfig, ingress.Context, before.Ingress)
	for i := range out.Config.Clusters {
		m := &out.Config.Clusters[i]
		out.Members[m.Name] = w.access(field.NewPath("clusters").Index(i), m.Kubeconfig, m.Context, before.Members[m.Name])
	}
	if out.Config.ClustersFrom.Secrets != nil {
		if out.SecretsUnread = w.secrets == nil; !out.SecretsUnread {
			out.addSecrets(*w.secrets, before)
		}
	}
	maps.DeleteFunc(w.files, func(path string, _ *followed) bool { return !w.used[path] })
	if reflect.DeepEqual(out.Config, before.Config) {
		out.Config = before.Config // what is new is elsewhere
	}
	w.loaded = out
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

// access is the way to a cluster by a file, or from within where none is named. The field
// below at names it.
func (w *Watcher) access(at *field.Path, path, context string, before Access) (out Access) {
	at = at.Child("kubeconfig")
	defer func() { out.File, out.Secret = path, "" }()
	if path == "" {
		accepted, err := kubeconfig.InCluster(w.readNamed)
		if err != nil {
			err = in(w.path, field.ErrorList{field.Required(at, err.Error())})
		}
		return before.with(accepted, err)
	}
	data, err := w.readNamed(path)
	if err != nil {
		return before.with(nil, in(w.path, field.ErrorList{detailed(field.NotFound(at, path), err.Error())}))
	}
	accepted, faults := kubeconfig.FromFile(path, context, data, w.readNamed)
	return before.with(accepted, in(path, faults))
}

// with is the way that was accepted, or the former one and why.
func (a Access) with(accepted *kubeconfig.Accepted, err error) Access {
	if err != nil {
		a.Err = err
		return a
	}
	return Access{REST: accepted.REST, Hash: accepted.Hash, Context: accepted.Context, Note: accepted.Note}
}
