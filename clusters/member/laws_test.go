// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

func sorted[V any](m map[syncer.Key]V) []syncer.Key {
	return slices.SortedFunc(maps.Keys(m), syncer.Key.Compare)
}

// check holds what stands to what the state was told, and what it said to what it does.
func (h *history) check() {
	if h.wants { // what stands has yet to be looked at
		return
	}
	if left := h.forgotten(); len(left) > 0 {
		h.fault("nobody said that %v changed", left)
	}
	for replica, endpoints := range h.stands {
		for i := range endpoints {
			e := &endpoints[i]
			asked := h.state.asking.about(e) // it went before anybody looked at what stands
			if uid := e.Target.UID; h.gone[uid] && !h.lives(uid) && !asked {
				h.fault("HARD: %s stands in %s", uid, replica)
			}
		}
	}
}

// checkSeen holds what stands of a pod to what the pod has just shown.
func (h *history) checkSeen(pod *syncer.Pod) {
	for replica, endpoints := range h.stands {
		for i := range endpoints {
			e := &endpoints[i]
			if e.Target.UID == pod.UID && e.Grade > syncer.NotReady && (!pod.Ready || pod.Terminating) && !h.wants {
				h.fault("HARD: %s stands ready in %s", pod.UID, replica)
			}
		}
	}
}

// checkWrite holds a write to what is true.
func (h *history) checkWrite(replica syncer.Key, before []syncer.Endpoint) {
	after := h.stands[replica]
	has := func(all []syncer.Endpoint, uid string) bool {
		return slices.ContainsFunc(all, func(e syncer.Endpoint) bool { return e.Target.UID == uid })
	}
	for i := range after {
		if uid := after[i].Target.UID; uid != "" && !has(before, uid) && h.gone[uid] && !h.lives(uid) {
			h.fault("NOPHANTOM: %s came back in %s", uid, replica)
		}
	}
	for _, t := range h.pods {
		e := t.pod.UID
		if !t.bad && has(before, e) && !has(after, e) && h.chosen(&t.pod, replica) {
			h.fault("NOWIPE: %s left %s", e, replica)
		}
	}
}

// chosen reports whether a Service selects a pod, and always did.
func (h *history) chosen(pod *syncer.Pod, replica syncer.Key) bool {
	v, there := h.services[replica]
	return there && h.steady[replica] && v.Object.Selector != nil &&
		replica.Namespace == pod.Namespace && pod.Labels.Get("app") == v.Object.Selector["app"]
}

// lives reports whether a pod is in the cluster: again, if its store was restored.
func (h *history) lives(uid string) bool {
	for _, t := range h.pods {
		if t.pod.UID == uid {
			return true
		}
	}
	return false
}

// checkTruth compares what stands with the cluster, as somebody would who can see it whole.
func (h *history) checkTruth() {
	for replica := range h.services {
		want := map[syncer.TargetRef]syncer.Grade{}
		v := h.services[replica]
		if v.Object.Selector == nil {
			if e, ok := h.hand[replica]; ok {
				want[syncer.TargetRef{Key: syncer.Key{Name: e.Object.Subsets[0].Ready[0].Addr.String()}}] = syncer.Ready
			}
		}
		for key, t := range h.pods {
			if v.Object.Selector == nil || key.Namespace != replica.Namespace || t.pod.Labels.Get("app") != v.Object.Selector["app"] {
				continue
			}
			grade := syncer.NotReady
			if t.pod.Ready && !t.pod.Terminating {
				grade = syncer.Ready
			}
			want[syncer.TargetRef{Kind: Pods.String(), Key: key, UID: t.pod.UID}] = grade
		}
		is := map[syncer.TargetRef]syncer.Grade{}
		for _, e := range h.world.stands[replica] {
			if e.Target.Kind == "" {
				e.Target.Key.Name = e.Addr.String()
			}
			is[e.Target] = e.Grade
		}
		if !maps.Equal(want, is) || !h.world.services[replica] {
			h.fault("CONV: %s is %v, want %v", replica, is, want)
		}
	}
	for replica := range h.world.services {
		if _, there := h.services[replica]; !there {
			h.fault("CONV: %s stands without a Service", replica)
		}
	}
}
