// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"slices"
	"strings"
)

// reservedLabels mean something about the object they are on, so that a Service's copy of
// them must not reach a replica; so do all of our own domain.
var reservedLabels = map[string]bool{
	LabelManagedBy: true, LabelSliceManagedBy: true, LabelServiceName: true, LabelSourceCluster: true,
	LabelHeadless: true, LabelSkipMirror: true, LabelEndpointsManagedBy: true,
}

// CopiedLabels are the labels of a source that its replica takes over: those that are chosen,
// not reserved, and accepted by the API.
func CopiedLabels(source map[string]string, chosen func(key string) bool) map[string]string {
	out := make(map[string]string, len(source)+6)
	for key, value := range source {
		if chosen != nil && !reservedLabels[key] && !strings.HasPrefix(key, AnnotationPrefix) &&
			IsQualifiedName(key) && IsLabelValue(value) && chosen(key) {
			out[key] = value
		}
	}
	return out
}

// reservedAnnotations mean something about the object they are on, or record how it was made;
// so do all in the domains of reservedDomains.
var (
	reservedAnnotations = map[string]bool{
		"kubectl.kubernetes.io/last-applied-configuration": true,
		"control-plane.alpha.kubernetes.io/leader":         true,
		"service.kubernetes.io/topology-mode":              true,
		"service.kubernetes.io/topology-aware-hints":       true,
	}
	reservedDomains = []string{AnnotationPrefix, "endpoints.kubernetes.io/", "endpointslice.kubernetes.io/"}
)

// CopiedAnnotations are the annotations of a source that its replica takes over: likewise.
func CopiedAnnotations(source map[string]string, chosen func(key string) bool) map[string]string {
	out := map[string]string{}
	for key, value := range source {
		reserved := reservedAnnotations[key] || slices.ContainsFunc(reservedDomains, func(d string) bool { return strings.HasPrefix(key, d) })
		// The API checks keys as if they were in lower case.
		if chosen != nil && !reserved && IsQualifiedName(strings.ToLower(key)) && chosen(key) {
			out[key] = value
		}
	}
	return out
}
