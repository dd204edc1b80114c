// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

// Labels and annotations of what Tributary reads and writes, as far as more than the writer
// must know them: part of the contract with users, so none changes without saying so.
const (
	// LabelManagedBy is the mark of all that Tributary owns when it is ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "tributary"
	// LabelInstance names the installation that an object is of.
	LabelInstance = "tributary.dev/instance"
	// LabelSourceCluster names the member that a slice's endpoints live in.
	LabelSourceCluster = "multicluster.kubernetes.io/source-cluster"
	// AnnotationReplica, on every object of ours, is the Key of the replica it is of: a copy
	// under another name is nobody's.
	AnnotationReplica = "tributary.dev/replica"
	// AnnotationApplied is a hash of what was wanted of labels and annotations.
	AnnotationApplied = "tributary.dev/applied"
	// AnnotationReserve, on a slice, names its endpoints of the reserve: ReserveAll, or
	// addresses joined by commas.
	AnnotationReserve = "tributary.dev/reserve"
	ReserveAll        = "all"
	// AnnotationReplicate, "false" on a Service of a member, excludes it.
	AnnotationReplicate = "tributary.dev/replicate"
	// AnnotationPrefix begins all annotations of ours.
	AnnotationPrefix = "tributary.dev/"
)

// What upstream's controllers and consumers say of slices and Endpoints.
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
	// LabelHeadless keeps an object off the wire to kube-proxy.
	LabelHeadless = "service.kubernetes.io/headless"
	// LabelEndpointsManagedBy marks what upstream's endpoints controller made; nothing of
	// ours ever carries it.
	LabelEndpointsManagedBy = "endpoints.kubernetes.io/managed-by"
	// AnnotationTriggerTime and AnnotationOverCapacity are upstream's, on Endpoints.
	AnnotationTriggerTime  = "endpoints.kubernetes.io/last-change-trigger-time"
	AnnotationOverCapacity = "endpoints.kubernetes.io/over-capacity"
	// labelZone, on a pod, is the zone of its node.
	labelZone = "topology.kubernetes.io/zone"
)

// OwnLabels are the labels of all that an installation owns in the ingress cluster, as a map of the caller's.
func OwnLabels(instance string) map[string]string {
	return map[string]string{LabelManagedBy: ManagedBy, LabelInstance: instance}
}
