// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"strings"
)

// Key names a namespaced object, here nearly always a Service: a source in a
// member or a replica in the ingress cluster.
type Key struct {
	Namespace string
	Name      string
}

// String renders the key as kubectl users write it: "namespace/name".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// ParseKey is the inverse of String. ok is false unless there is exactly one
// slash with text on both sides.
func ParseKey(s string) (key Key, ok bool) {
	namespace, name, found := strings.Cut(s, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Key{}, false
	}
	return Key{Namespace: namespace, Name: name}, true
}

// Compare orders keys by namespace, then by name.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Namespace, other.Namespace), strings.Compare(k.Name, other.Name))
}
