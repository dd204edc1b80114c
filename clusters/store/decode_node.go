// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import corev1 "k8s.io/api/core/v1"

// Node is what endpoints take from a Node: its zone.
type Node struct {
	Name string
	// Zone is empty when the Node does not name one.
	Zone string
}

// Node converts a Node; nil gives the zero value.
func (d *Decoder) Node(n *corev1.Node) Versioned[Node] {
	if n == nil {
		return Versioned[Node]{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return Versioned[Node]{
		Object: Node{Name: n.Name, Zone: d.str(n.Labels[corev1.LabelTopologyZone])},
		RV:     Revision(n.ResourceVersion),
	}
}
