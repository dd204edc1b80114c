// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/reconcile/leader"
)

// election is a process's part in the election: what client-go's elector does, with the
// product's Term as its arithmetic.
type election struct {
	term    leader.Term
	leading bool // from the first acknowledged write on
	// until is when the permit ends, by the process's own clock; zero: there is none. since is
	// when it began to lead.
	until time.Time
	since time.Duration
	// renewed is when the request was sent that last wrote the Lease, by the true clock.
	renewed time.Duration
}

// leaseID names the Lease, leaseTime is after how long it may be taken.
var leaseID = ID{Leases, "tributary-system", "tributary-" + instance}

const (
	leaseTime   = 15 * time.Second
	retryPeriod = 750 * time.Millisecond
)

// elect takes part until the process ends.
func (p *Process) elect() {
	p.term = leader.Term{Identity: p.name, Lease: leaseTime}
	p.look()
}

// again has the next look come some time later.
func (p *Process) again() {
	wait := retryPeriod
	if p.until.IsZero() {
		wait = p.within(retryPeriod, retryPeriod*22/10)
	} else if !p.clock().Before(p.until) {
		p.depose()
	}
	p.after(wait, p.look)
}

func (p *Process) depose() {
	p.leading = false
	if !p.until.IsZero() {
		p.until = time.Time{}
		p.core.Lead(p.clock(), false)
		p.world.note("%s leads no more", p.name)
	}
}

// look reads the Lease, and writes it where it may.
func (p *Process) look() {
	deadline := p.term.RenewDeadline() / 3
	p.ingress.request(leaseID, deadline, func(s *Server) (any, error) { return s.Get(leaseID) }, func(value any, err error) {
		lease, _ := value.(*coordinationv1.Lease)
		if err != nil && !apierrors.IsNotFound(err) {
			p.again()
			return
		}
		if err == nil {
			seen := recordOf(lease)
			p.term.Saw(p.clock(), seen)
			if p.leading && seen.HolderIdentity != "" && seen.HolderIdentity != p.name {
				p.depose()
				p.again()
				return
			}
		}
		if !p.leading && !p.term.MayTake(p.clock()) {
			p.again()
			return
		}
		p.hold(lease, deadline)
	})
}

// hold writes the Lease.
func (p *Process) hold(lease *coordinationv1.Lease, deadline time.Duration) {
	sent, asked := p.clock(), p.now
	update := lease != nil
	if update {
		lease = lease.DeepCopy()
	} else {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseID.Namespace, Name: leaseID.Name}}
	}
	if of := lease.Spec.HolderIdentity; of == nil || *of != p.name {
		lease.Spec.AcquireTime = new(metav1.NewMicroTime(sent))
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = new(p.name), new(metav1.NewMicroTime(sent))
	lease.Spec.LeaseDurationSeconds = new(int32(leaseTime / time.Second))
	p.ingress.request(leaseID, deadline, func(s *Server) (any, error) {
		if !update {
			return s.Create(lease.DeepCopy())
		}
		return s.Update(lease.DeepCopy())
	}, func(_ any, err error) {
		if err == nil {
			p.renewed = asked
			p.held(sent)
		}
		p.again()
	})
}

// held takes in that this process has the Lease.
func (p *Process) held(sent time.Time) {
	first := p.until.IsZero()
	if p.until, p.leading = p.term.Renewed(sent), true; first {
		p.since = p.now
		p.world.note("%s leads", p.name)
		for i, m := range p.members {
			if m.state.Followed() {
				m.lookUp()
			} else {
				p.members[i] = m.replaced(m.config)
			}
		}
		if p.started {
			p.core.Lead(p.clock(), true)
		} else {
			p.waiting = append(p.waiting, func() { p.core.Lead(p.clock(), p.leading) })
		}
		p.compare()
	}
}

// leads reports whether the process may write.
func (p *Process) leads() bool {
	_, held := p.permit()
	return held
}

// permit is until when the process may write.
func (p *Process) permit() (until time.Time, held bool) {
	return p.until, !p.dead && !p.until.IsZero() && p.clock().Before(p.until)
}

func recordOf(lease *coordinationv1.Lease) *leader.Record {
	r := &leader.Record{LeaseDurationSeconds: int(*lease.Spec.LeaseDurationSeconds)}
	if lease.Spec.HolderIdentity != nil {
		r.HolderIdentity = *lease.Spec.HolderIdentity
	}
	r.RenewTime, r.AcquireTime = metav1.Time{Time: lease.Spec.RenewTime.Time}, metav1.Time{Time: lease.Spec.AcquireTime.Time}
	return r
}

// release gives the Lease up, as a process does that ends in order.
func (p *Process) release() {
	if lease, ok := p.world.ingress.objects[leaseID].(*coordinationv1.Lease); ok && *lease.Spec.HolderIdentity == p.name {
		p.world.ingress.edit(leaseID, func(o Object) {
			now := metav1.NewMicroTime(p.clock())
			o.(*coordinationv1.Lease).Spec = coordinationv1.LeaseSpec{HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), RenewTime: &now, AcquireTime: &now}
		})
	}
}

// mayWrite reports whether a process may send a write by the true clock: it holds the Lease, and
// two thirds of that have not passed since it last asked for it with success.
func (w *world) mayWrite(p *Process) bool {
	lease, ok := w.ingress.objects[leaseID].(*coordinationv1.Lease)
	return w.now-p.renewed <= leaseTime*2/3 && (!ok || *lease.Spec.HolderIdentity == p.name)
}
