// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"tributary.dev/tributary/syncer"
)

// Bounds of what a member can make a replica carry. An API server refuses an
// object whose annotations have more than 256 KiB together.
const (
	maxPassed = 64 << 10
	// maxSharing bounds each of the annotations that say how a replica is shared.
	maxSharing = 4096
)

// ourDomain is that of the labels and annotations that Tributary alone writes.
const ourDomain = "tributary.dev/"

// reservedAnnotations mean something about the object they are on, or record how
// it was made; so do all in the domains of reservedDomains.
var (
	reservedAnnotations = map[string]bool{
		"kubectl.kubernetes.io/last-applied-configuration": true,
		"control-plane.alpha.kubernetes.io/leader":         true,
		"service.kubernetes.io/topology-mode":              true,
		"service.kubernetes.io/topology-aware-hints":       true,
	}
	reservedDomains = []string{ourDomain, "endpoints.kubernetes.io/", "endpointslice.kubernetes.io/"}
)

// ReservedAnnotation reports whether an annotation of a source never reaches its
// replica.
func ReservedAnnotation(key string) bool {
	return reservedAnnotations[key] || slices.ContainsFunc(reservedDomains, func(d string) bool { return strings.HasPrefix(key, d) })
}

// passedAnnotations returns the annotations of a source Service that its replica
// takes over, and their keys: those that pass (nil passes none), that the API accepts,
// and that have room, in the order of their keys.
func passedAnnotations(source map[string]string, pass func(key string) bool) (out map[string]string, keys []string) {
	out = map[string]string{}
	if pass == nil || len(source) == 0 {
		return out, nil
	}
	room := maxPassed
	for _, key := range slices.Sorted(maps.Keys(source)) {
		value := source[key]
		// The API checks keys as if they were in lower case.
		fits := len(key)+len(value) <= room && syncer.IsQualifiedName(strings.ToLower(key)) && utf8.ValidString(value)
		if fits && !ReservedAnnotation(key) && pass(key) {
			out[key] = value
			keys = append(keys, key)
			room -= len(key) + len(value)
		}
	}
	return out, keys
}

// sharing returns the annotations of a source that say how its replica is shared;
// nil if there are none.
func sharing(source map[string]string) map[string]string {
	var out map[string]string
	for _, key := range []string{AnnotationMode, AnnotationFailover} {
		if value, given := source[key]; given && len(value) <= maxSharing && utf8.ValidString(value) {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// annotations are those of a source as far as the replica tells: how it is shared
// from the record, and what the replica took over if this source is the one it
// took them from, which is the first.
func (r *recovery) annotations(s source) map[string]string {
	out := sharing(s.Annotations)
	first := r.current.sources()
	if len(first) == 0 || first[0].Cluster != s.Cluster || first[0].Service != s.Service {
		return out
	}
	standing := r.current.Service
	for _, key := range standing.Passed {
		if value, stands := standing.Annotations[key]; stands {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// annotated returns a standing object's annotations with ours, and those that it took
// over, replaced by the wanted ones; nil when none are left.
func annotated(standing map[string]string, took []string, wanted map[string]string) map[string]string {
	out := make(map[string]string, len(standing)+len(wanted))
	for key, value := range standing {
		if !ours[key] && !slices.Contains(took, key) {
			out[key] = value
		}
	}
	maps.Copy(out, wanted)
	if len(out) == 0 {
		return nil
	}
	return out
}

// sameAnnotations compares ours and those taken over, but for the trigger time, which
// changes with the clock, not with the endpoints, and the others named.
func sameAnnotations(standing, wanted map[string]string, but ...string) bool {
	for key := range ours {
		if key != AnnotationTrigger && !slices.Contains(but, key) && !sameEntry(standing, wanted, key) {
			return false
		}
	}
	for key := range wanted {
		if !ours[key] && !sameEntry(standing, wanted, key) {
			return false
		}
	}
	return true
}

func sameEntry(a, b map[string]string, key string) bool {
	x, inA := a[key]
	y, inB := b[key]
	return inA == inB && x == y
}
