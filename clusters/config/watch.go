// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/rules"
)

// Interval is the time between two looks at the files. A change takes effect after two
// looks that agree: within two seconds.
const Interval = time.Second

// content is the result of one look at a file: its text, or why there was none.
type content struct{ text, problem string }

// followed is one file that is looked at again and again. A new content counts when two
// looks in a row saw it: what is being written in place is seen growing, and a file that
// is deleted and created again is missed at one look at most.
type followed struct{ settled, seen content }

// look takes one look's content and reports whether what counts has changed.
func (f *followed) look(now content) (changed bool) {
	changed = now == f.seen && now != f.settled
	if changed {
		f.settled = now
	}
	f.seen = now
	return changed
}

// Watcher follows a configuration file, every kubeconfig that it names, and every
// certificate and key that those name.
//
// It reads them at an interval and compares what they hold, instead of asking the kernel
// for events: that works on every file system, needs no care about what is renamed or
// swapped behind a symlink as Kubernetes projects Secrets, and no event can be missed.
//
// A Watcher is for one goroutine, and Offer for another: Open, then Loaded for the start, then Run.
type Watcher struct {
	path string
	read func(path string) ([]byte, error)
	// files are those that the last assembly read.
	files map[string]*followed
	// config is the last valid file, refused why the current file is another.
	config  *Config
	refused error
	// secrets is the last list of Secrets, nil if there was none; offered has the next.
	secrets []Secret
	offered chan []Secret
	loaded  *Loaded
}

// Open reads the files for the first time. It fails if the configuration file is not valid;
// what is wrong with a kubeconfig concerns its cluster alone and is in Access.Err.
func Open(path string) (*Watcher, error) { return open(path, kubeconfig.ReadFile) }

func open(path string, read func(string) ([]byte, error)) (*Watcher, error) {
	w := &Watcher{path: path, read: read, offered: make(chan []Secret, 1), loaded: &Loaded{}}
	w.assemble()
	if w.refused != nil {
		return nil, w.refused
	}
	return w, nil
}

// Loaded is what counts now. It is not for use beside Run.
func (w *Watcher) Loaded() *Loaded { return w.loaded }

// Offer hands over a complete list of the Secrets that clustersFrom selects, which Run passes on
// at once. It does not wait for Run.
func (w *Watcher) Offer(secrets []Secret) {
	select {
	case <-w.offered: // an older list, which nobody needs any more
	default:
	}
	w.offered <- secrets
}

// Use has a complete list of the Secrets count, for whoever does not Run.
func (w *Watcher) Use(secrets []Secret) *Loaded {
	w.secrets = append([]Secret{}, secrets...)
	w.assemble()
	return w.loaded
}

// Run looks at the files until ctx ends and calls apply, on this goroutine, with what
// counts from now on whenever that has changed. While apply runs, no file is read.
func (w *Watcher) Run(ctx context.Context, apply func(*Loaded)) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			if w.poll() {
				apply(w.loaded)
			}
		case secrets := <-w.offered:
			apply(w.Use(secrets))
		}
	}
}

// poll takes one look at every file, and reports whether anything is new.
func (w *Watcher) poll() (changed bool) {
	for path, f := range w.files {
		changed = f.look(w.look(path)) || changed
	}
	if changed {
		w.assemble()
	}
	return changed
}

func (w *Watcher) look(path string) content {
	data, err := w.read(path)
	if err != nil {
		return content{problem: err.Error()}
	}
	return content{text: string(data)}
}

// follow has no file followed but those that are read from now on by the function that it
// returns: what counts of them.
func (w *Watcher) follow() (read func(path string) ([]byte, error)) {
	former := w.files
	w.files = map[string]*followed{}
	return func(path string) ([]byte, error) {
		f := cmp.Or(w.files[path], former[path])
		if f == nil {
			now := w.look(path)
			f = &followed{now, now}
		}
		w.files[path] = f
		if f.settled.problem != "" {
			return nil, errors.New(f.settled.problem)
		}
		return []byte(f.settled.text), nil
	}
}

// assemble puts the file, the Secrets and the kubeconfigs that count together. What it does
// not read is followed no longer.
func (w *Watcher) assemble() {
	before, read := w.loaded, w.follow()
	var next *Config
	text, err := read(w.path)
	if err != nil {
		err = in(cmp.Or(w.path, `""`), kubeconfig.Whole(err.Error()+"; --config names the configuration file"))
	} else {
		next, err = Parse(w.path, text)
	}
	switch {
	case err == nil:
		w.config, w.refused = next, nil
	case w.refused == nil || w.refused.Error() != err.Error(): // the same refusal is reported once
		w.refused = err
	}
	if w.config == nil {
		return
	}
	out := &Loaded{Members: map[string]Access{}, Refused: w.refused}
	out.Config, out.Restart = w.config.withFixed(cmp.Or(before.Config, w.config))
	out.Rules, _ = rules.Compile(nil, w.config.Rules) // which Validate has accepted
	ingress := &out.Config.Ingress
	out.Ingress = w.access(field.NewPath("ingress"), ingress.Kubeconfig, ingress.Context, before.Ingress, read)
	for i, m := range out.Config.Clusters {
		out.Members[m.Name] = w.access(field.NewPath("clusters").Index(i), m.Kubeconfig, m.Context, before.Members[m.Name], read)
	}
	if out.Config.ClustersFrom.Secrets != nil {
		out.SecretsUnread = w.secrets == nil
		out.addSecrets(w.secrets, before)
	}
	if reflect.DeepEqual(out.Config, before.Config) {
		out.Config = before.Config // what is new is elsewhere
	}
	w.loaded = out
}

// access is the way to a cluster by a file, or from within where none is named. A kubeconfig
// that is refused leaves the way as it was before. The field below at names the file.
func (w *Watcher) access(at *field.Path, path, context string, before Access, read func(string) ([]byte, error)) Access {
	at = at.Child("kubeconfig")
	if path == "" {
		accepted, err := kubeconfig.InCluster(read)
		if err != nil {
			err = in(w.path, field.Required(at, err.Error()))
		}
		return before.with("", "", accepted, err)
	}
	data, err := read(path)
	if err != nil {
		return before.with(path, "", nil, in(w.path, kubeconfig.Detailed(field.NotFound(at, path), err.Error())))
	}
	accepted, faults := kubeconfig.FromFile(path, context, data, read)
	return before.with(path, "", accepted, in(path, faults...))
}
