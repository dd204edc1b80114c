// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// era describes an old server.
type era struct {
	major, minor, gitVersion string
	// apis are the versions of each API group that it serves by default, of those that the server behind still has. What
	// has been removed since (discovery.k8s.io/v1beta1) cannot be served.
	apis map[string][]string
	// laterParameters are query parameters that it ignores because they came later.
	laterParameters []string
	// laterHeaders are headers of answers that it does not send.
	laterHeaders []string
	// forget removes the fields that it does not know from an object.
	forget func(runtime.Object)
}

// eras are by the version in StartOldFront. Sources: the API changes of the release notes from 1.18 to 1.36.
var eras = map[string]era{
	"1.17": {
		major: "1", minor: "17", gitVersion: "v1.17.17",
		apis:            firstVersions(),
		laterParameters: append([]string{"resourceVersionMatch"}, parametersSince121...),
		laterHeaders:    []string{"Warning", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"},
		forget:          forgetSince118,
	},
	"1.20": {
		major: "1", minor: "20", gitVersion: "v1.20.15",
		apis:            firstVersions("certificates.k8s.io", "events.k8s.io", "node.k8s.io"),
		laterParameters: parametersSince121,
		laterHeaders:    []string{"Warning"},
		forget:          forgetSince121,
	},
}

// laterPaths are the path prefixes beside those of groups that came later than both.
var laterPaths = []string{"/openapi/v3", "/apis/authentication.k8s.io/v1/selfsubjectreviews"}

var parametersSince121 = []string{"sendInitialEvents", "fieldValidation", "shardSelector", "ignoreStoreReadErrorWithClusterBreakingPotential"}

// firstVersions are v1 of the groups that 1.17 served and of others.
func firstVersions(others ...string) map[string][]string {
	apis := map[string][]string{}
	for _, group := range append(others, "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps",
		"authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "coordination.k8s.io", "networking.k8s.io",
		"rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io") {
		apis[group] = []string{"v1"}
	}
	return apis
}

// forgetSince118 removes what 1.18 and later added to the objects that are used here.
func forgetSince118(o runtime.Object) {
	forgetSince121(o)
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil) // on every object since 1.18
	}
	switch x := o.(type) {
	case *corev1.Service:
		x.Spec.ClusterIPs, x.Spec.IPFamilies, x.Spec.IPFamilyPolicy = nil, nil, nil
		x.Spec.AllocateLoadBalancerNodePorts = nil
		x.Status.Conditions = nil
		for i := range x.Spec.Ports {
			x.Spec.Ports[i].AppProtocol = nil
		}
	case *corev1.Endpoints:
		for i := range x.Subsets {
			for j := range x.Subsets[i].Ports {
				x.Subsets[i].Ports[j].AppProtocol = nil
			}
		}
	case *corev1.Pod:
		x.Spec.SetHostnameAsFQDN = nil
		x.Spec.EphemeralContainers, x.Status.EphemeralContainerStatuses = nil, nil
	}
}

// forgetSince121 removes what 1.21 and later added to the objects that are used here.
func forgetSince121(o runtime.Object) {
	switch x := o.(type) {
	case *corev1.Namespace:
		delete(x.Labels, corev1.LabelMetadataName)
	case *corev1.Service:
		x.Spec.InternalTrafficPolicy, x.Spec.LoadBalancerClass, x.Spec.TrafficDistribution = nil, nil, nil
	case *corev1.Pod:
		forgetPodSpec(&x.Spec)
		forgetPodStatus(&x.Status)
	}
}

func forgetPodSpec(s *corev1.PodSpec) {
	s.OS, s.HostUsers, s.SchedulingGates, s.ResourceClaims = nil, nil, nil, nil
	s.Resources, s.HostnameOverride, s.SchedulingGroup = nil, nil, nil
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].ResizePolicy, list[i].RestartPolicy, list[i].RestartPolicyRules = nil, nil, nil
		}
	}
}

func forgetPodStatus(s *corev1.PodStatus) {
	s.ObservedGeneration, s.HostIPs, s.Resize = 0, nil, ""
	s.ResourceClaimStatuses, s.ExtendedResourceClaimStatus, s.NodeAllocatableResourceClaimStatuses = nil, nil, nil
	s.AllocatedResources, s.Resources = nil, nil
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers
	})
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = 0
	}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			c.AllocatedResources, c.Resources, c.VolumeMounts, c.User = nil, nil, nil, nil
			c.AllocatedResourcesStatus, c.StopSignal = nil, nil
		}
	}
}
