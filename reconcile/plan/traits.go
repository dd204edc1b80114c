// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tributary.dev/tributary/syncer"
)

// overCapacity is the value of the annotation of that name.
const overCapacity = "truncated"

// maxCopied bounds the annotations that a member can make a replica carry. An API server
// refuses an object whose annotations have more than 256 KiB together.
const maxCopied = 64 << 10

// traits are what an object takes over from its source.
type traits struct {
	// left is true where the source is unknown: what stands stays.
	left                bool
	labels, annotations map[string]string
	// applied is a hash of both; what stands beside it is what it was made of, whatever others
	// have added, so it is not compared by value. The keys of the annotations follow it, so
	// that one that is gone from the source goes from the replica.
	applied string
}

// traits are those of Endpoints and slices.
func (s *Settings) traits(source *syncer.Service) traits {
	t := traits{labels: copiedLabels(source.Labels, s.CopyLabel)}
	t.applied = t.hash()
	return t
}

// serviceTraits are those of a replica's Service.
func (s *Settings) serviceTraits(source *syncer.Service) traits {
	t := traits{labels: copiedLabels(source.Labels, s.CopyLabel), annotations: copiedAnnotations(source.Annotations, s.CopyAnnotation)}
	t.applied = strings.Join(append([]string{t.hash()}, slices.Sorted(maps.Keys(t.annotations))...), " ")
	return t
}

func (t *traits) hash() string {
	h := fnv.New64a()
	for _, set := range []map[string]string{t.labels, t.annotations} {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			h.Write([]byte(key + "\x00" + set[key] + "\x00"))
		}
		h.Write([]byte{1})
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// reservedLabels mean something about the object they are on, so that a Service's copy of
// them must not reach a replica; so do all of our own domain.
var reservedLabels = map[string]bool{
	syncer.LabelManagedBy: true, syncer.LabelSliceManagedBy: true, syncer.LabelServiceName: true, syncer.LabelSourceCluster: true,
	syncer.LabelHeadless: true, syncer.LabelSkipMirror: true, syncer.LabelEndpointsManagedBy: true,
}

// copiedLabels are the labels of a source that its replica takes over: those that are chosen,
// not reserved, and accepted by the API.
func copiedLabels(source map[string]string, chosen func(key string) bool) map[string]string {
	out := make(map[string]string, len(source)+6)
	for key, value := range source {
		if chosen != nil && !reservedLabels[key] && !strings.HasPrefix(key, syncer.AnnotationPrefix) &&
			syncer.IsQualifiedName(key) && syncer.IsLabelValue(value) && chosen(key) {
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
	reservedDomains = []string{syncer.AnnotationPrefix, "endpoints.kubernetes.io/", "endpointslice.kubernetes.io/"}
)

// copiedAnnotations are the annotations of a source that its replica takes over: likewise,
// and as many as there is room for, in the order of their keys.
func copiedAnnotations(source map[string]string, chosen func(key string) bool) map[string]string {
	out := map[string]string{}
	if chosen == nil {
		return out
	}
	room := maxCopied
	for _, key := range slices.Sorted(maps.Keys(source)) {
		value := source[key]
		reserved := reservedAnnotations[key] || slices.ContainsFunc(reservedDomains, func(d string) bool { return strings.HasPrefix(key, d) })
		// The API checks keys as if they were in lower case.
		if n := len(key) + len(value); n <= room && !reserved && syncer.IsQualifiedName(strings.ToLower(key)) && utf8.ValidString(value) && chosen(key) {
			out[key] = value
			room -= n
		}
	}
	return out
}

// mark is what an object must carry for what it is: it is compared by value.
type mark struct {
	kind     Kind
	replica  syncer.Key
	instance string
	member   string // of slices
}

// labels are the labels that the object must carry.
func (o mark) labels() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		if !yield(syncer.LabelManagedBy, syncer.ManagedBy) || !yield(syncer.LabelInstance, o.instance) {
			return
		}
		switch o.kind {
		case KindEndpoints:
			_ = yield(syncer.LabelSkipMirror, "true") && yield(syncer.LabelHeadless, "")
		case KindEndpointSlice:
			_ = yield(syncer.LabelSliceManagedBy, syncer.SliceManagedBy) && yield(syncer.LabelServiceName, o.replica.Name) &&
				yield(syncer.LabelSourceCluster, o.member) && yield(syncer.LabelHeadless, "")
		}
	}
}

// stands reports whether a standing object carries what it must and what was wanted.
func (o mark) stands(m *Meta, t traits) bool {
	for key, value := range o.labels() {
		if stands, found := m.Labels.Lookup(key); !found || stands != value {
			return false
		}
	}
	return t.left || m.Annotations[syncer.AnnotationApplied] == t.applied
}

// dress gives an action the labels and annotations of its object; standing is nil for one
// that is made. What others have annotated stays, and so do labels where the source is unknown.
func (o mark) dress(a *Action, standing *Meta, t traits) {
	a.Labels, a.Annotations = t.labels, map[string]string{}
	if standing != nil {
		a.UID, a.ResourceVersion, a.Rest = standing.UID, standing.ResourceVersion, standing.Rest
		maps.Copy(a.Annotations, standing.Annotations)
		delete(a.Annotations, syncer.AnnotationTriggerTime)
		delete(a.Annotations, syncer.AnnotationOverCapacity)
		delete(a.Annotations, syncer.AnnotationReserve)
		if t.left {
			a.Labels = standing.Labels.Map()
		} else {
			for _, key := range strings.Fields(standing.Annotations[syncer.AnnotationApplied]) {
				delete(a.Annotations, key)
			}
		}
	}
	a.Labels = maps.Clone(a.Labels)
	if a.Labels == nil {
		a.Labels = map[string]string{}
	}
	for key, value := range o.labels() {
		a.Labels[key] = value
	}
	maps.Copy(a.Annotations, t.annotations)
	if !t.left {
		a.Annotations[syncer.AnnotationApplied] = t.applied
	}
	a.Annotations[syncer.AnnotationReplica] = o.replica.String()
}

// reserveOf is the annotation that names the endpoints of a slice that are of the reserve; ""
// when there are none.
func reserveOf(endpoints []syncer.Endpoint) string {
	var named []string
	all := true
	for i := range endpoints {
		switch e := &endpoints[i]; {
		case e.Terminating:
		case e.Grade == syncer.Reserve:
			named = append(named, e.Addr.String())
		default:
			all = false
		}
	}
	if len(named) > 0 && all {
		return syncer.ReserveAll
	}
	return strings.Join(named, ",")
}
