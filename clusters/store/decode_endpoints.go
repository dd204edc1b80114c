// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

import (
	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/syncer"
)

// Endpoints are the hand-written Endpoints of a Service without selector.
type Endpoints struct {
	syncer.Key
	Subsets []syncer.Subset
	// SkipMirror is true when no slices are to be made from these Endpoints: by
	// label, or because they are a leader election lock (upstream's shouldMirror).
	SkipMirror bool
}

// What upstream's mirroring controller looks at
// (pkg/controller/endpointslicemirroring/utils.go, shouldMirror).
const (
	labelSkipMirror  = "endpointslice.kubernetes.io/skip-mirror"
	annotationLeader = "control-plane.alpha.kubernetes.io/leader"
)

// Endpoints converts hand-written Endpoints; nil gives the zero value. An
// address that is none has an invalid Addr: the rules report and drop it.
func (d *Decoder) Endpoints(e *corev1.Endpoints) Versioned[Endpoints] {
	if e == nil {
		return Versioned[Endpoints]{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, lock := e.Annotations[annotationLeader]
	out := Endpoints{Key: d.key(&e.ObjectMeta), SkipMirror: lock || e.Labels[labelSkipMirror] == "true"}
	for i := range e.Subsets {
		s := &e.Subsets[i]
		subset := syncer.Subset{Ready: d.addresses(s.Addresses), NotReady: d.addresses(s.NotReadyAddresses)}
		for j := range s.Ports {
			p := &s.Ports[j]
			subset.Ports = append(subset.Ports, syncer.Port{
				Name: d.str(p.Name), Protocol: d.protocol(p.Protocol), Number: p.Port, AppProtocol: appProtocol(p.AppProtocol),
			})
		}
		out.Subsets = append(out.Subsets, subset)
	}
	return Versioned[Endpoints]{Object: out, RV: Revision(e.ResourceVersion)}
}

func (d *Decoder) addresses(in []corev1.EndpointAddress) []syncer.Address {
	if len(in) == 0 {
		return nil
	}
	out := make([]syncer.Address, len(in))
	for i := range in {
		a := &in[i]
		out[i] = syncer.Address{Addr: parseIP(a.IP).Addr, Hostname: a.Hostname, Target: d.target(a.TargetRef)}
		if a.NodeName != nil {
			out[i].NodeName = d.str(*a.NodeName)
		}
	}
	return out
}
