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

// check compares what is published with what the state was told, and with what the state would publish now.
func (h *history) check() {
	if h.wants { // a Published is still to come
		return
	}
	if left := h.forgotten(); len(left) > 0 {
		h.fault("%v changed and were not marked dirty", left)
	}
	for replica, endpoints := range h.published {
		if h.unread(replica) {
			continue
		}
		for i := range endpoints {
			e := &endpoints[i]
			asked := h.state.asking.about(e) // it was gone before the Published came
			if uid := e.Target.UID; h.gone[uid] && !h.lives(uid) && !asked {
				h.fault("HARD: %s is published in %s", uid, replica)
			}
		}
	}
}

// unread reports whether a Service has lost its selector and its hand-written endpoints, which may name any
// pod, have yet to be read: until then what is published stays.
func (h *history) unread(replica syncer.Key) bool {
	return h.state.hand[replica] && h.state.handUnread(replica)
}

// checkSeen compares what is published of a pod with the pod that was just seen, unless an answer has shown a newer one.
func (h *history) checkSeen(pod *syncer.Pod, at uint64) {
	if _, revision, _ := h.state.tables.Pod(pod.Key); revision > at {
		return
	}
	for replica, endpoints := range h.published {
		if h.unread(replica) {
			continue
		}
		for i := range endpoints {
			e := &endpoints[i]
			if e.Target.UID == pod.UID && e.Grade > syncer.NotReady && (!pod.Ready || pod.Terminating) && !h.wants {
				h.fault("HARD: %s is published as ready in %s", pod.UID, replica)
			}
		}
	}
}

// checkWrite compares a write with the truth.
func (h *history) checkWrite(replica syncer.Key, before []syncer.Endpoint) {
	after := h.published[replica]
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
		if !t.bad && has(before, e) && !has(after, e) && h.selected(&t.pod, replica) {
			h.fault("NOWIPE: %s left %s", e, replica)
		}
	}
}

// selected reports whether a Service selects a pod, and always did.
func (h *history) selected(pod *syncer.Pod, replica syncer.Key) bool {
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

// checkTruth compares what is published with the whole cluster.
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
		for _, e := range h.world.published[replica] {
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
			h.fault("CONV: %s exists without a Service", replica)
		}
	}
}
