// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"time"
)

// pickCluster is a member, or the ingress cluster.
func (w *world) pickCluster(s Step) *Cluster {
	return w.clusters[s.A%len(w.clusters)]
}

func (w *world) pickLink(s Step) *link {
	p := w.processes[s.A/7%len(w.processes)]
	return w.link(p.name, w.pickCluster(s))
}

// obstruct puts an obstacle before the ingress cluster's store for a while.
func (w *world) obstruct(o obstacle, d time.Duration) {
	w.note("the ingress cluster refuses %+v for %s", o, d)
	w.obstacles = append(w.obstacles, o)
	w.until(d, func() {
		w.obstacles = slices.DeleteFunc(w.obstacles, func(other obstacle) bool { return other == o })
		if w.obstructed = w.now; o.hangs {
			w.hung = w.now
		}
	})
}

// pickReplica is an object of ours in the ingress cluster.
func (w *world) pickReplica(s Step) Object {
	var all []Object
	for _, kind := range []Kind{Services, Endpoints, EndpointSlices} {
		all = append(all, slices.DeleteFunc(slices.Clone(w.ingress.all(kind, "")), func(o Object) bool { return !ours(o) })...)
	}
	return pickFrom(all, s.B)
}

// meddle has others change an object of ours.
func (w *world) meddle(s Step, change func(Object)) bool {
	o := w.pickReplica(s)
	if o == nil {
		return false
	}
	w.obstructed, w.meddled = w.now, w.now
	w.ingress.edit(idOf(o), change)
	return true
}

// terminate is the namespace controller.
func (w *world) terminate(id ID) {
	for _, kind := range []Kind{EndpointSlices, Endpoints, Services} {
		for _, o := range w.ingress.all(kind, id.Name) {
			if w.ingress.get(idOf(o)) != nil {
				w.ingress.remove(o)
			}
		}
	}
	if o := w.ingress.get(id); o != nil {
		w.ingress.remove(o)
		w.obstructed = w.now
	}
}

// restart ends a process and begins another in its place.
func (w *world) restart(i int, inOrder bool) {
	former := w.processes[i]
	w.note("%s is restarted, in order %t", former.name, inOrder)
	former.end()
	if inOrder {
		former.release()
	}
	w.processes[i] = newProcess(w, former.name, former.skew)
}

// swap has another cluster answer at a member's address.
func (w *world) swap(from, to *Cluster) {
	w.note("at the address of %s is %s", from.name, to.name)
	for _, name := range slices.Sorted(maps.Keys(w.links)) {
		if l := w.links[name]; l.cluster == from {
			l.change(func(l *link) { l.cluster = to })
		}
	}
}

// reconfigure writes the configuration file, which each process reads soon.
func (w *world) reconfigure(change func(*Config)) bool {
	w.config = w.config.clone()
	change(w.config)
	w.configured = w.now
	c := w.config
	w.note("the configuration is %+v", *c)
	for _, p := range w.processes {
		p.after(p.within(0, time.Second), func() {
			if c == w.config {
				p.configure(c)
			}
		})
	}
	w.laws.allDirty()
	return true
}

func onMember(change func(*MemberConfig, Step)) func(*world, Step) bool {
	return func(w *world, s Step) bool {
		name := w.pick(s).name
		if w.config.member(name) == nil {
			return false
		}
		return w.reconfigure(func(c *Config) { change(c.member(name), s) })
	}
}
