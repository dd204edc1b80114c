// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Service converts a Service; nil gives the zero value.
func (d *Decoder) Service(svc *corev1.Service) store.Versioned[syncer.Service] {
	if svc == nil {
		return store.Versioned[syncer.Service]{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := syncer.Service{
		Key:                      d.key(&svc.ObjectMeta),
		UID:                      string(svc.UID),
		Created:                  unixSeconds(svc.CreationTimestamp.Unix()),
		Labels:                   d.copyMap(svc.Labels),
		Annotations:              d.annotations(svc.Annotations),
		Selector:                 d.copyMap(svc.Spec.Selector),
		ClusterIP:                d.str(svc.Spec.ClusterIP),
		PublishNotReadyAddresses: svc.Spec.PublishNotReadyAddresses,
		ExternalName:             svc.Spec.Type == corev1.ServiceTypeExternalName,
	}
	for _, f := range svc.Spec.IPFamilies {
		s.IPFamilies = append(s.IPFamilies, syncer.Family(d.str(string(f))))
	}
	for i := range svc.Spec.Ports {
		s.Ports = append(s.Ports, d.servicePort(&svc.Spec.Ports[i]))
	}
	return store.Versioned[syncer.Service]{Object: s, Revision: kube.Revision(svc.ResourceVersion)}
}

func (d *Decoder) servicePort(p *corev1.ServicePort) syncer.ServicePort {
	port := syncer.ServicePort{Name: d.str(p.Name), Protocol: d.protocol(p.Protocol), Port: p.Port, Target: d.targetPort(p)}
	if p.AppProtocol != nil {
		port.AppProtocol = new(d.str(*p.AppProtocol))
	}
	return port
}

// targetPort fills in the API's default, the port itself, for 0 and "".
func (d *Decoder) targetPort(p *corev1.ServicePort) syncer.TargetPort {
	switch {
	case p.TargetPort.Type == intstr.String && p.TargetPort.StrVal != "":
		return syncer.TargetPort{Name: d.str(p.TargetPort.StrVal)}
	case p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0:
		return syncer.TargetPort{Number: p.TargetPort.IntVal}
	default:
		return syncer.TargetPort{Number: p.Port}
	}
}
