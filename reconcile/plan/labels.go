// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Labels and annotations of what Tributary writes: part of the contract with
// users, so none changes without saying so.
const (
	// LabelManagedBy is the mark of Services and Endpoints when it is ManagedBy.
	LabelManagedBy = syncer.LabelManagedBy
	ManagedBy      = syncer.ManagedBy
	// LabelInstance names the installation that an object is of.
	LabelInstance = syncer.LabelInstance
	// LabelSliceManagedBy is the mark of EndpointSlices when it is SliceManagedBy.
	LabelSliceManagedBy = syncer.LabelSliceManagedBy
	SliceManagedBy      = syncer.SliceManagedBy
	// SliceMirrored is what it says on slices that the mirroring controller makes.
	SliceMirrored = syncer.SliceMirrored
	// LabelServiceName ties a slice to its Service.
	LabelServiceName = syncer.LabelServiceName
	// LabelSourceCluster names the member that a slice's endpoints live in.
	LabelSourceCluster = syncer.LabelSourceCluster
	// LabelHeadless, present and empty, keeps every kube-proxy of the ingress
	// cluster from watching an object.
	LabelHeadless = "service.kubernetes.io/headless"
	// LabelSkipMirror, "true", keeps the mirroring controller from making a second
	// set of slices from our Endpoints.
	LabelSkipMirror = syncer.LabelSkipMirror
	// LabelEndpointsManagedBy is upstream's mark on its own Endpoints. Never ours:
	// its cleanup deletes what carries it (KEP-4974).
	LabelEndpointsManagedBy = "endpoints.kubernetes.io/managed-by"

	// AnnotationOverCapacity is OverCapacity on Endpoints that had to leave
	// addresses out.
	AnnotationOverCapacity = "endpoints.kubernetes.io/over-capacity"
	OverCapacity           = "truncated"
	// AnnotationTrigger holds the last-change-trigger-time; the writer sets it.
	AnnotationTrigger = "endpoints.kubernetes.io/last-change-trigger-time"
	// AnnotationReplica, on everything of a replica, is its "namespace/name": a copy
	// under another name is nobody's.
	AnnotationReplica = "tributary.dev/replica"
	// AnnotationSources, on a replica Service, lists the Services that feed it,
	// the one that wins conflicts first.
	AnnotationSources = syncer.AnnotationSources
	// AnnotationAddresses, on Endpoints that have no slices beside them, says which
	// member each address belongs to. See addressRecord.
	AnnotationAddresses = "tributary.dev/addresses"
	// AnnotationPassed, on a replica Service, lists the annotations that it took over
	// from its source, so that one that is gone there goes here.
	AnnotationPassed = "tributary.dev/passed"
	// AnnotationProcess, on everything of a replica, is the process that wrote it last. It
	// is no difference: the writer sets it.
	AnnotationProcess = "tributary.dev/process"
	// AnnotationMutated, on everything of a replica, names the fields that the server made
	// something else of than was written. See Mutations.
	AnnotationMutated = "tributary.dev/mutated"
	// AnnotationMode and AnnotationFailover, on a source Service, say how its replica
	// is shared.
	AnnotationMode     = "tributary.dev/mode"
	AnnotationFailover = "tributary.dev/failover"
)

// ours are the annotations that Tributary decides. All others on a standing
// object are somebody else's and survive.
var ours = map[string]bool{
	AnnotationOverCapacity: true, AnnotationTrigger: true,
	AnnotationReplica: true, AnnotationSources: true, AnnotationAddresses: true, AnnotationPassed: true, AnnotationMutated: true,
}

// reserved are labels that mean something about the object they are on, so that
// a Service's copy of them must not reach a replica; so do all of our own domain.
var reserved = map[string]bool{
	LabelManagedBy: true, LabelInstance: true, LabelSliceManagedBy: true, LabelServiceName: true, LabelSourceCluster: true,
	LabelHeadless: true, LabelSkipMirror: true, LabelEndpointsManagedBy: true,
}

// passed returns the labels of a source Service that a replica may carry, in a
// map with room for more: no reserved ones, none that the API would refuse, and
// only those that pass (nil passes all).
func passed(labels map[string]string, pass func(key string) bool) map[string]string {
	out := make(map[string]string, len(labels)+6)
	for key, value := range labels {
		if !reserved[key] && !strings.HasPrefix(key, ourDomain) && syncer.IsQualifiedName(key) && syncer.IsLabelValue(value) && (pass == nil || pass(key)) {
			out[key] = value
		}
	}
	return out
}

// owned returns the labels that all objects of a replica have: those of the source
// that pass, the mark and the instance.
func (s *Settings) owned(source map[string]string) map[string]string {
	labels := passed(source, s.PassLabel)
	labels[LabelManagedBy] = ManagedBy
	labels[LabelInstance] = cmp.Or(s.Instance, DefaultInstance)
	return labels
}

func endpointsLabels(source map[string]string, settings *Settings) map[string]string {
	labels := settings.owned(source)
	labels[LabelSkipMirror] = "true"
	labels[LabelHeadless] = ""
	return labels
}

func sliceLabels(source map[string]string, settings *Settings, replica, cluster string) map[string]string {
	labels := settings.owned(source)
	labels[LabelSliceManagedBy] = SliceManagedBy
	labels[LabelServiceName] = replica
	labels[LabelSourceCluster] = cluster
	labels[LabelHeadless] = ""
	return labels
}

func validProtocol(s string) bool { return s == syncer.TCP || s == syncer.UDP || s == syncer.SCTP }
