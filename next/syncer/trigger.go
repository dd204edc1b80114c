// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"iter"
	"time"
)

// TriggerState remembers, for one Service, the time of each of its pods by pod
// name, and the Service's own under the empty name: Unix seconds. Nil before
// the first call of NextTrigger.
type TriggerState map[string]int64

// NextTrigger returns the value of the annotation
// endpoints.kubernetes.io/last-change-trigger-time for a Service and the pods
// that its selector matches, listed or not: on the first call the Service's
// creation, later the earliest time that is newer than the remembered one of
// the same object. It is zero when nothing has become newer, and then upstream
// removes the annotation. It must be called once for each computation, since
// each call forgets what the one before reported.
//
// The state is updated in place, because a Service may have thousands of pods
// of which one changed; use the returned one, and guard it as the store it
// lives in. Rule source: TriggerTimeTracker in k8s.io/endpointslice/util.
func NextTrigger(state TriggerState, svc *Service, pods iter.Seq[*Pod]) (TriggerState, time.Time) {
	known := state != nil
	if !known {
		state = TriggerState{}
	}
	var earliest int64
	present := 0
	note := func(name string, at int64) {
		present++
		before, had := state[name]
		if had && before == at {
			return
		}
		if at > before && (earliest == 0 || at < earliest) {
			earliest = at
		}
		state[name] = at
	}
	for pod := range pods {
		if pod.ReadySince != 0 {
			note(pod.Name, pod.ReadySince)
		}
	}
	note("", svc.Created)
	if present != len(state) {
		forget(state, pods)
	}
	if !known {
		earliest = svc.Created
	}
	if earliest == 0 {
		return state, time.Time{}
	}
	return state, time.Unix(earliest, 0).UTC()
}

// forget drops the pods that are gone.
func forget(state TriggerState, pods iter.Seq[*Pod]) {
	present := make(map[string]bool, len(state))
	for pod := range pods {
		present[pod.Name] = pod.ReadySince != 0
	}
	for name := range state {
		if name != "" && !present[name] {
			delete(state, name)
		}
	}
}
