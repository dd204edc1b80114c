// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// causes checks that each change which tributary made follows from what it can have seen
// of the member: something recent, and nothing older than what the previous change
// followed from. After seeing a pod come back, only a newer event justifies its removal.
// "Previous" is by the time of the request: an endpoint that is being written into one
// slice may be removed from another meanwhile, and then appears once more.
func (c *checker) causes(l *line) {
	type step struct {
		sent  time.Duration
		views []view
	}
	steps := []step{{views: []view{{}}}}
	for i, x := range l.shown {
		if !x.blamed || c.spans.concerns(l.Cluster, x.at, Free) {
			continue
		}
		if (x.flipped || x.on && !l.serves()) && c.spans.concerns(l.Cluster, x.at, Doubt) {
			continue
		}
		rebuilt := x.on && x.made && x.other < x.at && l.Kind == Endpoints && c.down(x.at) != nil
		if rebuilt || !x.on && c.halfWritten(l, i) {
			continue // only slices name the member, and Endpoints are rebuilt from them
		}
		sent := c.sent(x)
		at, _ := slices.BinarySearchFunc(steps, sent+1, func(s step, sent time.Duration) int { return cmp.Compare(s.sent, sent) })
		now := c.views.follow(l.Fact, steps[at-1].views, x.on, c.spans.since(l.Cluster, x.at, c.s.Bound), x.at+c.s.Slack)
		if len(now) == 0 {
			c.uncaused(l, x)
			continue
		}
		steps = slices.Insert(steps, at, step{sent, now})
	}
}

// sent is when the request that made a change arrived at the API server.
func (c *checker) sent(x change) time.Duration {
	e, at := &c.h.Events[x.event], time.Duration(-1)
	for i := range c.h.Writes[c.h.Ingress] {
		w := &c.h.Writes[c.h.Ingress][i]
		if when := c.at(w.Time); kindOf[w.Resource] == e.Kind && (Key{w.Namespace, w.Name}) == e.Key && succeeded(w) && when <= x.at {
			at = max(at, when)
		}
	}
	if at < 0 {
		return x.at // no request was found
	}
	return at
}

// halfWritten reports whether tributary ended when only this kind had the endpoint of a change. The other
// one may have got it since, after the change was decided.
func (c *checker) halfWritten(l *line, i int) bool {
	x, had := l.shown[i], time.Duration(0)
	if i > 0 {
		had = l.shown[i-1].at
	}
	down := c.down(x.at)
	return down != nil && (x.other == x.at || had <= down.To && x.other >= down.From)
}

// down returns when tributary was down last, if that was shortly before.
func (c *checker) down(at time.Duration) (last *Span) {
	for i := range c.spans {
		if s := &c.spans[i]; s.Kind == ProductDown && s.From <= at && at <= s.To+c.s.Bound && (last == nil || s.To > last.To) {
			last = s
		}
	}
	return last
}

// uncaused reports a change without a cause.
func (c *checker) uncaused(l *line, x change) {
	switch {
	case !x.on:
		c.violated(NoWipe, x.at, "%s disappeared, which the member had", l.Fact)
	case len(c.views.follow(l.Fact, []view{{}}, true, 0, forever)) == 0:
		c.violated(NoPhantom, x.at, "%s appeared, which no member ever had", l.Fact)
	default:
		c.violated(NoPhantom, x.at, "%s appeared, which the member no longer had", l.Fact)
	}
}

// emptied checks each time a replica lost its last ready endpoint, and did not get another
// one at once, against what the members had, whatever was doubted. What is really gone does
// not wait for its replacement in another object.
func (c *checker) emptied(lines []*line) {
	type half struct {
		kind    Kind
		replica Key
	}
	of := map[half][]*line{}
	for _, l := range lines {
		if l.serves() && c.judged(l) {
			of[half{l.Kind, l.Replica}] = append(of[half{l.Kind, l.Replica}], l)
		}
	}
	for _, all := range of {
		for _, l := range all {
			for _, x := range l.shown {
				if x.on || !x.blamed || x.serving > 0 || slices.ContainsFunc(all, func(o *line) bool {
					return held(o.shown0, o.shown, true, x.at, x.at+c.s.Slack)
				}) {
					continue
				}
				if slices.Contains(c.s.Serving, l.Replica) {
					c.violated(NoWipe, x.at, "%s disappeared as the last that served", l.Fact)
					continue
				}
				if c.spans.concerns(l.Cluster, x.at, Free) {
					continue
				}
				could := slices.IndexFunc(all, func(o *line) bool {
					return !c.spans.concerns(o.Cluster, x.at, Free) && steady(o, c.spans.since(o.Cluster, x.at, c.s.Bound), x.at+c.s.Slack)
				})
				if could >= 0 && !c.foreign[l.Replica] {
					c.violated(NoWipe, x.at, "%s disappeared as the last that served, and %s could", l.Fact, all[could].Fact)
				}
			}
		}
	}
}

// steady reports whether the member had the fact all the time.
func steady(l *line, from, to time.Duration) bool {
	return !held(l.wanted0, l.wanted, false, from, to)
}

// timely checks that every state which the member had long enough was shown by then, and
// measures how long it took. States that were shown and lost again are left to causes.
func (c *checker) timely(l *line) {
	for i := -1; i < len(l.wanted); i++ {
		value, from, to := l.wanted0, time.Duration(0), c.h.End
		if i >= 0 {
			value, from = l.wanted[i].on, l.wanted[i].at
		}
		if i+1 < len(l.wanted) {
			to = l.wanted[i+1].at
		}
		due := c.spans.settled(l.Cluster, from, c.s.Bound)
		if due < to && !held(l.shown0, l.shown, value, from, due) {
			verb := "was not shown"
			if !value {
				verb = "was still shown"
			}
			c.violated(Isolated, due, "%s %s, as the member had it since %.3f s", l.Fact, verb, from.Seconds())
			continue
		}
		if took, ok := took(l, value, from, min(due, to)); ok && due-c.s.Bound == from {
			c.report.Worst[l.Cluster] = max(c.report.Worst[l.Cluster], took)
		}
	}
}

// took returns how long after from the value was shown, if that was before to.
func took(l *line, value bool, from, to time.Duration) (time.Duration, bool) {
	if valueAt(l.shown0, l.shown, from) == value {
		return 0, true
	}
	for _, x := range l.shown {
		if x.on == value && from < x.at && x.at <= to {
			return x.at - from, true
		}
	}
	return 0, false
}

// final compares the members with the ingress cluster at the end.
func (c *checker) final(l *line) {
	if c.spans.concerns(l.Cluster, c.h.End, suspending...) {
		return
	}
	want, shown := valueAt(l.wanted0, l.wanted, c.h.End), valueAt(l.shown0, l.shown, c.h.End)
	switch {
	case want && !shown:
		c.violated(Converged, c.h.End, "%s is missing", l.Fact)
	case shown && !want:
		c.violated(Converged, c.h.End, "%s is left over", l.Fact)
	}
}

// leftovers compares which replicas exist at the end.
func (c *checker) leftovers() {
	if c.spans.concerns("", c.h.End, suspending...) {
		return
	}
	want := map[Key]bool{}
	for _, m := range c.h.Members {
		if c.spans.concerns(m, c.h.End, suspending...) {
			return
		}
		for key, s := range c.r.services[m] {
			want[key] = want[key] || replicated(s)
		}
	}
	have := map[Key]bool{}
	for key, object := range c.r.objects {
		if !c.h.Installation.owns(object) {
			continue
		}
		if key.Kind == Service {
			have[key.Key] = true
		}
		if key.Kind != EndpointSlice && !want[key.Key] {
			c.violated(Converged, c.h.End, "%s %s is left over: no member has the Service", key.Kind, key.Key)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(want), compareKeys) {
		_, foreign := c.r.objects[objectKey{Service, key}]
		if want[key] && !have[key] && !foreign {
			c.violated(Converged, c.h.End, "Service %s is missing", key)
		}
	}
}
