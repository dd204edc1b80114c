// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// sameSelector tells nil, which selects nothing, from empty, which selects all.
func sameSelector(a, b map[string]string) bool {
	return (a == nil) == (b == nil) && maps.Equal(a, b)
}

// equalServices reports whether two versions are the same to everything that
// reads them.
func equalServices(a, b *syncer.Service) bool {
	return sameTraffic(a, b) && a.Created == b.Created &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// sameTraffic reports whether no endpoint can differ between two versions of a
// Service, whatever its pods.
func sameTraffic(a, b *syncer.Service) bool {
	return a.Key == b.Key && a.UID == b.UID && a.ClusterIP == b.ClusterIP && a.ExternalName == b.ExternalName &&
		a.PublishNotReadyAddresses == b.PublishNotReadyAddresses &&
		a.Annotations[syncer.TolerateUnreadyAnnotation] == b.Annotations[syncer.TolerateUnreadyAnnotation] &&
		sameSelector(a.Selector, b.Selector) && slices.Equal(a.IPFamilies, b.IPFamilies) &&
		slices.EqualFunc(a.Ports, b.Ports, equalServicePorts)
}

func equalServicePorts(a, b syncer.ServicePort) bool {
	sameApp := a.AppProtocol == b.AppProtocol ||
		a.AppProtocol != nil && b.AppProtocol != nil && *a.AppProtocol == *b.AppProtocol
	a.AppProtocol, b.AppProtocol = nil, nil
	return a == b && sameApp
}

// serviceEffect says what a change of a Service that keeps its replica can do.
// A change of what selects or describes endpoints can take some away.
func serviceEffect(old, v *syncer.Service) syncer.Effect {
	if old == v || sameTraffic(old, v) {
		return syncer.Addition
	}
	return syncer.Removal
}
