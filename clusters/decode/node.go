// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/store"
)

// Node converts a Node; nil gives the zero value.
func (d *Decoder) Node(n *corev1.Node) store.Versioned[store.Node] {
	if n == nil {
		return store.Versioned[store.Node]{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return store.Versioned[store.Node]{
		Object: store.Node{Name: n.Name, Zone: d.str(n.Labels[corev1.LabelTopologyZone])},
		RV:     store.Revision(n.ResourceVersion),
	}
}
