// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tributary.dev/tributary/metrics/record"
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

// edited receives that somebody else changed an object. What comes while our own request for
// it is under way may be that; its answer is followed by a comparison anyway.
func (r *Reconciler) edited(key syncer.Key, o plan.Object, arrived time.Time) {
	cause := record.Cause{Kind: o.Kind.String(), Namespace: o.Namespace, Name: o.Name, Event: record.EventRepaired, Arrival: arrived}
	switch {
	case r.dispatch.Busy(o):
	case o.Kind == plan.KindNamespace:
		r.compareNamespace(o.Name, plan.Addition, cause)
	default:
		if r.leading.Load() {
			r.repairs.note(key, o)
		}
		r.queue.Add(key, plan.Addition, cause)
	}
}

// repairs paces the undoing of what others do, so that two who disagree do not wear out an API
// server. It never holds a removal, nor an object that others leave alone. All methods are
// safe for concurrent use.
type repairs struct {
	// again has a replica compared.
	again func(syncer.Key)

	mu sync.Mutex
	// edited are the objects that others changed since their replica was last compared.
	edited map[syncer.Key][]plan.Object
	of     map[plan.Object]*repair
}

// repair is the pace of one object: until then it is left as it is.
type repair struct {
	limiter *rate.Limiter
	until   time.Time
}

func (r *repairs) note(key syncer.Key, o plan.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.edited == nil {
		r.edited, r.of = map[syncer.Key][]plan.Object{}, map[plan.Object]*repair{}
	}
	if !slices.Contains(r.edited[key], o) {
		r.edited[key] = append(r.edited[key], o)
	}
}

// take returns what others changed of a replica since the last call.
func (r *repairs) take(key syncer.Key) []plan.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	edited := r.edited[key]
	delete(r.edited, key)
	return edited
}

// pace leaves out actions that have to wait, and has the replica compared again then.
func (r *repairs) pace(key syncer.Key, edited []plan.Object, actions []plan.Action, now time.Time) (may []plan.Action, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(edited) == 0 && len(r.of) == 0 {
		return actions, false
	}
	may = slices.DeleteFunc(slices.Clone(actions), func(a plan.Action) bool {
		o := a.Object()
		if slices.Contains(edited, o) {
			r.lockedCharge(key, o, now)
		}
		one := r.of[o]
		return one != nil && now.Before(one.until) && a.Lane() != plan.Removal
	})
	return may, len(may) < len(actions)
}

// lockedCharge counts a repair of an object.
func (r *repairs) lockedCharge(key syncer.Key, o plan.Object, now time.Time) {
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
	time.AfterFunc(repairPace, func() { r.again(key) })
}
