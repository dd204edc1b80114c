// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
)

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// kindOf maps resources to the kinds of a replica's objects.
var kindOf = map[string]Kind{"services": Service, "endpoints": Endpoints, "endpointslices": EndpointSlice}

// besides are the other resources that tributary may write. A review stores nothing.
var besides = []string{"namespaces", "leases", "configmaps", "events", "selfsubjectaccessreviews"}

func succeeded(w *cluster.Write) bool { return w.Code >= 200 && w.Code < 300 && !w.DryRun }

// audit checks tributary's write requests for OWNED and ZERO.
func (c *checker) audit() {
	for _, m := range c.h.Members {
		for _, w := range c.h.Writes[m] {
			if w.User == c.h.User {
				c.violated(Owned, c.at(w.Time), "%s %s %s/%s in the member %s", w.Verb, w.Resource, w.Namespace, w.Name, m)
			}
		}
	}
	effects, writes := c.versions(), map[objectKey]int{}
	for i := range c.h.Writes[c.h.Ingress] {
		w := &c.h.Writes[c.h.Ingress][i]
		if w.User != c.h.User || w.Namespace != "" && !c.h.covers(w.Namespace) {
			continue
		}
		at := c.at(w.Time)
		kind, isReplica := kindOf[w.Resource]
		if isReplica && c.spans.concerns("", at, Quiet) {
			c.violated(Zero, at, "%s %s %s/%s (answer %d) while nothing changed", w.Verb, w.Resource, w.Namespace, w.Name, w.Code)
		}
		switch {
		case !succeeded(w):
			continue
		case !isReplica && !slices.Contains(besides, w.Resource), w.Verb == "deletecollection":
			c.violated(Owned, at, "%s %s %s/%s is not tributary's to do", w.Verb, w.Resource, w.Namespace, w.Name)
			continue
		case !isReplica:
			continue
		}
		c.report.Writes++
		key := objectKey{kind, Key{w.Namespace, w.Name}}
		if w.Verb != "create" && c.ownership(key, at, w.Verb) && w.Verb != "delete" {
			writes[key]++
		}
	}
	for key, n := range writes {
		if n > effects[key] {
			c.violated(Zero, c.h.End, "%s %s was updated %d times, which made %d new versions", key.Kind, key.Key, n, effects[key])
		}
	}
}

// at converts a time of the apiserver's clock, which is this machine's.
func (c *checker) at(t time.Time) time.Duration { return t.Sub(c.h.Began) }

// ownership checks that an object was not somebody else's around the time of a write. It
// returns whether the recorder saw the object then at all: one that a restored store
// brought back may be gone before the recorder lists again.
func (c *checker) ownership(key objectKey, at time.Duration, verb string) (seen bool) {
	foreign := false
	var last metav1.Object
	for i := range c.h.Events {
		e := &c.h.Events[i]
		if e.Cluster != c.h.Ingress || e.Kind != key.Kind || e.Key != key.Key {
			continue
		}
		if e.At >= at-c.s.Slack {
			// The state before the write, and every state that it may have met.
			if c.h.Installation.owns(last) || c.h.Installation.owns(e.Object) {
				return true
			}
			foreign = foreign || last != nil || e.Object != nil
			if e.At > at+c.s.Slack {
				break
			}
		}
		last = e.Object
	}
	if foreign || last != nil && !c.h.Installation.owns(last) {
		c.violated(Owned, at, "%s %s %s, which is not this installation's", verb, key.Kind, key.Key)
	}
	return foreign || last != nil
}

// trespasses checks that where another installation has the Service, this one writes
// nothing of that name.
func (c *checker) trespasses() {
	since := map[Key]time.Duration{} // since when the Service of that name is another's
	for i := range c.h.Events {
		e := &c.h.Events[i]
		if e.Cluster != c.h.Ingress || !c.h.covers(e.Key.Namespace) {
			continue
		}
		replica := e.Key
		if e.Kind == EndpointSlice && e.Object != nil {
			replica.Name = e.Object.GetLabels()[discoveryv1.LabelServiceName]
		}
		mine := c.h.Installation.owns(e.Object)
		from, taken := since[replica]
		switch {
		case e.Kind == Service && marked(e.Object) && !mine:
			if first(e) {
				since[replica] = -c.s.Slack
			} else if !taken {
				since[replica] = e.At
			}
		case e.Kind == Service:
			delete(since, replica)
		case mine && taken && !first(e) && !e.ByHand && e.At > from+c.s.Slack:
			c.violated(Owned, e.At, "%s %s was written, and another installation has the Service", e.Kind, e.Key)
		}
	}
}

// versions counts the new versions of each object that tributary may have made.
// Where a list hides some, the number is unknown.
func (c *checker) versions() map[objectKey]int {
	const unknown = 1 << 30
	count := map[objectKey]int{}
	exists := map[objectKey]bool{}
	for i := range c.h.Events {
		e := &c.h.Events[i]
		if e.Cluster != c.h.Ingress {
			continue
		}
		key := objectKey{e.Kind, e.Key}
		switch {
		case e.Listed && !first(e):
			count[key] = unknown
		case e.Object != nil && exists[key] && !first(e) && !e.ByHand:
			count[key]++
		}
		exists[key] = e.Object != nil
	}
	return count
}
