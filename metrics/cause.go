// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "time"

// Cause is the event that made a Service dirty: the first stamp of a change
// record. It travels with the key through the lanes and is never changed.
type Cause struct {
	Cluster         string `json:"cluster,omitempty"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Event is "added", "modified", "deleted", "relist", "resync", "config", "repair".
	Event string `json:"event"`
	// Arrival is when the event was read off the wire; its monotonic reading is
	// what latencies are computed from.
	Arrival time.Time `json:"arrival"`
	// Live is true for a watch event, false for a first fill, relist, resync,
	// repair or configuration change: only live causes count in latencies.
	Live bool `json:"live"`
}
