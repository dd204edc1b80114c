// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"time"

	"golang.org/x/time/rate"

	"tributary.dev/tributary/reconcile/plan"
)

const (
	// repairBurst is how often an object is put right at once, repairPace the time between
	// two repairs after that.
	repairBurst = 5
	repairPace  = 12 * time.Second
	// manyRepairs is from how many on those that are long ago are forgotten.
	manyRepairs = 1000
)

// repair is the pace at which one object is put right that others change. Until then all waits
// but what takes away, so that two who disagree do not wear out an API server.
type repair struct {
	limiter *rate.Limiter
	until   time.Time
}

// Repair counts that a comparison has an action on an object which somebody else has changed.
// Call it before Replace.
func (d *Dispatch) Repair(now time.Time, o plan.Object) {
	r := d.repairs[o]
	if r == nil {
		if len(d.repairs) >= manyRepairs {
			maps.DeleteFunc(d.repairs, func(_ plan.Object, r *repair) bool { return r.limiter.TokensAt(now) >= repairBurst })
		}
		r = &repair{limiter: rate.NewLimiter(rate.Every(repairPace), repairBurst)}
		d.repairs[o] = r
	}
	if !now.Before(r.until) && !r.limiter.AllowN(now, 1) {
		r.until = now.Add(repairPace)
	}
}
