// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// lag knows, for every cluster, the oldest change that is not written yet: of
// keys that wait, keys in backoff and keys with a worker. One heap per cluster
// holds one node for each (key, cluster), so a stamp costs O(log keys) and
// reading the oldest costs nothing.
type lag map[string]*heap

// stamp records that a change of the cluster arrived for the batch.
func (l lag) stamp(b *batch, cluster string, arrival time.Time) {
	for _, n := range b.stamps {
		if n.cluster == cluster {
			if arrival.Before(n.at) {
				n.at = arrival
				l[cluster].up(n.index)
			}
			return
		}
	}
	h := l[cluster]
	if h == nil {
		h = new(heap)
		l[cluster] = h
	}
	n := &node{at: arrival, cluster: cluster}
	h.push(n)
	b.stamps = append(b.stamps, n)
}

// clear forgets the batch's stamps: its changes are written.
func (l lag) clear(b *batch) {
	for _, n := range b.stamps {
		h := l[n.cluster]
		h.remove(n)
		if len(*h) == 0 {
			delete(l, n.cluster)
		}
	}
	b.stamps = nil
}

// OldestArrival returns when the oldest change of the cluster that is not yet
// written arrived, bulk changes and keys in work or backoff included. ok is
// false when nothing of the cluster waits. Safe for concurrent use.
func (q *Queue) OldestArrival(cluster string) (arrival time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.lag[cluster]
	if h == nil {
		return time.Time{}, false
	}
	return h.first().at, true
}

// OldestArrivals returns OldestArrival of every cluster that has something
// waiting. Causes without a cluster (repair of the ingress side, configuration)
// are under "". The map is the caller's.
func (q *Queue) OldestArrivals() map[string]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest := make(map[string]time.Time, len(q.lag))
	for cluster, h := range q.lag {
		oldest[cluster] = h.first().at
	}
	return oldest
}
