// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"tributary.dev/tributary/internal/apitest/model"
)

// spell has something go on for a while; nil: nothing has begun.
func spell(begin func(w *world, s Step) (end func())) doing {
	return func(w *world, s Step) bool {
		end := begin(w, s)
		if end != nil {
			w.until(span(s.C), end)
		}
		return end != nil
	}
}

// pick is a member, pickCluster one or the ingress cluster, and pickLink is that of a process to one.
func (w *world) pick(s Step) *Cluster        { return w.members[s.A%len(w.members)] }
func (w *world) pickCluster(s Step) *Cluster { return w.clusters[s.A%len(w.clusters)] }
func (w *world) pickLink(s Step) *link {
	return w.link(w.processes[s.A/7%len(w.processes)].name, w.pickCluster(s))
}

func pickFrom[T any](of []T, n int) (none T) {
	if len(of) == 0 {
		return none
	}
	return of[n%len(of)]
}

func in(pick func(*world, Step) *Cluster, do func(*Cluster, Step)) doing {
	return func(w *world, s Step) bool {
		do(pick(w, s), s)
		return true
	}
}

func onWorkload(do func(c *Cluster, l *workload, n int)) doing {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		l := pickFrom(c.workloads, s.B)
		if l != nil {
			do(c, l, s.C)
			c.soon(l)
		}
		return l != nil
	}
}

func onPod(do func(w *world, c *Cluster, pod *corev1.Pod, n int)) doing {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		live := slices.DeleteFunc(slices.Clone(c.All(model.Pods, "")), func(o model.Object) bool { return finished(o.(*corev1.Pod)) || o.(*corev1.Pod).Status.PodIP == "" })
		pod, ok := pickFrom(live, s.B).(*corev1.Pod)
		if ok {
			do(w, c, pod, s.C)
		}
		return ok
	}
}

func onService(edit func(svc *corev1.Service, n int)) doing {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		svc := pickFrom(c.All(model.Services, ""), s.B)
		return svc != nil && c.Edit(model.IDOf(svc), func(o model.Object) { edit(o.(*corev1.Service), s.C) }) != nil
	}
}

// onReplica has others do something to an object of ours, and meddle has them change one.
func onReplica(do func(w *world, o model.Object, n int) bool) doing {
	return func(w *world, s Step) bool {
		all := slices.Concat(w.ingress.All(model.Services, ""), w.ingress.All(model.Endpoints, ""), w.ingress.All(model.EndpointSlices, ""))
		o := pickFrom(slices.DeleteFunc(all, func(o model.Object) bool { return !ours(o) }), s.B)
		return o != nil && do(w, o, s.C)
	}
}

func (w *world) meddle(o model.Object, change func(model.Object)) bool {
	w.at[obstructed], w.at[meddled] = w.now, w.now
	return w.ingress.Edit(model.IDOf(o), change) != nil
}

// onLink makes a link be at fault for a while.
func onLink(is *fault) act {
	return act{is.name, 1, true, spell(func(w *world, s Step) (end func()) {
		l := w.pickLink(s)
		if l.fault != sound {
			return nil
		}
		l.change(func(l *link) { l.fault = is })
		w.note("%s is %s for %s", l.name, is.name, span(s.C))
		return func() { l.change(func(l *link) { l.fault = sound }) }
	})}
}

func onConfig(change func(*Config, Step)) doing {
	return func(w *world, s Step) bool { return w.reconfigure(func(c *Config) { change(c, s) }) }
}

func onMember(change func(*MemberConfig, Step)) doing {
	return func(w *world, s Step) bool {
		name := w.pick(s).name
		return w.config.member(name) != nil && w.reconfigure(func(c *Config) { change(c.member(name), s) })
	}
}

// onSeen does something to a member as each process sees it.
func (w *world) onSeen(c *Cluster, do func(*seen)) bool {
	for _, p := range w.processes {
		if m := memberOf(p.members, c.name); m != nil {
			do(m)
		}
	}
	return true
}
