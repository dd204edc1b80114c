// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// A replica's Service is the only record of its ports and its sources. Where it was
// deleted while a cluster that had a share in it cannot be asked, what that cluster's
// Service was is guessed from the slices that are left.

// guessedAge is the creation of a Service that is guessed, in Unix seconds: the last one
// that a record can hold, so that whoever knows better decides.
const guessedAge = 253402300799

func (s *share) guessed() bool { return s.Unseen && s.Service.Created == guessedAge }

// portsOfSlices guesses the ports of a Service that is gone while its slices
// still stand: the number clients used is lost, the endpoints' is the likeliest.
func (r *recovery) portsOfSlices() []syncer.ServicePort {
	var ports []syncer.ServicePort
	for _, s := range r.slices {
		for _, p := range s.Ports {
			port := syncer.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Number, Target: syncer.TargetPort{Number: p.Number}}
			if p.AppProtocol.Set {
				port.AppProtocol = new(p.AppProtocol.Value)
			}
			ports = append(ports, port)
		}
	}
	slices.SortStableFunc(ports, func(a, b syncer.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port))
	})
	return slices.CompactFunc(ports, func(a, b syncer.ServicePort) bool { return a.Name == b.Name })
}

// guessed reports ports that nobody but a guess vouches for. It is mended when the
// member is seen, or when somebody corrects the ports of the Service.
func (u *union) guessed() (conflicts []Conflict) {
	numbers := map[*share][]string{}
	for _, o := range u.ports {
		if o.owner.guessed() && o.owner.serves(o.ServicePort) {
			numbers[o.owner] = append(numbers[o.owner], number(o.ServicePort))
		}
	}
	for s, of := range numbers {
		conflicts = append(conflicts, Conflict{Replica: u.key, Reason: ConflictPort, Cluster: s.Cluster, Message: fmt.Sprintf(
			"the replica's Service was deleted while %s could not be asked: port %s is that of its endpoints, and may not be the one that clients used; correct it in the Service, or let the cluster be seen",
			s.Cluster, strings.Join(of, ", "))})
	}
	return conflicts
}

// serves reports whether an endpoint has the port under the same number.
func (s *share) serves(p syncer.ServicePort) bool {
	return slices.ContainsFunc(s.endpoints, func(e syncer.Endpoint) bool {
		return slices.ContainsFunc(e.Ports, func(o syncer.Port) bool { return o.Name == p.Name && o.Number == p.Port })
	})
}
