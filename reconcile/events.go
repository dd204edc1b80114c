// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// posted is what the last Event about each replica said.
type posted struct {
	events *Events
	mu     sync.Mutex
	told   map[syncer.Key]string
}

// post posts an Event about what is wrong with a replica when that changes. A namespace that may not be written to gets none.
func (p *posted) post(c *Comparison, conflicts []metrics.Conflict) {
	var reasons, messages []string
	for _, one := range conflicts {
		reasons, messages = append(reasons, one.Reason+" "+one.Cluster), append(messages, one.Reason+": "+one.Message)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, was := strings.Join(reasons, "; "), p.told[c.Replica]
	if p.events == nil || c.Excluded || now == was {
		return
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: c.Replica.Namespace, Name: c.Replica.Name}
	if c.Now.Service != nil {
		about.UID = types.UID(c.Now.Service.UID) // by which people's tools find it
	}
	if now == "" {
		delete(p.told, c.Replica)
		p.events.Post(about, corev1.EventTypeNormal, "TributaryConflictCleared", "no longer: "+was)
		return
	}
	p.told[c.Replica] = now
	p.events.Post(about, corev1.EventTypeWarning, "TributaryConflict", strings.Join(messages, "; "))
}
