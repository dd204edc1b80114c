// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tributary.dev/tributary/syncer"
)

// overCapacity is the value of the annotation of that name.
const overCapacity = "truncated"

// traits are the labels and annotations of an object.
type traits struct {
	// left is true where the source is unknown: what the object has stays.
	left bool
	// marks are the labels that the object must carry for what it is: they are compared by value.
	marks map[string]string
	// labels and annotations are those of the source. applied is a hash of them, which the object
	// carries, so that others may add labels and annotations: they are not compared by value. The
	// keys of the annotations follow the hash, so that one that the source loses is removed from
	// the replica.
	labels, annotations map[string]string
	applied             string
}

// traits are those of an object; source is nil where it is unknown, member whose a slice is.
func (s *Settings) traits(kind Kind, key syncer.Key, member string, source *syncer.Service) traits {
	t := traits{left: source == nil, marks: syncer.OwnLabels(s.Instance)}
	switch kind {
	case KindEndpoints:
		t.marks[syncer.LabelSkipMirror], t.marks[syncer.LabelHeadless] = "true", ""
	case KindEndpointSlice:
		t.marks[syncer.LabelSliceManagedBy], t.marks[syncer.LabelServiceName] = syncer.SliceManagedBy, key.Name
		t.marks[syncer.LabelSourceCluster], t.marks[syncer.LabelHeadless] = member, ""
	}
	if t.left {
		return t
	}
	t.labels = syncer.CopiedLabels(source.Labels, s.CopyLabel)
	if kind == KindService {
		t.annotations = syncer.CopiedAnnotations(source.Annotations, s.CopyAnnotation)
	}
	h := fnv.New64a()
	for _, set := range []map[string]string{t.labels, t.annotations} {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			h.Write([]byte(key + "\x00" + set[key] + "\x00"))
		}
		h.Write([]byte{1})
	}
	t.applied = strings.Join(append([]string{strconv.FormatUint(h.Sum64(), 36)}, slices.Sorted(maps.Keys(t.annotations))...), " ")
	return t
}

// carriedBy reports whether a current object carries what it must and what is wanted.
func (t *traits) carriedBy(m *Meta) bool {
	for key, wanted := range t.marks {
		if value, found := m.Labels.Lookup(key); !found || value != wanted {
			return false
		}
	}
	return t.left || m.Annotations[syncer.AnnotationApplied] == t.applied
}

// dress sets the labels and annotations of an action; current is nil for an object that is created.
// Annotations of others stay, and so do labels where the source is unknown.
func (a *Action) dress(current *Meta, t *traits) {
	a.Labels, a.Annotations = map[string]string{}, map[string]string{}
	if current != nil {
		maps.Copy(a.Annotations, current.Annotations)
		for _, key := range []string{syncer.AnnotationTriggerTime, syncer.AnnotationOverCapacity, syncer.AnnotationReserve} {
			delete(a.Annotations, key)
		}
	}
	switch {
	case !t.left:
		for _, key := range strings.Fields(a.Annotations[syncer.AnnotationApplied]) {
			delete(a.Annotations, key)
		}
		maps.Copy(a.Labels, t.labels)
		maps.Copy(a.Annotations, t.annotations)
		a.Annotations[syncer.AnnotationApplied] = t.applied
	case current != nil:
		maps.Copy(a.Labels, current.Labels.Map())
	}
	maps.Copy(a.Labels, t.marks)
	a.Annotations[syncer.AnnotationReplica] = a.Replica.String()
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
