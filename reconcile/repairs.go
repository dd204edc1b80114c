// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"golang.org/x/time/rate"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

const (
	// repairBurst is how often an object is put right at once, repairPace the time between
	// two repairs after that.
	repairBurst = 5
	repairPace  = 12 * time.Second
	// manyRepairs is from how many on those that are long ago are forgotten.
	manyRepairs = 1000
)

// repairs paces the undoing of what others do, so that two who disagree do not wear out an API
// server. It never holds a removal, nor an object that others leave alone.
type repairs struct {
	// edited are the objects that others changed since their replica was last compared.
	edited map[syncer.Key][]plan.Object
	of     map[plan.Object]*repair
	// held are the replicas of objects that are left as they are, the longest first.
	held []heldRepair
}

// repair is the pace of one object: until then it is left as it is.
type repair struct {
	limiter *rate.Limiter
	until   time.Time
}

type heldRepair struct {
	replica syncer.Key
	until   time.Time
}

func newRepairs() repairs {
	return repairs{edited: map[syncer.Key][]plan.Object{}, of: map[plan.Object]*repair{}}
}

func (r *repairs) note(key syncer.Key, o plan.Object) {
	if !slices.Contains(r.edited[key], o) {
		r.edited[key] = append(r.edited[key], o)
	}
}

// take returns what others changed of a replica since the last call.
func (r *repairs) take(key syncer.Key) []plan.Object {
	edited := r.edited[key]
	delete(r.edited, key)
	return edited
}

// pace leaves out actions that have to wait.
func (r *repairs) pace(now time.Time, key syncer.Key, edited []plan.Object, actions []plan.Action) (may []plan.Action, held bool) {
	if len(edited) == 0 && len(r.of) == 0 {
		return actions, false
	}
	may = slices.DeleteFunc(slices.Clone(actions), func(a plan.Action) bool {
		o := a.Object()
		if slices.Contains(edited, o) {
			r.charge(now, key, o)
		}
		one := r.of[o]
		return one != nil && now.Before(one.until) && a.Lane() != plan.Removal
	})
	return may, len(may) < len(actions)
}

// charge counts a repair of an object.
func (r *repairs) charge(now time.Time, key syncer.Key, o plan.Object) {
	one := r.of[o]
	if one == nil {
		if len(r.of) >= manyRepairs {
			for other, is := range r.of {
				if is.limiter.TokensAt(now) >= repairBurst {
					delete(r.of, other)
				}
			}
		}
		one = &repair{limiter: rate.NewLimiter(rate.Every(repairPace), repairBurst)}
		r.of[o] = one
	}
	if now.Before(one.until) || one.limiter.AllowN(now, 1) {
		return
	}
	one.until = now.Add(repairPace)
	r.held = append(r.held, heldRepair{key, one.until})
}

// due returns the replicas that are to be compared again because they were held, and when the
// next one is.
func (r *repairs) due(now time.Time) (replicas []syncer.Key, next time.Time) {
	for len(r.held) > 0 && !now.Before(r.held[0].until) {
		replicas, r.held = append(replicas, r.held[0].replica), r.held[1:]
	}
	if len(r.held) > 0 {
		next = r.held[0].until
	}
	return replicas, next
}
