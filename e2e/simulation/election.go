// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/reconcile/leader"
)

// leaseID names the Lease, leaseTime is its duration.
var leaseID = model.Leases.ID("tributary-system", "tributary-"+instance)

const (
	leaseTime   = 15 * time.Second
	retryPeriod = 750 * time.Millisecond
)

// leading reports whether the process considers itself the leader, leads whether it may write.
func (p *Process) leading() bool { return !p.until.IsZero() }
func (p *Process) leads() bool   { return !p.dead && p.leading() && p.clock().Before(p.until) }

// again schedules the next look.
func (p *Process) again() {
	wait := retryPeriod
	if !p.leading() {
		wait = p.within(retryPeriod, retryPeriod*22/10)
	} else if !p.leads() {
		p.depose()
	}
	p.after(wait, p.look)
}

func (p *Process) depose() {
	p.until = time.Time{}
	p.core.Lead(p.clock(), false)
	p.world.note("%s leads no more", p.name)
}

// look reads the Lease, writes it if it may, and schedules the next look.
func (p *Process) look() {
	p.ingress.ask(leaseID, p.term.RenewDeadline()/3, func(o model.Object, err error) {
		lease, r := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseID.Namespace, Name: leaseID.Name}}, &leader.Record{}
		if o != nil {
			lease = o.(*coordinationv1.Lease)
			r = resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
			p.term.Saw(p.clock(), r)
		}
		switch {
		case err != nil:
		case p.leading() && r.HolderIdentity != "" && r.HolderIdentity != p.term.Identity:
			p.depose()
		case p.leading() || p.term.MayTake(p.clock()):
			p.hold(lease)
			return
		}
		p.again()
	})
}

func (p *Process) hold(former *coordinationv1.Lease) {
	sent, asked, lease := p.clock(), p.now, former.DeepCopy()
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&leader.Record{
		HolderIdentity: p.term.Identity, LeaseDurationSeconds: int(leaseTime / time.Second), RenewTime: metav1.NewTime(sent), AcquireTime: metav1.NewTime(sent)})
	p.ingress.request(leaseID, p.term.RenewDeadline()/3, nil, func(s *model.Server) (any, error) {
		if lease.ResourceVersion == "" {
			return s.Create(lease)
		}
		return s.Update(lease)
	}, func(_ any, err error) {
		if led := p.leading(); err == nil {
			if p.until, p.renewed = p.term.Renewed(sent), asked; !led {
				p.lead()
			}
		}
		p.again()
	})
}

// lead begins to lead: members that are not followed at this moment start again.
func (p *Process) lead() {
	p.since = p.now
	p.world.note("%s leads", p.name)
	for _, name := range sorted(p.members) {
		if m := p.members[name]; m.state.Followed() {
			m.lookUp()
		} else {
			m.end()
			p.members[name] = newSeen(p, name)
		}
	}
	p.whenListed(func() {
		p.core.Lead(p.clock(), p.leading())
		p.compare()
	})
}

// release gives up the Lease, as a process does on a clean shutdown.
func (p *Process) release() {
	model.Edit(p.world.ingress.Server, leaseID, func(lease *coordinationv1.Lease) {
		if now := metav1.NewTime(p.clock()); *lease.Spec.HolderIdentity == p.term.Identity {
			lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&leader.Record{LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now})
		}
	})
}
