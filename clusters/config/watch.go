// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/kubeconfig"
)

// DefaultInterval is the time between two looks at the files. A change takes
// effect after two looks that agree: within two seconds.
const DefaultInterval = time.Second

// Watcher follows a configuration file, every kubeconfig that it names, and every file
// that those name.
//
// It reads them at an interval and compares what they hold, instead of asking
// the kernel for events: that works on every file system (network shares and
// overlays send no events), it needs no care about what is renamed, re-created
// or swapped behind a symlink as Kubernetes projects Secrets, and no event can be
// missed. A hundred small files a second cost a few milliseconds.
//
// A Watcher is for one goroutine: Open, then Loaded for the start, then Run.
type Watcher struct {
	path     string
	interval time.Duration
	read     func(path string) ([]byte, error)
	local    func(file, field string, read func(string) ([]byte, error)) (*kubeconfig.Accepted, error)

	// file is the configuration file; kubeconfigs and the files that those name are
	// followed by resolved path. used are the latter as far as they were read for what
	// counts.
	file               followed
	kubeconfigs, files map[string]*followed
	used               map[string]bool
	// config is the last valid file, of this text, secrets the last list of Secrets that was used,
	// and loaded what counts: both together. err is why the file as it stands is not
	// that one.
	config  Config
	text    []byte
	secrets *[]Secret
	loaded  *Loaded
	err     error
	// offered is the last list that was offered, wake tells of it.
	offered atomic.Pointer[[]Secret]
	wake    chan struct{}
}

// Update is news from the files.
type Update struct {
	// Loaded counts from now on. It is never nil.
	Loaded *Loaded
	// Diff is what differs from the Loaded before.
	Diff Diff
	// Reloaded is true if the configuration file itself changed; once for each
	// new content of it.
	Reloaded bool
	// Err is why the configuration file as it stands is refused, of type Faults;
	// Loaded.Config is then the last valid one. It stays until the file is mended,
	// while Reloaded is true only the first time.
	Err error
	// SecretFaults is what is wrong with the settings of Secrets, if that is news.
	SecretFaults Faults
}

// Open reads the files for the first time. It fails, with Faults, if the configuration
// file is not valid. What is wrong with a kubeconfig concerns its cluster alone and is
// found in Access.Err, or for all of them in Loaded.Faults.
func Open(path string) (*Watcher, error) {
	return open(&Watcher{path: path, interval: DefaultInterval, read: kubeconfig.ReadFile, local: kubeconfig.InCluster})
}

func open(w *Watcher) (*Watcher, error) {
	w.kubeconfigs, w.files, w.wake = map[string]*followed{}, map[string]*followed{}, make(chan struct{}, 1)
	w.file.settle(w.look(w.path))
	c, err := w.parse(w.file.settled)
	if err != nil {
		return nil, err
	}
	for path := range w.named(&c) {
		w.kubeconfigs[path] = &followed{}
		w.kubeconfigs[path].settle(w.look(path))
	}
	w.config, w.text = c, w.file.settled.data
	w.loaded = w.assemble(nil)
	return w, nil
}

// Offer hands over a complete list of the Secrets that clustersFrom selects. It may be
// called from any goroutine; the list counts when Run has passed it on, at once.
func (w *Watcher) Offer(secrets []Secret) {
	secrets = append([]Secret{}, secrets...) // never nil, which would mean that nobody has read them
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

// Loaded is what counts now.
func (w *Watcher) Loaded() *Loaded { return w.loaded }

// String keeps the contents of the files out of logs.
func (w *Watcher) String() string { return "config.Watcher of " + w.path }

// GoString is String, for the same reason.
func (w *Watcher) GoString() string { return w.String() }

// Run looks at the files until the context ends and calls apply, on this
// goroutine, with what is new. While apply runs, no look is taken.
func (w *Watcher) Run(ctx context.Context, apply func(Update)) {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.wake:
		}
		if update, news := w.poll(); news && ctx.Err() == nil {
			apply(update)
		}
	}
}

// poll takes one look at every file.
func (w *Watcher) poll() (Update, bool) {
	config := w.config
	now := w.look(w.path)
	reloaded := w.file.look(now)
	// The kubeconfigs that a new content names are looked at from its first sight,
	// so that they settle together with it.
	following := w.named(&config)
	next, err := config, error(nil)
	if !now.equal(w.file.settled) || reloaded {
		if next, err = w.parse(now); err == nil {
			err = w.located(w.fixed(&next), now.data)
		}
		if err == nil {
			maps.Copy(following, w.named(&next))
		}
	}
	if reloaded {
		if w.err = err; err == nil {
			config, w.text = next, now.data
		}
	}
	w.config = config
	secrets := w.offered.Load()
	others := w.secrets != secrets
	w.secrets = secrets
	if changed := w.follow(following); !changed && !reloaded && !others {
		return Update{}, false
	}
	before := w.loaded
	w.loaded = w.assemble(before)
	update := Update{Loaded: w.loaded, Diff: Compare(before, w.loaded), Reloaded: reloaded, Err: w.err}
	if !slices.Equal(before.SecretFaults, w.loaded.SecretFaults) {
		update.SecretFaults = w.loaded.SecretFaults
	}
	return update, true
}

func (w *Watcher) look(path string) content {
	data, err := w.read(path)
	return content{data, err}
}

func (w *Watcher) parse(c content) (Config, error) {
	if c.err != nil {
		return Config{}, Faults{{File: w.path, Message: c.err.Error(), Remedy: "give the path of the configuration file"}}
	}
	return Parse(w.path, c.data)
}

// fixed refuses what a running process cannot change: who it is, and where the Lease is that
// other processes of the installation ask for until they have read the file, too.
func (w *Watcher) fixed(next *Config) error {
	var faults Faults
	running := &w.loaded.Config
	lease := func(c *Config) string { return cmp.Or(c.LeaderElection.Namespace, running.OwnNamespace()) }
	for _, f := range []struct{ field, is, next string }{
		{"instance", running.Instance, next.Instance}, {"namespace", running.Namespace, next.Namespace},
		{"leaderElection.namespace", lease(running), lease(next)},
	} {
		if f.is != f.next {
			faults = append(faults, Fault{File: w.path, Field: f.field, Message: fmt.Sprintf("is %q, and was %q when this process started", f.next, f.is), Remedy: "restart it, or put the former value back"})
		}
	}
	return faults.Err()
}

// located puts places to those faults that are about the configuration file, of this text.
func (w *Watcher) located(err error, text []byte) error {
	if faults, ok := errors.AsType[Faults](err); ok {
		return faults.Locate(w.path, text)
	}
	return err
}

// named is the set of kubeconfigs that a configuration names.
func (w *Watcher) named(c *Config) map[string]bool {
	out := map[string]bool{}
	if c.Ingress.Kubeconfig != "" {
		out[resolve(w.path, c.Ingress.Kubeconfig)] = true
	}
	for i := range c.Clusters {
		out[resolve(w.path, c.Clusters[i].Kubeconfig)] = true
	}
	return out
}

// follow looks at the kubeconfigs and what they name, forgets those that are not named any more,
// and reports whether what counts of any has changed.
func (w *Watcher) follow(paths map[string]bool) bool {
	maps.DeleteFunc(w.kubeconfigs, func(path string, _ *followed) bool { return !paths[path] })
	changed := false
	for path := range paths {
		f := w.kubeconfigs[path]
		if f == nil {
			f = &followed{}
			w.kubeconfigs[path] = f
		}
		changed = f.look(w.look(path)) || changed
	}
	for path, f := range w.files {
		changed = f.look(w.look(path)) || changed
	}
	return changed
}

// readNamed reads a file that a kubeconfig names (a certificate, key, CA or token), and
// follows it from then on: another content counts when it has settled.
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

// assemble puts the file, the Secrets and the kubeconfigs that count together. A
// cluster whose kubeconfig is refused keeps what it had before.
func (w *Watcher) assemble(before *Loaded) *Loaded {
	if before == nil {
		before = &Loaded{}
	}
	w.used = map[string]bool{}
	defer maps.DeleteFunc(w.files, func(path string, _ *followed) bool { return !w.used[path] })
	var secrets []Secret
	if w.secrets != nil {
		secrets = *w.secrets
	}
	c, wrong := w.config.withSecrets(w.path, secrets, byName(before.Config.Clusters))
	out := &Loaded{
		Config:  c,
		Ingress: w.access("ingress", &c.Ingress.Connection, before.Ingress, c.Ingress.scope()),
		Members: make(map[string]Access, len(c.Clusters)),

		file: w.path, text: w.text,
		SecretsUnread: w.config.ClustersFrom.Secrets != nil && w.secrets == nil,
	}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		out.SecretFaults = append(out.SecretFaults, wrong[name]...)
	}
	out.Metrics = w.certificate(&c, before.Metrics)
	for i := range w.config.Clusters {
		member := &c.Clusters[i]
		out.Members[member.Name] = w.access(fmt.Sprintf("clusters[%d]", i), &member.Connection, before.Members[member.Name], "")
	}
	for i := range c.Clusters[len(w.config.Clusters):] {
		member := &c.Clusters[len(w.config.Clusters)+i]
		at := slices.IndexFunc(secrets, func(s Secret) bool { return s.Name == member.Name })
		out.Members[member.Name] = w.secretAccess(secrets[at], member, wrong[member.Name], before.Members[member.Name])
	}
	return out
}

// secretAccess judges the kubeconfig of a Secret by the same rules as a file. wrong is what is wrong with its settings.
func (w *Watcher) secretAccess(s Secret, member *Cluster, wrong Faults, before Access) Access {
	accepted, err := kubeconfig.Accept(s.Kubeconfig, kubeconfig.Request{
		Path: s.String(), Context: member.Context, Allow: member.AllowInKubeconfig, ReadFile: w.readNamed,
	})
	out := before
	switch {
	case err != nil:
		out.Err, out.RefusedSettings = err, false
	case member.unsettled:
		out = Access{Err: wrong, RefusedSettings: true}
	default:
		out = member.limit(accepted, "annotation "+SecretAnnotation+"context")
		out.Err, out.RefusedSettings = wrong.Err(), len(wrong) > 0
	}
	out.File, out.Secret = "", s.Namespace+"/"+s.Name
	return out
}

// access is the way to a cluster; scope is what else of the configuration it depends on.
func (w *Watcher) access(owner string, c *Connection, before Access, scope string) Access {
	accepted, err := w.accept(owner, c)
	if err != nil {
		before.Err = w.located(err, w.text)
		return before
	}
	out := c.limit(accepted, owner+".context")
	if c.Kubeconfig != "" {
		out.File = resolve(w.path, c.Kubeconfig)
	}
	out.Hash += scope
	return out
}

func (w *Watcher) accept(owner string, c *Connection) (*kubeconfig.Accepted, error) {
	if c.Kubeconfig == "" {
		return w.local(w.path, owner+".kubeconfig", w.readNamed)
	}
	r := kubeconfig.Request{
		Path: resolve(w.path, c.Kubeconfig), Context: c.Context, Allow: c.AllowInKubeconfig,
		ConfigFile: w.path, Owner: owner, ReadFile: w.readNamed,
	}
	f := w.kubeconfigs[r.Path]
	switch {
	case f == nil || !f.known:
		return nil, Faults{kubeconfig.Unreadable(r, errStillWritten)}
	case f.settled.err != nil:
		return nil, Faults{kubeconfig.Unreadable(r, f.settled.err)}
	}
	return kubeconfig.Accept(f.settled.data, r)
}

// certificate reads that of metricsListen. One that cannot be used leaves the former in use.
func (w *Watcher) certificate(c *Config, before Certificate) Certificate {
	files := c.MetricsTLS
	if files == (MetricsTLS{}) {
		return Certificate{}
	}
	fault := func(field string, err error) Certificate {
		fault := Fault{File: w.path, Field: "metricsTLS." + field, Message: err.Error(), Remedy: "put a PEM certificate and its key there"}
		before.Err = w.located(Faults{fault}, w.text)
		return before
	}
	cert, err := w.readNamed(resolve(w.path, files.CertFile))
	if err != nil {
		return fault("certFile", err)
	}
	key, err := w.readNamed(resolve(w.path, files.KeyFile))
	if err != nil {
		return fault("keyFile", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fault("certFile", err)
	}
	if before.TLS != nil && before.Err == nil && slices.EqualFunc(before.TLS.Certificate, pair.Certificate, bytes.Equal) {
		return before
	}
	return Certificate{TLS: &pair}
}

// errStillWritten is worded to follow the name of a file.
var errStillWritten = errors.New("is still being written")
