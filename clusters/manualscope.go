// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// scope is what one watch of Endpoints covers: one object, one namespace (no
// name), or everything (no namespace either).
type scope struct{ namespace, name string }

// covers reports whether the Endpoints of a Service are in the scope.
func (s scope) covers(key syncer.Key) bool {
	return (s.namespace == "" || s.namespace == key.Namespace) && (s.name == "" || s.name == key.Name)
}

// A watch of one object brings nothing but what is wanted and costs the server a
// stream; a watch of a namespace brings the derived Endpoints of its other
// Services as well. They are not left out by label: the label by which newer
// controllers mark what they derive stays on an object that is written by hand
// from then on.
const (
	scopesPerNamespace = 8
	scopesAtMost       = 64
)

// scopesOf chooses the watches for some Services, which are sorted.
func scopesOf(services []syncer.Key) []scope {
	var scopes []scope
	for len(services) > 0 {
		namespace := services[0].Namespace
		n := slices.IndexFunc(services, func(k syncer.Key) bool { return k.Namespace != namespace })
		if n < 0 {
			n = len(services)
		}
		if n > scopesPerNamespace {
			scopes = append(scopes, scope{namespace: namespace})
		} else {
			for _, key := range services[:n] {
				scopes = append(scopes, scope{key.Namespace, key.Name})
			}
		}
		services = services[n:]
	}
	if len(scopes) > scopesAtMost {
		return []scope{{}}
	}
	return scopes
}
