// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"time"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// peers answers, for one of several members, what the others give to a replica. A replica
// that nobody gives a ready endpoint does not wait for one to be stable. No lock of a
// member is held in a call.
type peers interface {
	// alone is told of replicas to which a member gives no ready endpoint, while one waits.
	alone(member *Member, replicas []syncer.Key)
	// lost is told that a member may have lost ready endpoints.
	lost(member *Member, dirty []store.Dirty)
}

func (s *Set) alone(member *Member, replicas []syncer.Key) {
	for _, replica := range replicas {
		if !s.served(replica) {
			member.step(evidence.Return{Replica: replica}, time.Now())
		}
	}
}

func (s *Set) lost(member *Member, dirty []store.Dirty) {
	for _, other := range s.applied.Load().members {
		if other == member || other.damped.Load() == 0 {
			continue
		}
		for _, d := range dirty {
			if d.Effect == syncer.Removal && other.waits(d.Replica) && !s.served(d.Replica) {
				other.step(evidence.Return{Replica: d.Replica}, time.Now())
			}
		}
	}
}

// served reports whether a member gives a replica a ready endpoint. One that is drained
// does not count: what it gives may be taken out.
func (s *Set) served(replica syncer.Key) bool {
	for _, m := range s.applied.Load().members {
		if !m.currentSpec().cluster.Drain && m.givesReady(replica) {
			return true
		}
	}
	return false
}
