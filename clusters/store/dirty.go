// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"slices"

	"tributary.dev/tributary/syncer"
)

// dirtyList gathers what a call returns; its callers tell each Service once. The zero value
// is ready.
type dirtyList []Dirty

// add notes an effect on a Service, if it is replicated; None is no effect.
func (d *dirtyList) add(svc *service, effect syncer.Effect) {
	if svc.replicated && effect != syncer.None {
		*d = append(*d, Dirty{svc.key(), effect})
	}
}

// addMoved notes what becomes of a Service that may have begun, or ceased, to be replicated,
// and what an effect is on one that stays so.
func (d *dirtyList) addMoved(svc *service, was bool, effect syncer.Effect) {
	switch {
	case was && !svc.replicated:
		*d = append(*d, Dirty{svc.key(), syncer.Removal})
	case was:
		d.add(svc, effect)
	default:
		d.add(svc, syncer.Addition)
	}
}

// sorted returns the list by effect, strongest first, then by key.
func (d dirtyList) sorted() []Dirty {
	slices.SortFunc(d, func(a, b Dirty) int {
		return cmp.Or(cmp.Compare(b.Effect, a.Effect), a.Replica.Compare(b.Replica))
	})
	return d
}
