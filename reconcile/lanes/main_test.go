// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(namespace, name string) syncer.Key { return syncer.Key{Namespace: namespace, Name: name} }

// action is a write of an object of a replica. Only package plan chooses lanes, so a test has
// to reach in.
func action(of syncer.Key, name string, lane plan.Lane) plan.Action {
	a := plan.Action{Verb: plan.Update, Kind: plan.KindEndpointSlice, Replica: of, Name: of.Name + "-" + name}
	field, ok := reflect.TypeFor[plan.Action]().FieldByName("lane")
	if !ok || field.Type != reflect.TypeFor[plan.Lane]() {
		panic("plan.Action has no lane")
	}
	*(*plan.Lane)(unsafe.Add(unsafe.Pointer(&a), field.Offset)) = lane
	return a
}

func of(member string) record.Cause { return record.Cause{Cluster: member, Live: true} }

// bench is a Dispatch with its queue, worked by one hand.
type bench struct {
	*testing.T
	q *Queue
	d *Dispatch
}

func newBench(t *testing.T) *bench {
	q := NewQueue("", nil)
	return &bench{t, q, NewDispatch(q)}
}

func (d *Dispatch) lanes(now time.Time) []metrics.LaneStatus {
	lanes, _ := d.Status(now)
	return lanes
}

func (d *Dispatch) oldest() map[string]time.Time {
	_, oldest := d.Status(time.Now())
	return oldest
}

// compare adds news of a member and plans what its comparison returns.
func (b *bench) compare(of syncer.Key, member string, actions ...plan.Action) *Work {
	b.Helper()
	b.q.Add(time.Now(), of, plan.Bulk, record.Cause{Cluster: member, Live: true})
	return b.compared(of, false, actions...)
}

// compared takes the one key that waits, and leaves out what is under way.
func (b *bench) compared(of syncer.Key, more bool, actions ...plan.Action) *Work {
	b.Helper()
	w := b.q.Next()
	if w == nil || w.Key != of {
		b.Fatalf("got %v, want %v", w, of)
	}
	idle := slices.DeleteFunc(actions, func(a plan.Action) bool { return b.d.Busy(a.Replica, a.Object()) })
	b.d.Replace(time.Now(), w, idle, more || len(idle) < len(actions))
	b.q.Done(w)
	return w
}

// again compares the replica of a grant that has ended, and plans the same.
func (b *bench) again(g *Grant, out Outcome) {
	b.Helper()
	b.d.Done(time.Now(), g, out)
	b.compared(g.Action.Replica, false, g.Action)
}

// done ends a grant well.
func (b *bench) done(g *Grant) {
	b.Helper()
	b.d.Done(time.Now(), g, Outcome{})
	b.compared(g.Action.Replica, false)
}

// next is the grant that is made now, nil if none is.
func (b *bench) next() *Grant {
	g, _ := b.d.Next(time.Now())
	return g
}

// all are the grants that are made now.
func (b *bench) all() (grants []*Grant) {
	for g := b.next(); g != nil; g = b.next() {
		grants = append(grants, g)
	}
	return grants
}

func (b *bench) want(g *Grant, of syncer.Key, name string) *Grant {
	b.Helper()
	switch {
	case g == nil && name == "":
	case g == nil || g.Action.Replica != of || !strings.HasSuffix(g.Action.Name, name):
		b.Fatalf("granted is %s, want %s of %s", text(g), name, of)
	}
	return g
}

func text(g *Grant) string {
	if g == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s of %s (%s)", g.Action.Name, g.Action.Replica, g.Action.Lane())
}

// fill plans n actions of a lane, each of a replica of its own.
func (b *bench) fill(n int, namespace, member string, lane plan.Lane) {
	for i := range n {
		k := key(namespace, fmt.Sprintf("%s-%s-%d", member, lane, i))
		b.compare(k, member, action(k, "s", lane))
	}
}

func count(grants []*Grant, is func(*Grant) bool) (n int) {
	for _, g := range grants {
		if is(g) {
			n++
		}
	}
	return n
}

func inLane(lane plan.Lane) func(*Grant) bool {
	return func(g *Grant) bool { return g.Action.Lane() == lane }
}
