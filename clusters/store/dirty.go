// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"slices"

	"tributary.dev/tributary/syncer"
)

// dirtyList gathers what a call returns. The zero value is ready.
type dirtyList struct {
	list []Dirty
	// at finds an earlier entry once the list is long; an event touches few
	// Services, a list of pods touches the same one again and again.
	at map[Dirty]int
}

// searchable is the length up to which a list is searched from end to end.
const searchable = 16

// add notes an effect on a Service that is placed; None is no effect.
func (d *dirtyList) add(svc *service, effect syncer.Effect) {
	if svc.placed {
		d.addPair(svc.replica, svc.current.Key, effect)
	}
}

func (d *dirtyList) addPair(replica, source syncer.Key, effect syncer.Effect) {
	if effect == syncer.None {
		return
	}
	pair := Dirty{Replica: replica, Source: source}
	if i := d.find(pair); i >= 0 {
		d.list[i].Effect = max(d.list[i].Effect, effect)
		return
	}
	if d.at != nil {
		d.at[pair] = len(d.list)
	}
	pair.Effect = effect
	d.list = append(d.list, pair)
}

func (d *dirtyList) find(pair Dirty) int {
	if len(d.list) <= searchable {
		return slices.IndexFunc(d.list, func(x Dirty) bool { return x.Replica == pair.Replica && x.Source == pair.Source })
	}
	if d.at == nil {
		d.at = make(map[Dirty]int, 2*len(d.list))
		for i, x := range d.list {
			x.Effect = syncer.None
			d.at[x] = i
		}
	}
	if i, ok := d.at[pair]; ok {
		return i
	}
	return -1
}

// sorted returns the list by effect, strongest first, then by key.
func (d *dirtyList) sorted() []Dirty {
	slices.SortFunc(d.list, func(a, b Dirty) int {
		return cmp.Or(cmp.Compare(b.Effect, a.Effect), a.Replica.Compare(b.Replica), a.Source.Compare(b.Source))
	})
	return d.list
}
