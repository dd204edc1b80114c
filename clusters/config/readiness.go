// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"time"

	"tributary.dev/tributary/syncer"
)

// Annotations by which a Service of a member overrides the configuration's readiness.
const (
	// AnnotationStableFor is a Duration.
	AnnotationStableFor = "tributary.dev/ready-stable-for"
	// AnnotationKeepOne is "true" or "false".
	AnnotationKeepOne = "tributary.dev/ready-keep-one"
)

// Readiness damps flaps on the way up. An endpoint that turned not ready returns only
// after it has been ready for a while. A removal is never delayed, nor is an endpoint
// that is new. For each field the narrowest that says anything decides. First are the annotations
// `tributary.dev/ready-stable-for` and `tributary.dev/ready-keep-one` of a Service of a
// member. Then `namespaces` of the member, `namespaces` here, the member, and what is said
// here for all. See docs/rules.md.
type Readiness struct {
	// StableFor is how long the endpoint must have been ready, such as `10s`, at most
	// `1h`. `0s` waits for nothing.
	StableFor Duration `json:"stableFor"`
	// KeepOne lets an endpoint return at once where its replica would have no ready
	// endpoint otherwise, of whichever member.
	KeepOne bool `json:"keepOne"`
	// Namespaces are exceptions for some namespaces of the members. The first that
	// matches counts.
	Namespaces []NamespaceReadiness `json:"namespaces"`
}

// ClusterReadiness overrides `readiness` for a member. What is left out is as there.
type ClusterReadiness struct {
	Damping
	// Namespaces are exceptions for some namespaces of this member. The first that
	// matches counts.
	Namespaces []NamespaceReadiness `json:"namespaces"`
}

// NamespaceReadiness overrides `readiness` for some namespaces of members.
type NamespaceReadiness struct {
	// Names are names or globs of namespaces in the member. It may not be empty.
	Names []string `json:"names"`
	Damping
}

// Damping is what may be overridden.
type Damping struct {
	// StableFor overrides `readiness.stableFor`. Empty overrides nothing.
	StableFor Duration `json:"stableFor"`
	// KeepOne overrides `readiness.keepOne`. Left out, it overrides nothing.
	KeepOne *bool `json:"keepOne"`
}

// longestStable bounds stableFor: an endpoint that waits for longer is rather gone.
const longestStable = time.Hour

// Damping says how long an endpoint of a Service that turned not ready must have been
// ready before it returns, 0 for not at all, and whether it returns earlier rather than
// that there is none. For each of the two the narrowest that says anything decides: an
// annotation of the Service, a namespace of the member's, a namespace of the file, the
// member, the file. It is pure and safe for concurrent use.
func (c Cluster) Damping(svc *syncer.Service) (stableFor time.Duration, keepOne bool) {
	r := c.compiled()
	if r == nil {
		return 0, true
	}
	chain := []Damping{
		{r.readiness.StableFor, &r.readiness.KeepOne}, c.Readiness.Damping,
		dampingIn(r.readiness.Namespaces, svc.Namespace), dampingIn(c.Readiness.Namespaces, svc.Namespace),
		annotatedDamping(svc),
	}
	for _, d := range chain {
		if d.StableFor != "" {
			stableFor = d.StableFor.Value()
		}
		if d.KeepOne != nil {
			keepOne = *d.KeepOne
		}
	}
	return stableFor, keepOne
}

// dampingIn is what the first entry says that matches a namespace.
func dampingIn(entries []NamespaceReadiness, namespace string) Damping {
	for _, e := range entries {
		if matchesAny(e.Names, namespace) {
			return e.Damping
		}
	}
	return Damping{}
}

// annotatedDamping is what a Service says itself. What is not understood counts as not
// said; see misreadDamping.
func annotatedDamping(svc *syncer.Service) (d Damping) {
	if text := Duration(svc.Annotations[AnnotationStableFor]); text.stable() {
		d.StableFor = text
	}
	if keep, err := strconv.ParseBool(svc.Annotations[AnnotationKeepOne]); err == nil {
		d.KeepOne = &keep
	}
	return d
}

// stable reports whether the text is a length of time that stableFor may have.
func (d Duration) stable() bool {
	v, err := time.ParseDuration(string(d))
	return err == nil && v >= 0 && v <= longestStable
}

// misreadDamping says which annotation is not understood.
func misreadDamping(svc *syncer.Service) string {
	if text, given := svc.Annotations[AnnotationStableFor]; given && !Duration(text).stable() {
		return fmt.Sprintf("annotation %s is %.40q and is ignored; use a length of time up to 1h, such as 10s", AnnotationStableFor, text)
	}
	if text, given := svc.Annotations[AnnotationKeepOne]; given {
		if _, err := strconv.ParseBool(text); err != nil {
			return fmt.Sprintf("annotation %s is %.40q and is ignored; use true or false", AnnotationKeepOne, text)
		}
	}
	return ""
}

// readiness checks what says when endpoints return.
func (k *checker) readiness(at string, stableFor Duration, namespaces []NamespaceReadiness) {
	k.stableFor(at, stableFor)
	for i, entry := range namespaces {
		in := fmt.Sprintf("%s.namespaces[%d]", at, i)
		if len(entry.Names) == 0 {
			k.fault(in+".names", "is empty: the entry would apply to nothing", "name namespaces, or remove the entry")
		}
		k.globs(in+".names", entry.Names)
		if entry.StableFor != "" {
			k.stableFor(in, entry.StableFor)
		}
	}
}

func (k *checker) stableFor(at string, d Duration) {
	field := at + ".stableFor"
	if k.duration(field, d) && !d.stable() {
		k.fault(field, fmt.Sprintf("%q is out of range", string(d)), "use 0s to 1h")
	}
}
