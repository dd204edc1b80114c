// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Policy is what the configuration says about the sources of a replica.
type Policy interface {
	// Order lists the clusters that serve the replica one at a time, the first
	// choice first; nil: all serve together. It is asked about the oldest source and
	// answers for all, so that a replica has one mode whatever its sources say.
	Order(replica syncer.Key, cluster string, source *syncer.Service) []string
	// Drain says whether a cluster's endpoints are to be taken out, and with force
	// also the last ready ones of a replica.
	Drain(cluster string) (drain, force bool)
	// Misread says which setting of a source is not understood; empty: none.
	Misread(source *syncer.Service) string
}

// Steer sets how each contribution serves, as the policy says (nil: nothing). It
// must see all of a replica's contributions, also the recovered ones: what they
// are allowed to serve does not depend on whether their member is seen.
func Steer(key syncer.Key, contributions []Contribution, policy Policy) {
	shares := sharesOf(contributions)
	if policy == nil || len(shares) == 0 {
		return
	}
	oldest := shares[0]
	order := policy.Order(key, oldest.Cluster, oldest.Service)
	for _, s := range shares {
		c := s.Contribution
		drain, force := policy.Drain(c.Cluster)
		c.Drain, c.DrainForce = c.Drain || drain, c.DrainForce || force
		if c.Misread = ""; !c.Unseen {
			c.Misread = policy.Misread(c.Service)
		}
		if c.Misread == "" && s != oldest && !c.Orphan {
			c.Misread = overruled(policy.Order(key, c.Cluster, c.Service), order, oldest)
		}
		if c.Failover = 0; len(order) == 0 {
			continue
		}
		// A cluster that is not in the order, for it is not configured any more, comes
		// last.
		c.Failover = len(order) + 1
		if i := slices.Index(order, c.Cluster); i >= 0 {
			c.Failover = i + 1
		}
	}
}

// overruled says that a source is not heard, if it asks for something else than the
// oldest, which decides for all.
func overruled(own, order []string, oldest *share) string {
	if slices.Equal(own, order) {
		return ""
	}
	return shortened(fmt.Sprintf("it asks for %s, but %s of %s is older and decides for all: %s",
		orderText(own), oldest.Source, oldest.Cluster, orderText(order)))
}

func orderText(order []string) string {
	if len(order) == 0 {
		return "union"
	}
	return "failover in the order " + strings.Join(order, ", ")
}

// oneReplica leaves out the shares that merely have the same name by accident: a
// replica that one member has to itself holds nothing of other members, and the
// other way round, whatever a name template makes of their names. The oldest
// decides whose it is. A source that has not the replica's name is alone with its
// member; that can be told after a restart as well.
func oneReplica(key syncer.Key, shares []*share) (kept []*share, conflicts []Conflict) {
	if len(shares) < 2 {
		return shares, nil
	}
	first := shares[0]
	for _, s := range shares {
		if s.guessed() || s.ownerOf(key) == first.ownerOf(key) {
			kept = append(kept, s)
			continue
		}
		conflicts = append(conflicts, Conflict{Replica: key, Reason: ConflictName, Cluster: s.Cluster, Message: fmt.Sprintf(
			"Service %s of %s would get the name of the replica of %s of %s, which is older; it is left out: choose another separateName",
			s.Source, s.Cluster, first.Source, first.Cluster)})
	}
	return kept, conflicts
}

// replicaOwner says whose a replica is; the zero value is everybody's.
type replicaOwner struct{ cluster, name string }

func (s *share) ownerOf(replica syncer.Key) replicaOwner {
	if s.Source.Name == replica.Name {
		return replicaOwner{}
	}
	return replicaOwner{s.Cluster, s.Source.Name}
}

// misread reports settings of sources that are not followed.
func misread(key syncer.Key, shares []*share) (conflicts []Conflict) {
	for _, s := range shares {
		if s.Misread != "" {
			conflicts = append(conflicts, Conflict{Replica: key, Reason: ConflictAnnotation, Cluster: s.Cluster,
				Message: fmt.Sprintf("Service %s of %s: %s", s.Source, s.Cluster, s.Misread)})
		}
	}
	return conflicts
}
