// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// The reasons for a conflict that are not plan's.
const (
	// ConflictExcluded: the namespace may not be written to.
	ConflictExcluded = "excluded_namespace"
	// ConflictRefused: the ingress cluster does not take a write.
	ConflictRefused = "write_refused"
)

// troubles are what is wrong with replicas. All methods are safe for concurrent use.
type troubles struct {
	events *kube.Events

	mu sync.Mutex
	// failed are the objects whose last write was not taken, and why.
	failed map[syncer.Key]map[plan.Object]error
	// told is what the last Event about a replica said.
	told map[syncer.Key]string
}

// wrote notes what became of a write.
func (t *troubles) wrote(key syncer.Key, o plan.Object, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && t.failed[key] == nil:
	case err == nil:
		if delete(t.failed[key], o); len(t.failed[key]) == 0 {
			delete(t.failed, key)
		}
	case t.failed[key] == nil:
		t.failed[key] = map[plan.Object]error{o: err}
	default:
		t.failed[key][o] = err
	}
}

// of is what is wrong with a replica by a comparison. Who leads posts an Event about it.
func (t *troubles) of(c *Comparison, leads bool) metrics.Trouble {
	var out metrics.Trouble
	conflict := func(reason, member, message string) {
		out.Conflicts = append(out.Conflicts, metrics.Conflict{Reason: reason, Cluster: member, Message: message})
	}
	if c.Excluded && c.Want != nil {
		conflict(ConflictExcluded, "", c.obstacle().Error())
	}
	for _, one := range c.Waiting.Conflicts {
		conflict(string(one.Reason), one.Member, one.Message)
	}
	if c.Waiting.Reason != "" {
		conflict(string(c.Waiting.Reason), "", "nothing is written before that is mended")
	}
	if c.Want != nil {
		for _, one := range c.Want.Rejected {
			out.Rejected = append(out.Rejected, metrics.Rejection{Cluster: one.Member, Address: one.Address, Reason: string(one.Reason)})
		}
		for _, one := range c.Want.Orphans {
			out.Orphans = append(out.Orphans, metrics.OrphanStatus{Cluster: one.Member, Endpoints: one.Endpoints})
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(c.Actions) == 0 && !c.Waiting.More {
		delete(t.failed, c.Replica)
	}
	for o, err := range t.failed[c.Replica] {
		conflict(ConflictRefused, "", o.String()+": "+err.Error())
	}
	if leads {
		t.lockedPost(c, out.Conflicts)
	}
	return out
}

// lockedPost posts an Event about what is wrong with a replica when that changes.
func (t *troubles) lockedPost(c *Comparison, conflicts []metrics.Conflict) {
	if t.events == nil || len(conflicts) == 0 && t.told[c.Replica] == "" {
		return
	}
	var reasons, messages []string
	for _, one := range conflicts {
		reasons, messages = append(reasons, one.Reason+" "+one.Cluster), append(messages, one.Reason+": "+one.Message)
	}
	now, was := strings.Join(reasons, "; "), t.told[c.Replica]
	if now == was {
		return
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: c.Replica.Namespace, Name: c.Replica.Name}
	if c.Now.Service != nil {
		about.UID = types.UID(c.Now.Service.UID) // by which people's tools find it
	}
	if now == "" {
		delete(t.told, c.Replica)
		t.events.Post(about, corev1.EventTypeNormal, "TributaryConflictCleared", "no longer: "+was)
		return
	}
	t.told[c.Replica] = now
	t.events.Post(about, corev1.EventTypeWarning, "TributaryConflict", strings.Join(messages, "; "))
}
