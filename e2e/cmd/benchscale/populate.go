// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

const (
	// namespaces is how many namespaces the Services are in.
	namespaces = 40
	// spread is how many members have a Service.
	spread = 3
)

func namespaceOf(i int) string { return fmt.Sprintf("team-%02d", i%namespaces) }

func serviceName(i int) string { return fmt.Sprintf("web-%05d", i) }

// in reports whether a member has a Service.
func (b *bench) in(member, service int) bool {
	return (member-service%b.members+b.members)%b.members < min(spread, b.members)
}

// of returns the Services of a member; each has this many pods there.
func (b *bench) of(member int) (services []int) {
	for i := range b.services {
		if b.in(member, i) {
			services = append(services, i)
		}
	}
	return services
}

func (b *bench) each() int { return b.pods / min(spread, b.members) }

// populate stores Services and pods in all members, or prepares served members, and creates the namespaces in all
// clusters.
func (b *bench) populate(ctx context.Context) error {
	var names []string
	for i := range namespaces {
		names = append(names, namespaceOf(i))
	}
	for _, s := range b.fleet.Sites() {
		if err := s.CreateNamespaces(ctx, names...); err != nil {
			return err
		}
	}
	for m := range b.members {
		if b.served {
			s, err := b.serve(m)
			if err != nil {
				return err
			}
			b.stubs = append(b.stubs, s)
			continue
		}
		s, of, each := b.fleet.Members[m], b.of(m), b.each()
		if err := s.Load(ctx, len(of)*each, func(i int) metav1.Object { return b.pod(of[i/each], i%each) }); err != nil {
			return err
		}
		if err := s.Load(ctx, len(of), func(i int) metav1.Object { return newService(of[i]) }); err != nil {
			return err
		}
	}
	return nil
}

func newService(i int) *corev1.Service {
	s := fleet.NewService(namespaceOf(i), serviceName(i))
	s.Labels = map[string]string{"app.kubernetes.io/name": serviceName(i), "team": namespaceOf(i)}
	s.Spec.Type, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	s.Spec.IPFamilies, s.Spec.SessionAffinity = []corev1.IPFamily{corev1.IPv4Protocol}, corev1.ServiceAffinityNone
	s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	return s
}

// pod returns a pod as large as real ones: with an environment, an owner and managed fields.
func (b *bench) pod(service, i int) *corev1.Pod {
	name := fmt.Sprintf("%s-5d4f8c7b9-%05x", serviceName(service), i)
	p := fleet.NewPod(namespaceOf(service), name, serviceName(service))
	p.Labels["pod-template-hash"], p.Labels["team"] = "5d4f8c7b9", namespaceOf(service)
	p.GenerateName = serviceName(service) + "-5d4f8c7b9-"
	p.Spec.NodeName = fmt.Sprintf("node-%03d", (service+i)%200)
	p.Spec.RestartPolicy, p.Spec.DNSPolicy = corev1.RestartPolicyAlways, corev1.DNSClusterFirst
	for k := range environment {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{
			Name: fmt.Sprintf("SETTING_%02d", k), Value: fmt.Sprintf("https://%s.example:8443/v1/settings/%02d", serviceName(service), k),
		})
	}
	fields := metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{}` + strings.Repeat(`,"f:app.kubernetes.io/name":{}`, 40) + `}}}`)}
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		now := metav1.Now()
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: &fields,
		})
	}
	return p
}
