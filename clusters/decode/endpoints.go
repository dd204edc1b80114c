// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// What upstream's mirroring controller looks at
// (pkg/controller/endpointslicemirroring/utils.go, shouldMirror).
const annotationLeader = "control-plane.alpha.kubernetes.io/leader"

// Endpoints converts hand-written Endpoints. An address that is none has an
// invalid Addr: the rules report and drop it.
func (d *Decoder) Endpoints(e *corev1.Endpoints) store.Versioned[store.HandEndpoints] {
	_, lock := e.Annotations[annotationLeader]
	out := store.HandEndpoints{Key: keyOf(&e.ObjectMeta), UID: string(e.UID), SkipMirror: lock || e.Labels[syncer.LabelSkipMirror] == "true"}
	for i := range e.Subsets {
		s := &e.Subsets[i]
		subset := syncer.Subset{Ready: addresses(s.Addresses), NotReady: addresses(s.NotReadyAddresses)}
		for j := range s.Ports {
			p := &s.Ports[j]
			subset.Ports = append(subset.Ports, syncer.Port{
				Name: p.Name, Protocol: protocol(p.Protocol), Number: p.Port, AppProtocol: syncer.AppProtocolOf(p.AppProtocol),
			})
		}
		out.Subsets = append(out.Subsets, subset)
	}
	return store.Versioned[store.HandEndpoints]{Object: out, Revision: kube.Revision(e.ResourceVersion)}
}

func addresses(in []corev1.EndpointAddress) (out []syncer.Address) {
	for i := range in {
		a := &in[i]
		out = append(out, syncer.Address{Addr: parseIP(a.IP).Addr, Hostname: a.Hostname, NodeName: ptr.Deref(a.NodeName, ""), Target: target(a.TargetRef)})
	}
	return out
}
