// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

// Labels and annotations of what Tributary writes, as far as more than the writer must
// know them: part of the contract with users, so none changes without saying so.
const (
	// LabelManagedBy is the mark of all that Tributary owns when it is ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "tributary"
	// LabelInstance names the installation that an object is of.
	LabelInstance = "tributary.dev/instance"
	// LabelSourceCluster names the member that a slice's endpoints live in.
	LabelSourceCluster = "multicluster.kubernetes.io/source-cluster"
	// AnnotationSources, on a replica Service, lists the Services that feed it, the one
	// that wins conflicts first.
	AnnotationSources = "tributary.dev/sources"
)

// What upstream's controllers say of slices and Endpoints.
const (
	// LabelServiceName ties a slice to its Service.
	LabelServiceName = "kubernetes.io/service-name"
	// LabelSliceManagedBy names who made a slice: SliceManagedBy is Tributary,
	// SliceComputed and SliceMirrored are upstream's controllers.
	LabelSliceManagedBy = "endpointslice.kubernetes.io/managed-by"
	SliceManagedBy      = "tributary.dev"
	SliceComputed       = "endpointslice-controller.k8s.io"
	SliceMirrored       = "endpointslicemirroring-controller.k8s.io"
	// LabelSkipMirror, "true", keeps the mirroring controller from making slices from
	// Endpoints.
	LabelSkipMirror = "endpointslice.kubernetes.io/skip-mirror"
)
