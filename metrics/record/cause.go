// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"time"
)

// Cause is the event that made a Service dirty: the first stamp of a change
// record. It travels with the key through the lanes and is never changed.
type Cause struct {
	Cluster         string `json:"cluster,omitempty"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Event is "added", "modified", "deleted", "relist", "resync", "config", "repair",
	// "missing": a list lacks it, "stable": ready for as long as readiness.stableFor, or
	// "keep_one": it returns earlier because there were no ready one.
	Event string `json:"event"`
	// State is what a pod had become: "ready", "not ready", "terminating" or
	// "gone". Empty for other kinds, and where it is not known.
	State string `json:"state,omitempty"`
	// IP is the pod's address, so that the story of an address can name its pod;
	// empty for other kinds.
	IP string `json:"ip,omitempty"`
	// Kept is the reason for which a guard keeps the event from having an effect: one
	// of HoldReasons. Empty where none does.
	Kept string `json:"kept,omitempty"`
	// Rule is the rule of the configuration that decides about the pod, or did, or whose
	// edit it is; empty where none does.
	Rule string `json:"rule,omitempty"`
	// SourceTime is when the member says that a pod's readiness changed or its deletion
	// began: whole seconds, by the member's clock. Zero where it does not say.
	SourceTime time.Time `json:"sourceTime,omitzero"`
	// Arrival is when the event was read off the wire; its monotonic reading is
	// what latencies are computed from.
	Arrival time.Time `json:"arrival"`
	// Live is true for a watch event, false for a first fill, relist, resync,
	// repair or configuration change: only live causes count in latencies.
	Live bool `json:"live"`
}

// String renders the cause for people: "Pod shop/web-1 modified (terminating)".
func (c Cause) String() string {
	var b strings.Builder
	b.Grow(len(c.Kind) + len(c.Namespace) + len(c.Name) + len(c.Event) + len(c.State) + 6)
	b.WriteString(c.Kind)
	if c.Name != "" {
		b.WriteByte(' ')
		if c.Namespace != "" {
			b.WriteString(c.Namespace)
			b.WriteByte('/')
		}
		b.WriteString(c.Name)
	}
	if c.Event != "" {
		b.WriteByte(' ')
		b.WriteString(c.Event)
	}
	if c.State != "" {
		b.WriteString(" (")
		b.WriteString(c.State)
		b.WriteByte(')')
	}
	return b.String()
}

// MarshalText renders the cause for a text log, with what it takes to find it again:
// "Pod shop/web-1 modified (terminating), cluster idc-a, ip 10.2.3.4, uid 0f2…,
// resourceVersion 77".
func (c Cause) MarshalText() ([]byte, error) { return c.appendText(nil), nil }

func (c *Cause) appendText(b []byte) []byte {
	b = append(b, c.String()...)
	for _, part := range [...]struct{ name, value string }{
		{"cluster", c.Cluster}, {"ip", c.IP}, {"uid", c.UID}, {"resourceVersion", c.ResourceVersion}, {"kept", c.Kept}, {"rule", c.Rule},
	} {
		if part.value != "" {
			b = append(append(append(append(b, ", "...), part.name...), ' '), part.value...)
		}
	}
	return b
}
