// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

var (
	web    = key("shop", "web")
	failed = Outcome{Err: errors.New("no")}
)

func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.fill(200, "shop", "a", plan.Bulk)
		bulk := b.all()
		if len(bulk) != bulkPlaces {
			t.Fatalf("bulk work has %d places, want %d", len(bulk), bulkPlaces)
		}
		b.fill(200, "shop", "a", plan.Addition)
		if n := len(b.all()); n != otherPlaces-bulkPlaces {
			t.Errorf("additions have %d places, want %d", n, otherPlaces-bulkPlaces)
		}
		b.fill(200, "shop", "a", plan.Removal)
		removals := b.all()
		if len(removals) != Places-otherPlaces {
			t.Errorf("removals have %d places, want %d", len(removals), Places-otherPlaces)
		}
		for _, g := range bulk {
			b.done(g)
		}
		if freed := b.all(); count(freed, inLane(plan.Bulk)) > bulkBeside || count(freed, inLane(plan.Removal)) == 0 || len(freed) != bulkPlaces {
			t.Errorf("granted are %d, of which %d are bulk work", len(freed), count(freed, inLane(plan.Bulk)))
		}
	})
}

// For a second after a removal additions have eight places.
func TestAdditionsYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.compare(web, "a", action(web, "s", plan.Removal))
		b.fill(100, "shop", "a", plan.Addition)
		b.done(b.want(b.next(), web, "s"))
		if n := len(b.all()); n != additionsBeside {
			t.Errorf("after a removal additions have %d places, want %d", n, additionsBeside)
		}
		for _, g := range b.d.underWay {
			b.done(g)
		}
		time.Sleep(afterRemoval)
		if n := len(b.all()); n != otherPlaces {
			t.Errorf("a second later they have %d, want %d", n, otherPlaces)
		}
	})
}

// For a second after a removal, and while there is news that nobody compared, bulk work has
// four places; Next says when it has more.
func TestBulkWorkYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.compare(web, "a", action(web, "s", plan.Removal))
		b.done(b.want(b.next(), web, "s"))
		for i := range 100 { // in many namespaces: none is to count as hanging
			b.fill(1, fmt.Sprint("n", i), "a", plan.Bulk)
		}
		time.Sleep(time.Millisecond)
		grants := b.all()
		if len(grants) != bulkBeside {
			t.Errorf("beside a removal bulk work has %d places, want %d", len(grants), bulkBeside)
		}
		_, wake := b.d.Next(time.Now())
		if time.Until(wake) != afterRemoval-time.Millisecond {
			t.Errorf("to be asked again in %v", time.Until(wake))
		}
		time.Sleep(time.Until(wake))
		if grants = append(grants, b.all()...); len(grants) != bulkPlaces {
			t.Errorf("a second later it has %d places, want %d", len(grants), bulkPlaces)
		}
		for _, g := range grants {
			b.d.Done(time.Now(), g, Outcome{})
		}
		if n := len(b.all()); n != bulkBeside {
			t.Errorf("with replicas to compare it has %d places, want %d", n, bulkBeside)
		}
		for w := b.q.Next(); w != nil; w = b.q.Next() {
			b.d.Replace(time.Now(), w, nil, false)
			b.q.Done(w)
		}
		if n := len(b.all()); n != bulkPlaces-bulkBeside {
			t.Errorf("when all is compared it has %d places more, want %d", n, bulkPlaces-bulkBeside)
		}
	})
}

func TestMembersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.fill(500, "shop", "flood", plan.Addition)
		b.fill(20, "shop", "small", plan.Addition)
		if n := count(b.all(), func(g *Grant) bool { return g.Work.Cause.Cluster == "small" }); n != 20 {
			t.Errorf("of %d places the small member has %d, want 20", otherPlaces, n)
		}
	})
}

func TestHangingNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		slow := func(g *Grant) bool { return g.Action.Replica.Namespace == "slow" }
		b.fill(10, "slow", "a", plan.Addition)
		first := b.all()
		time.Sleep(hanging)
		b.fill(400, "slow", "b", plan.Addition)
		b.fill(100, "slow", "b", plan.Removal)
		b.fill(30, "fine", "a", plan.Addition)
		grants := b.all()
		if n := count(grants, func(g *Grant) bool { return slow(g) && g.Action.Lane() == plan.Addition }); n != 0 {
			t.Errorf("a namespace with %d hanging requests got %d more", len(first), n)
		}
		if n := count(grants, inLane(plan.Removal)); n <= latePlaces || len(grants) != Places-len(first) {
			t.Errorf("%d of %d are removals there, which nothing should hold up", n, len(grants))
		}
		for _, g := range grants {
			b.done(g)
		}
		for _, g := range first[:8] {
			b.again(g, failed)
		}
		for _, g := range b.all() {
			b.done(g)
		}
		for i, g := range first[8:] {
			time.Sleep(time.Second)
			b.again(g, failed)
			if n := count(b.all(), func(g *Grant) bool { return slow(g) && g.Action.Lane() == plan.Addition }); n != 1 {
				t.Errorf("after hanging request %d ended, %d are granted, want 1", i, n)
			}
		}
		for range 2 { // some of the first were late, none of the second is
			for _, g := range b.d.underWay {
				b.done(g)
			}
			b.all()
		}
		for _, g := range b.d.underWay {
			b.done(g)
		}
		time.Sleep(afterRemoval)
		if n := count(b.all(), slow); n != otherPlaces {
			t.Errorf("after an answer in time it has %d places, want %d", n, otherPlaces)
		}
	})
}

// The delay of an object grows; a removal does not wait for an addition, but for the server.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wait := func(limit time.Duration) time.Duration {
			t.Helper()
			start := time.Now()
			g, wake := b.d.Next(start)
			for g == nil && wake.Before(start.Add(limit)) {
				time.Sleep(time.Until(wake))
				g, wake = b.d.Next(time.Now())
			}
			took := time.Since(start)
			if g != nil {
				b.again(g, failed)
			}
			return took
		}
		b.compare(web, "a", action(web, "s", plan.Addition))
		want := time.Duration(0)
		for range 20 {
			if got := wait(time.Minute); got < want || got > want+want/5 {
				t.Errorf("the delay is %v, want %v", got, want)
			}
			want = min(longestDelay, max(firstDelay, 2*want))
		}
		less := action(web, "s", plan.Removal)
		less.Less = true
		due := time.Now().Add(longestDelay)
		for range 3 { // of a roll-out whose removals pass
			time.Sleep(longestDelay / 4)
			b.compare(web, "a", less)
			b.d.Done(time.Now(), b.want(b.next(), web, "s"), Outcome{})
		}
		b.compared(web, false, action(web, "s", plan.Addition))
		b.want(b.next(), web, "")
		time.Sleep(time.Until(due)) // the removals have not made it later
		b.done(b.want(b.next(), web, "s"))
		b.compare(web, "a", action(web, "s", plan.Removal))
		b.again(b.want(b.next(), web, "s"), Outcome{Err: failed.Err, RetryAfter: 7 * time.Second})
		if got := wait(time.Minute); got < 7*time.Second || got > 9*time.Second {
			t.Errorf("the server asked for 7s, the wait was %v", got)
		}
		other := key("shop", "other")
		b.compare(other, "a", action(other, "s", plan.Addition))
		b.done(b.want(b.next(), other, "s"))
	})
}

// A request that was lost waits no longer than until another is written, and removals go first then. One that the server
// refused waits for its own delay.
func TestServerAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		dead, refused, other := key("shop", "dead"), key("shop", "refused"), key("shop", "other")
		fail := func(out Outcome) {
			t.Helper()
			for range 10 {
				g, wake := b.d.Next(time.Now())
				for ; g == nil; g, wake = b.d.Next(time.Now()) {
					time.Sleep(time.Until(wake))
				}
				b.again(g, out)
			}
		}
		b.compare(refused, "a", action(refused, "s", plan.Addition))
		fail(Outcome{Err: failed.Err, Refused: true})
		b.compare(web, "a", action(web, "s", plan.Addition))
		b.compare(dead, "a", action(dead, "s", plan.Removal))
		fail(Outcome{Err: failed.Err, Lost: true})
		b.want(b.next(), web, "")
		b.compare(other, "a", action(other, "s", plan.Addition))
		b.done(b.want(b.next(), other, "s"))
		b.done(b.want(b.next(), dead, "s"))
		b.done(b.want(b.next(), web, "s"))
		b.want(b.next(), web, "")
	})
}

// What a comparison plans replaces what was planned, not what is under way, and
// changes count as not written until all of it is.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first := b.compare(web, "a", action(web, "x", plan.Addition), action(web, "y", plan.Addition))
		time.Sleep(time.Second)
		x := b.want(b.next(), web, "x")
		if !b.d.Busy(x.Action.Replica, x.Action.Object()) || b.d.Busy(web, action(web, "y", plan.Addition).Object()) {
			t.Error("x alone should be busy")
		}
		second := b.compare(web, "b", action(web, "x", plan.Addition), action(web, "z", plan.Removal))
		if second.Causes != 2 || second.Cause.Cluster != "a" {
			t.Errorf("the second takes over %+v", second)
		}
		z := b.want(b.next(), web, "z")
		b.want(b.next(), web, "")
		if !b.d.Done(time.Now(), x, failed) {
			t.Error("nothing else of the first comparison is under way")
		}
		time.Sleep(time.Minute)
		b.want(b.next(), web, "") // x may not be wanted any more: a comparison will say
		if b.d.Done(time.Now(), z, Outcome{}); len(b.d.oldest()) != 2 {
			t.Errorf("x is not written, but the oldest are %v", b.d.oldest())
		}
		third := b.compared(web, false, action(web, "x", plan.Addition))
		if third == first || third.Causes != 2 {
			t.Errorf("the third is %+v", third)
		}
		x = b.want(b.next(), web, "x")
		if last := b.d.Done(time.Now(), x, Outcome{}); !last || len(b.d.oldest()) != 0 {
			t.Errorf("all is written, but left are %v", b.d.oldest())
		}
		b.compared(web, false)
		b.compare(web, "a")
		if len(b.d.oldest()) != 0 || len(b.d.replicas) != 0 {
			t.Error("a comparison without a difference leaves something")
		}
		b.q.Add(time.Now(), web, plan.Addition, of("a"))
		b.compared(web, true)
		if len(b.d.oldest()) != 1 {
			t.Error("more is to follow, but the change counts as written")
		}
	})
}

// A repair counts when it is written: one that fails waits for its own delay alone.
func TestRepairsCountWhenTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		again := func() *Grant {
			b.q.Add(time.Now(), web, plan.Addition)
			b.compared(web, false, action(web, "x", plan.Addition))
			return b.next()
		}
		for i := range 2 * repairBurst {
			b.d.Done(time.Now(), b.want(again(), web, "x"), failed)
			time.Sleep(firstDelay << i)
		}
		for range repairBurst {
			b.d.Done(time.Now(), b.want(again(), web, "x"), Outcome{})
		}
		b.want(again(), web, "")
		time.Sleep(repairPace)
		b.want(b.next(), web, "x")
	})
}

// What a process had planned before it lost the Lease is not sent when it leads again, nor delayed
// as before; it counts as not written until it has been compared.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.compare(web, "a", action(web, "x", plan.Addition), action(web, "y", plan.Addition))
		x, y := b.want(b.next(), web, "x"), b.want(b.next(), web, "y")
		b.d.Done(time.Now(), y, Outcome{Err: failed.Err, RetryAfter: time.Hour})
		b.compared(web, false, action(web, "y", plan.Addition))
		if ended := b.d.Drop(time.Now()); len(ended) != 1 || ended[0].Key != web || len(b.d.oldest()) != 1 || !b.d.Busy(x.Action.Replica, x.Action.Object()) {
			t.Errorf("ended are %v, not written %v", ended, b.d.oldest())
		}
		time.Sleep(2 * time.Hour)
		b.want(b.next(), web, "")
		b.again(x, failed)
		time.Sleep(time.Minute)
		b.done(b.want(b.next(), web, "x"))
		if len(b.d.oldest()) != 0 || len(b.d.replicas) != 0 {
			t.Errorf("all is written, but left are %v", b.d.oldest())
		}
	})
}

// The place of a grant that is not used is freed.
func TestUnusedPlacesGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.compare(web, "a", action(web, "s", plan.Addition))
		b.again(b.want(b.next(), web, "s"), Outcome{Err: failed.Err, Unused: true})
		b.done(b.want(b.next(), web, "s"))
	})
}

// Two replicas make the namespace of both, or write one slice: one request is under way, and the other waits.
func TestOneRequestAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		create := func(of syncer.Key) plan.Action {
			a := action(of, of.Namespace, plan.Addition)
			a.Kind, a.Verb, a.Name = plan.KindNamespace, plan.Create, of.Namespace
			return a
		}
		other := key("shop", "other")
		b.compare(web, "a", create(web))
		b.compare(other, "a", create(other))
		first := b.want(b.next(), web, "shop")
		b.want(b.next(), other, "")
		b.done(first)
		second := b.want(b.next(), other, "shop")
		want := []metrics.LaneStatus{{Name: "removal"}, {Name: "addition", Sent: 1, OldestSeconds: 60}, {Name: "bulk"}}
		if lanes := b.d.lanes(time.Now().Add(time.Minute)); !slices.Equal(lanes, want) {
			t.Errorf("the lanes are %+v", lanes)
		}
		slice := func(of syncer.Key, lane plan.Lane) plan.Action {
			a := action(of, "", lane)
			a.Name = "moved" // somebody has edited which replica it belongs to
			return a
		}
		b.done(second)
		b.compare(web, "a", slice(web, plan.Removal))
		b.compare(other, "a", slice(other, plan.Addition))
		first = b.want(b.next(), web, "moved")
		b.want(b.next(), other, "")
		b.done(first)
		b.want(b.next(), other, "moved")
	})
}
