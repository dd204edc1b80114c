// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// strayEdits set each field of a Service that no replica has.
var strayEdits = map[string]func(*corev1.ServiceSpec){
	"type":                          func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer },
	"externalName":                  func(s *corev1.ServiceSpec) { s.ExternalName = "elsewhere.example" },
	"externalIPs":                   func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"203.0.113.7"} },
	"externalTrafficPolicy":         func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster },
	"internalTrafficPolicy":         func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) },
	"trafficDistribution":           func(s *corev1.ServiceSpec) { s.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferClose) },
	"publishNotReadyAddresses":      func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true },
	"sessionAffinity":               func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP },
	"sessionAffinityConfig":         func(s *corev1.ServiceSpec) { s.SessionAffinityConfig = &corev1.SessionAffinityConfig{} },
	"loadBalancerIP":                func(s *corev1.ServiceSpec) { s.LoadBalancerIP = "203.0.113.7" },
	"loadBalancerSourceRanges":      func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{"203.0.113.0/24"} },
	"loadBalancerClass":             func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("example.com/theirs") },
	"allocateLoadBalancerNodePorts": func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = new(false) },
	"healthCheckNodePort":           func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30000 },
	"nodePort":                      func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 30001 },
}

func TestHandEditsOfTheServiceSpecArePutBack(t *testing.T) {
	edits := map[string]func(*corev1.ServiceSpec){"all at once": func(s *corev1.ServiceSpec) {
		for _, edit := range strayEdits {
			edit(s)
		}
	}}
	for name, edit := range strayEdits {
		edits[name] = edit
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			g := running(t)
			g.writes()
			before, _ := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name)
			apitest.Edit(t, g.server, web.Namespace, web.Name, func(svc *corev1.Service) {
				edit(&svc.Spec)
				if got := cache.Stray(&svc.Spec); name != "all at once" && !slices.Equal(got, []string{name}) {
					t.Errorf("found are %q", got)
				}
			})
			g.wait("the edit is put back", func() bool {
				svc, ok := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name)
				return ok && apiequality.Semantic.DeepEqual(svc.Spec, before.Spec)
			})
			g.settle()
			g.expectWrites("update services shop/web 200")
			g.rec.Resync("", "resync")
			g.settle()
			g.expectWrites()
		})
	}
}

// What a server fills in is no stray field.
func TestAReplicaAsCreatedHasNoStrayField(t *testing.T) {
	svc := write.ServiceObject(web, &plan.ServiceSpec{Ports: service(web, 1, 8080).Ports, Labels: map[string]string{plan.LabelManagedBy: plan.ManagedBy}}, nil, nil, corev1.ServiceSpec{})
	if got := (cache.Decoder{}).Service(svc).Service; len(got.Stray) > 0 {
		t.Errorf("we set %v ourselves", got.Stray)
	}
	svc.Spec.SessionAffinity = corev1.ServiceAffinityNone
	svc.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	svc.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
	if got := (cache.Decoder{}).Service(svc).Service; len(got.Stray) > 0 {
		t.Errorf("%v is taken for a hand edit", got.Stray)
	}
}
