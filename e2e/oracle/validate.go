// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/discovery"
	discoveryv1conversion "k8s.io/kubernetes/pkg/apis/discovery/v1"
	discoveryvalidation "k8s.io/kubernetes/pkg/apis/discovery/validation"
)

// Validate runs the API server's validation on what we write for a case.
func Validate(o *Ours) error {
	endpoints := &corev1.Endpoints{Subsets: endpointSubsets(o.Subsets)}
	endpoints.Name, endpoints.Namespace = o.Contribution.Service.Name, o.Contribution.Service.Namespace
	var internal core.Endpoints
	if err := corev1conversion.Convert_v1_Endpoints_To_core_Endpoints(endpoints, &internal, nil); err != nil {
		return fmt.Errorf("convert Endpoints: %w", err)
	}
	if faults := corevalidation.ValidateEndpointsCreate(&internal); len(faults) > 0 {
		return fmt.Errorf("validate Endpoints: %w", faults.ToAggregate())
	}
	for i := range o.Slices {
		slice := endpointSlice(&o.Slices[i])
		slice.Namespace = o.Contribution.Service.Namespace
		var internal discovery.EndpointSlice
		if err := discoveryv1conversion.Convert_v1_EndpointSlice_To_discovery_EndpointSlice(slice, &internal, nil); err != nil {
			return fmt.Errorf("convert slice %s: %w", slice.Name, err)
		}
		if faults := discoveryvalidation.ValidateEndpointSliceCreate(&internal); len(faults) > 0 {
			return fmt.Errorf("validate slice %s: %w", slice.Name, faults.ToAggregate())
		}
	}
	return nil
}
