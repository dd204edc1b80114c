// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// What is ours is what carries the mark, the instance's name and a record that fits.
// A label alone makes nothing ours: anybody can set it.

// Claim is what an object says of whose it is. The order is that of strength.
type Claim uint8

const (
	// ClaimNone: it has not the mark.
	ClaimNone Claim = iota
	// ClaimOther: it has the mark, and the name of another instance.
	ClaimOther
	// ClaimMarked: it has the mark and the instance's name, but no record that names
	// the object it is on.
	ClaimMarked
	// ClaimRecorded: it has such a record, too.
	ClaimRecorded
)

// DefaultInstance is the name of an installation that is given none. What the version
// before wrote, which knew of no instances, is its.
const DefaultInstance = "default"

// ClaimOf reads the claim of an object that stands under a replica's name.
func ClaimOf(kind Kind, replica syncer.Key, labels, annotations map[string]string, instance string) Claim {
	if !marked(kind, labels) {
		return ClaimNone
	}
	instance = cmp.Or(instance, DefaultInstance)
	of := labels[LabelInstance]
	record, recorded := annotations[AnnotationReplica]
	switch {
	case of != "" && of != instance:
		return ClaimOther
	case of != "" && record == replica.String():
		return ClaimRecorded
	case of == "" && !recorded && instance == DefaultInstance && kind == KindService && writtenBefore(replica, annotations):
		return ClaimRecorded
	}
	return ClaimMarked
}

// writtenBefore reports whether a Service's sources are all that the version before recorded
// of a replica: under the name of its sources, or one with that in it.
func writtenBefore(replica syncer.Key, annotations map[string]string) bool {
	var sources Sources
	if json.Unmarshal([]byte(annotations[AnnotationSources]), &sources) != nil {
		return false
	}
	return len(sources) > 0 && !slices.ContainsFunc(sources, func(s source) bool {
		of, named := syncer.ParseKey(s.Service)
		return !named || !syncer.IsLabel(s.Cluster) || s.Created.IsZero() || s.Ports == nil || !strings.Contains(replica.Name, of.Name)
	})
}

// marked reports whether labels carry the mark.
func marked(kind Kind, labels map[string]string) bool {
	if kind == KindEndpointSlice {
		return labels[LabelSliceManagedBy] == SliceManagedBy
	}
	return labels[LabelManagedBy] == ManagedBy
}

// Own decides which objects of a replica are ours, from their claims: it sets Owned.
// Beside a Service as the version before wrote it, which is the record of the others,
// Endpoints need no record of their own, nor does a slice of a cluster that it names and that
// it owns. Once they have one, the Service gets its own, and the mark alone makes nothing ours.
func (o *Current) Own() {
	service := o.Service != nil && o.Service.Claim == ClaimRecorded
	before := service && o.Service.unrecorded()
	if o.Service != nil {
		o.Service.Owned = service
	}
	if e := o.Endpoints; e != nil {
		e.Owned = e.Claim == ClaimRecorded || e.Claim == ClaimMarked && before
	}
	for i := range o.Slices {
		s := &o.Slices[i]
		s.Owned = s.Claim == ClaimRecorded || s.Claim == ClaimMarked && before && s.OwnerUID != "" && s.OwnerUID == o.Service.UID && o.Service.Sources.has(s.Cluster)
	}
}

// unrecorded reports whether an object carries no record of its replica.
func (m *Meta) unrecorded() bool { return m.Annotations[AnnotationReplica] == "" }

// Vouched reports whether the record names a cluster, or is lost. What stands of one
// that it does not name, and that is not configured, decides nothing and goes.
func (o *Current) Vouched(cluster string) bool {
	sources := o.sources()
	return len(sources) == 0 || sources.has(cluster)
}

// sources is the record of who feeds the replica, if it is ours.
func (o *Current) sources() Sources {
	if s := o.Service; s != nil && s.Owned {
		return s.Sources
	}
	return nil
}

// Ours reports whether anything of a replica that stands is owned.
func (o *Current) Ours() bool { return o.some(func(m *Meta) bool { return m.Owned }) }

// Disputed reports whether anything carries our mark and instance and is not ours.
func (o *Current) Disputed() bool { return o.some((*Meta).disputed) }

func (m *Meta) disputed() bool { return m.Claim >= ClaimMarked && !m.Owned }

// The reasons for a conflict about an object that is not ours.
const (
	// ConflictInstance: an object of another installation has the name.
	ConflictInstance ConflictReason = "other_instance"
	// ConflictNamespace: a replica stands where nothing may be written any more.
	ConflictNamespace ConflictReason = "namespace"
	// ConflictProcess: another process writes under the same instance's name.
	ConflictProcess ConflictReason = "other_process"
	// ConflictRecord: an object carries our mark, and no record that fits.
	ConflictRecord ConflictReason = "unrecorded"
)

// notOurs says whose an object is that is not ours, and what follows from that.
func notOurs(replica syncer.Key, kind Kind, m *Meta, consequence string) Conflict {
	c := Conflict{Replica: replica, Reason: ConflictForeign}
	label := LabelManagedBy
	if kind == KindEndpointSlice {
		label = LabelSliceManagedBy
	}
	whose := fmt.Sprintf("is not Tributary's (label %s)", label)
	switch {
	case m.Claim == ClaimOther:
		c.Reason = ConflictInstance
		whose = fmt.Sprintf("is of another installation (label %s: %.63q)", LabelInstance, m.Labels[LabelInstance])
	case m.disputed():
		c.Reason = ConflictRecord
		whose = fmt.Sprintf("carries Tributary's mark, but no record that fits (label %s: %.63q, annotation %s: %.80q)",
			LabelInstance, m.Labels[LabelInstance], AnnotationReplica, m.Annotations[AnnotationReplica])
	}
	c.Message = fmt.Sprintf("%s %s/%s stands and %s: %s", kind, replica.Namespace, cmp.Or(m.Name, replica.Name), whose, consequence)
	return c
}

// disputes reports what carries our mark where nobody wants a replica: it is left
// alone.
func (o *Current) disputes() (conflicts []Conflict) {
	for kind, m := range o.objects {
		if m.disputed() {
			conflicts = append(conflicts, notOurs(o.Key, kind, m, "it is left alone; take the mark away, or delete it by hand"))
		}
	}
	return conflicts
}

// OutOfBounds is the plan for a replica in a namespace that may not be written to.
func OutOfBounds(current Current) Plan {
	p := Plan{Replica: current.Key}
	if current.Ours() {
		p.Conflicts = []Conflict{{Replica: current.Key, Reason: ConflictNamespace, Message: fmt.Sprintf(
			"namespace %s is outside of ingress.namespaces: the replica is left as it stands, dead addresses included; take the namespace in, or delete Service %s", current.Key.Namespace, current.Key)}}
	}
	return p
}
