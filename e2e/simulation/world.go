// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/endpointslice/util"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// world is everything in one case.
type world struct {
	schedule
	laws
	seed      uint64
	ingress   *Cluster
	members   []*Cluster // sorted by name
	clusters  []*Cluster // the members and the ingress cluster
	processes []*Process
	links     map[string]*link
	// pods are all that members ever had, by UID; hand maps hand-written addresses to their members.
	pods map[string]*podTruth
	hand map[string]string
	// config is the current configuration; record has the UIDs on record, by member.
	config *Config
	record map[string]string
	// obstacles are what admission refuses, or lets hang; edits is true while it mutates what is written.
	obstacles []obstacle
	edits     bool
	// at is when something last happened, by event and, for some, the name of the object.
	at map[string]time.Duration
	// pending are the ends of acts that last for a while; lived is when a member last changed.
	pending []func()
	lived   time.Duration
	// notes and met: see Run and Result.
	notes *strings.Builder
	met   map[string]int
}

// The events of world.at.
const (
	configured = "configured"
	obstructed = "an obstacle has gone"
	hung       = "one that let requests hang has gone"
	meddled    = "others have changed what is ours"
	unleased   = "somebody has deleted the Lease"
	gone       = "gone: "
	lied       = "lists have lacked what is there: "
	saved      = "saved: "
	restored   = "restored: "
	thawed     = "frozen until: "
)

// recent reports whether something happened less than a duration ago, lately less than that of a Lease.
func (w *world) recent(what string, d time.Duration) bool {
	return w.at[what] != 0 && w.now-w.at[what] < d
}
func (w *world) lately(what string) bool { return w.recent(what, leaseTime) }

func newWorld(seed uint64, members, processes int, notes *strings.Builder) *world {
	w := &world{seed: seed, links: map[string]*link{}, record: map[string]string{}, pods: map[string]*podTruth{}, hand: map[string]string{}, at: map[string]time.Duration{}, notes: notes, met: map[string]int{}}
	w.config = &Config{Members: map[string]*member.Config{}, Settings: reconcile.Settings{
		MayWrite: func(string) bool { return true },
		Settings: plan.Settings{Instance: instance, WriteEndpoints: true, CreateNamespaces: true, CopyLabel: func(string) bool { return true }},
	}}
	w.laws = laws{ever: map[syncer.Key]bool{}, removed: map[place]time.Duration{}}
	w.ingress = newCluster(w, 0, "ingress", 0)
	w.ingress.ensureNamespace(leaseID.Namespace)
	w.ingress.Admission = w.admit
	for i := range members {
		c := newCluster(w, i+1, string(rune('a'+i)), time.Duration(i)*3*time.Second)
		w.members = append(w.members, c)
		m := &member.Config{Replicates: func(svc *syncer.Service) bool { return svc.Annotations[syncer.AnnotationReplicate] != "false" }}
		only(m, nil)
		w.config.Members[c.name] = m
	}
	w.clusters = append(slices.Clone(w.members), w.ingress)
	for _, c := range w.clusters {
		c.Changed = func(ch model.Change) { w.changed(c, ch) }
	}
	for i := range processes {
		w.processes = append(w.processes, newProcess(w, fmt.Sprintf("p%d", i), time.Duration(i)*1500*time.Millisecond))
	}
	w.sweeps()
	return w
}

func (w *world) sweeps() {
	w.sweep()
	w.after(sweepEvery, w.sweeps)
}

// until schedules the end of something, which heal may bring forward.
func (w *world) until(d time.Duration, do func()) {
	end := sync.OnceFunc(do)
	w.pending = append(w.pending, end)
	w.after(d, end)
}

// note adds a comment to the notes.
func (w *world) note(format string, of ...any) {
	if w.notes != nil {
		fmt.Fprintf(w.notes, "# %s %s\n", w.now, fmt.Sprintf(format, of...))
	}
}

// link returns the link of a process to a cluster. It outlives the process.
func (w *world) link(process string, c *Cluster) *link {
	name := process + ">" + c.name
	if w.links[name] == nil {
		w.links[name] = &link{schedule: &w.schedule, rng: newRNG(w.seed, name), name: name, cluster: c, home: c, fault: sound, latency: time.Millisecond}
	}
	return w.links[name]
}

// changed records a change in a cluster, and schedules the reactions of the ingress cluster's
// controllers.
func (w *world) changed(c *Cluster, ch model.Change) {
	o := ch.Object()
	if w.notes != nil && model.KindOf(o) != model.Leases {
		w.note("%s: revision %d, %s", c.name, ch.Revision, describe(ch))
	}
	svc, service := o.(*corev1.Service)
	if service {
		w.ever[keyOf(svc)] = true
	}
	if model.KindOf(o) == model.Endpoints { // the controller that mirrors them may be far behind
		c.after(time.Duration(ch.Revision%20)*2*time.Second, func() { c.mirror(model.IDOf(o)) })
	}
	switch {
	case c != w.ingress:
		w.lived = max(w.lived, w.now)
		w.observe(c, ch)
	case service && ch.After == nil: // the garbage collector deletes what the Service owned
		w.at[gone+model.IDOf(svc).String()] = w.now
		w.after(c.within(100*time.Millisecond, 3*time.Second), func() {
			for _, o := range c.All(model.EndpointSlices, svc.Namespace) {
				if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == svc.UID }) {
					c.Remove(o)
				}
			}
		})
	case service && len(svc.Spec.Selector) > 0: // the endpoints controller finds no pods for a selector
		w.after(c.within(100*time.Millisecond, time.Second), func() {
			if now := model.Of[*corev1.Service](c.Server, model.IDOf(svc)); now != nil && len(now.Spec.Selector) > 0 {
				model.Edit(c.Server, model.Endpoints.ID(svc.Namespace, svc.Name), func(o *corev1.Endpoints) { o.Subsets = nil })
			}
		})
	}
}

// leader is the process that may write, nil if none may.
func (w *world) leader() *Process { return first(w.processes, (*Process).leads) }

// describe describes a change for people.
func describe(c model.Change) string {
	id := model.IDOf(c.Object())
	switch o := c.After.(type) {
	case nil:
		return fmt.Sprint(id, " is gone")
	case *corev1.Pod:
		return fmt.Sprintf("%s %s %s ready=%t terminating=%t", id, o.UID[24:], o.Status.PodIP, upstream.IsPodReady(o), o.DeletionTimestamp != nil)
	case *corev1.Service:
		return fmt.Sprintf("%s selector=%v", id, o.Spec.Selector)
	}
	return fmt.Sprint(id, " ", placesOf(c.After))
}

// instance is the name of the installation.
const instance = "sim"

// Config is the content of the configuration file. It is immutable once in use.
type Config struct {
	reconcile.Settings
	Members  map[string]*member.Config
	Failover bool   // the members' names are the failover order
	Excluded string // a namespace that may not be written to
}

// only restricts a member to namespaces with a stream each; nil: one stream for all.
func only(m *member.Config, namespaces []string) {
	m.Namespaces, m.Covers = namespaces, func(namespace string) bool { return namespaces == nil || slices.Contains(namespaces, namespace) }
}

// place is a member's place in the failover order.
func (c *Config) place(name string) int {
	if !c.Failover {
		return 0
	}
	return int(name[0] - 'a')
}

// reconfigure changes the configuration file, which each process applies soon.
func (w *world) reconfigure(change func(*Config)) bool {
	c := *w.config
	c.Members = maps.Clone(c.Members)
	change(&c)
	c.MayWrite = func(namespace string) bool { return namespace != c.Excluded }
	w.config, w.at[configured] = &c, w.now
	for _, p := range w.processes {
		p.after(p.within(0, time.Second), func() {
			if w.config == &c {
				p.configure(&c)
			}
		})
	}
	return true
}
