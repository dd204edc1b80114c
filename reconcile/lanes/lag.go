// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// lag knows, for every cluster, the oldest change that is not written yet: of
// keys that wait, keys in backoff and keys with a worker, but for those that fail alone.
// One heap per cluster holds one node for each (key, cluster), so a stamp costs
// O(log keys) and reading the oldest costs nothing.
type lag map[string]*heap

// stamp records that a change of the cluster arrived for the batch.
func (l lag) stamp(b *batch, cluster string, arrival time.Time) {
	for _, n := range b.stamps {
		if n.cluster == cluster {
			if arrival.Before(n.at) {
				n.at = arrival
				if n.index != absent {
					l[cluster].up(n.index)
				}
			}
			return
		}
	}
	n := &node{at: arrival, cluster: cluster, index: absent}
	l.count(n)
	b.stamps = append(b.stamps, n)
}

func (l lag) count(n *node) {
	h := l[n.cluster]
	if h == nil {
		h = new(heap)
		l[n.cluster] = h
	}
	h.push(n)
}

func (l lag) discount(n *node) {
	h := l[n.cluster]
	h.remove(n)
	if len(*h) == 0 {
		delete(l, n.cluster)
	}
}

// clear forgets the batch's stamps: its changes are written.
func (l lag) clear(b *batch) {
	for _, n := range b.stamps {
		if n.index != absent {
			l.discount(n)
		}
	}
	b.stamps = nil
}

// FailsAlone is how many failures in a row, while the server is not away and takes what
// others write, show that a key fails for what it is: its age then says nothing about how
// far behind the others are.
const FailsAlone = 5

// lockedCount has the ages of a key count, or not, where it fails alone. Call it when
// something of it has come or its failures have changed.
func (q *Queue) lockedCount(e *entry) {
	alone := e.failures >= FailsAlone && !q.away
	for _, b := range []*batch{&e.pending, &e.working} {
		for _, n := range b.stamps {
			switch counts := n.index != absent; {
			case alone && counts:
				q.lag.discount(n)
			case !alone && !counts:
				q.lag.count(n)
			}
		}
		switch {
		case b.age == nil:
		case alone && b.age.index != absent:
			q.ages[b.lane].remove(b.age)
		case !alone && b.age.index == absent:
			q.ages[b.lane].push(b.age)
		}
	}
}

// OldestArrivals returns, of every cluster that has something waiting, when its oldest
// change that is not yet written arrived: bulk changes and keys in work or backoff
// included, those that fail alone excluded. Causes without a cluster (repair of the
// ingress side, configuration) are under "". The map is the caller's.
func (q *Queue) OldestArrivals() map[string]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest := make(map[string]time.Time, len(q.lag))
	for cluster, h := range q.lag {
		oldest[cluster] = h.first().at
	}
	return oldest
}
