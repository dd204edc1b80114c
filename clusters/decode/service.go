// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Service converts a Service.
func (d *Decoder) Service(svc *corev1.Service) store.Versioned[syncer.Service] {
	s := syncer.Service{
		Key:                      keyOf(&svc.ObjectMeta),
		UID:                      string(svc.UID),
		Created:                  unixSeconds(svc.CreationTimestamp.Unix()),
		Labels:                   maps.Clone(svc.Labels),
		Annotations:              d.annotations(svc.Annotations),
		Selector:                 maps.Clone(svc.Spec.Selector),
		ClusterIP:                svc.Spec.ClusterIP,
		PublishNotReadyAddresses: svc.Spec.PublishNotReadyAddresses,
		ExternalName:             svc.Spec.Type == corev1.ServiceTypeExternalName,
	}
	for _, f := range svc.Spec.IPFamilies {
		s.IPFamilies = append(s.IPFamilies, syncer.Family(f))
	}
	for i := range svc.Spec.Ports {
		s.Ports = append(s.Ports, servicePort(&svc.Spec.Ports[i]))
	}
	return store.Versioned[syncer.Service]{Object: s, Revision: kube.Revision(svc.ResourceVersion)}
}

func servicePort(p *corev1.ServicePort) syncer.ServicePort {
	return syncer.ServicePort{Name: p.Name, Protocol: protocol(p.Protocol), Port: p.Port, Target: targetPort(p), AppProtocol: syncer.AppProtocolOf(p.AppProtocol)}
}

// targetPort fills in the API's default, the port itself, for 0 and "".
func targetPort(p *corev1.ServicePort) syncer.TargetPort {
	switch {
	case p.TargetPort.Type == intstr.String && p.TargetPort.StrVal != "":
		return syncer.TargetPort{Name: p.TargetPort.StrVal}
	case p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0:
		return syncer.TargetPort{Number: p.TargetPort.IntVal}
	default:
		return syncer.TargetPort{Number: p.Port}
	}
}
