// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Explained is a Service of the member with what becomes of each of its pods.
type Explained struct {
	store.Explained
	// Kept is why a pod counts as ready that the member shows as not ready, by pod.
	Kept map[syncer.Key]HoldReason
	// Waits are pods that are ready and return later, by pod.
	Waits map[syncer.Key]Wait
}

// Explain says what becomes of the Services behind a replica, and of the Service of
// that very name, replicated or not.
func (s *State) Explain(key syncer.Key) []Explained {
	services := s.store.Sources(key)
	if !slices.Contains(services, key) {
		services = append(services, key)
	}
	var all []Explained
	for _, service := range services {
		e, found := s.store.Explain(service)
		if !found {
			continue
		}
		out := Explained{Explained: e, Kept: map[syncer.Key]HoldReason{}, Waits: s.waits(service)}
		for i := range e.Pods {
			if why := s.readiness.keeps(e.Pods[i].Key); why != "" {
				out.Kept[e.Pods[i].Key] = why
			}
			if _, waits := out.Waits[e.Pods[i].Key]; waits {
				e.Pods[i].Verdict.Ready, out.Ready, out.NotReady = false, out.Ready-1, out.NotReady+1
			}
		}
		all = append(all, out)
	}
	return all
}
