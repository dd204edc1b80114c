// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// views has every version of the members' objects, to tell what a client that watches
// them can have seen. Pods and Services are separate watches without a common order: for
// a moment, or while one is broken, a client sees the current pod with a former Service,
// or the reverse. What follows from such a mixed view was never wanted, but is correct;
// upstream's controllers do the same. But a client never sees an older version than
// before.
type views struct {
	services map[followed][]version[*corev1.Service]
	pods     map[podOf][]version[*corev1.Pod]
	facts    map[pair]map[Fact]bool
}

// podOf names a pod by its UID, because names are reused.
type podOf struct{ cluster, uid string }

// version is an object during a period, nil if it did not exist. The versions of an
// object cover all time.
type version[T any] struct {
	from, to time.Duration
	object   T
}

// met reports whether a client whose view is between from and to can have seen the
// version.
func (v *version[T]) met(from, to time.Duration) bool { return v.to > from && v.from <= to }

// view is the versions of a Service and of a pod that a client has seen last.
type view struct{ service, pod int }

// pair names a version of a Service together with one of a pod.
type pair struct {
	service followed
	pod     podOf
	view    view
}

const forever = time.Duration(1<<63 - 1)

func viewsOf(h *History) *views {
	v := &views{
		services: map[followed][]version[*corev1.Service]{}, pods: map[podOf][]version[*corev1.Pod]{}, facts: map[pair]map[Fact]bool{},
	}
	named := map[followed]podOf{} // the pod that currently has the name
	for i := range h.Events {
		e := &h.Events[i]
		id := followed{e.Cluster, e.Kind, e.Key}
		switch {
		case e.Cluster == h.Ingress || !h.covers(e.Key.Namespace):
		case e.Kind == Service:
			s, _ := e.Object.(*corev1.Service)
			v.services[id] = next(v.services[id], e.At, s)
		case e.Kind == Pod:
			p, _ := e.Object.(*corev1.Pod)
			if before, had := named[id]; had && (p == nil || string(p.UID) != before.uid) {
				v.pods[before] = next(v.pods[before], e.At, nil)
				delete(named, id)
			}
			if p != nil {
				pod := podOf{e.Cluster, string(p.UID)}
				named[id] = pod
				v.pods[pod] = next(v.pods[pod], e.At, p)
			}
		}
	}
	return v
}

// next ends the last version of an object and adds one.
func next[T any](versions []version[T], at time.Duration, object T) []version[T] {
	if len(versions) == 0 {
		versions = append(versions, version[T]{to: forever})
	}
	versions[len(versions)-1].to = at
	return append(versions, version[T]{from: at, to: forever, object: object})
}

// follow returns the possible views, between from and to, of a client that had one of the
// former views and now sees a fact with this value. Only the least advanced ones are
// returned, because they allow whatever the others allow. None: it is impossible.
func (v *views) follow(f Fact, former []view, value bool, from, to time.Duration) (now []view) {
	service, pod := followed{f.Cluster, Service, f.Replica}, podOf{f.Cluster, f.UID}
	services, pods := always(v.services[service]), always(v.pods[pod])
	least := len(pods)
	for i := range services {
		if !services[i].met(from, to) {
			continue
		}
		for j := range least {
			reached := slices.ContainsFunc(former, func(x view) bool { return x.service <= i && x.pod <= j })
			if !reached || !pods[j].met(from, to) || v.wanted(service, pod, view{i, j})[f] != value {
				continue
			}
			now = append(now, view{i, j})
			least = j
			break
		}
	}
	return now
}

// always returns one version without an object for what never existed.
func always[T any](versions []version[T]) []version[T] {
	if len(versions) == 0 {
		return []version[T]{{to: forever}}
	}
	return versions
}

// wanted returns the facts that follow from one version of a Service and of a pod.
func (v *views) wanted(service followed, pod podOf, at view) map[Fact]bool {
	key := pair{service, pod, at}
	facts, known := v.facts[key]
	if known {
		return facts
	}
	s, p := always(v.services[service])[at.service].object, always(v.pods[pod])[at.pod].object
	if s != nil && p != nil {
		facts = Wanted(service.Cluster, s, slices.Values([]*corev1.Pod{p}))
	}
	v.facts[key] = facts
	return facts
}
