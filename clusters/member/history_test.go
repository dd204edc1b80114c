// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestHistories plays random histories of a cluster, of streams that break, lie, lag and begin
// anew, and of stores that are restored. It checks what is written by the invariants HARD,
// NOPHANTOM, NOWIPE, CONV and ZERO, as far as they apply to a member.
func TestHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 100) {
		h := newHistory(dice.From(seed, 0))
		for n := 0; n < 300 && len(h.faults) == 0; n++ {
			h.act()
			h.check()
		}
		if len(h.faults) == 0 {
			h.settle()
			h.restart()
			before := h.writes
			if h.settle(); h.writes != before {
				h.fault("ZERO: %d writes by a restart", h.writes-before)
			}
		}
		if len(h.faults) > 0 {
			from := max(0, len(h.log)-80)
			t.Fatalf("seed %d: %s\nafter:\n%s", seed, strings.Join(h.faults, "\n"), strings.Join(h.log[from:], "\n"))
		}
	}
}

// TestTheSameEventsHaveTheSameEffects: a simulation can be repeated.
func TestTheSameEventsHaveTheSameEffects(t *testing.T) {
	for seed := range dice.Seeds(t, 10) {
		a, b := newHistory(dice.From(seed, 0)), newHistory(dice.From(seed, 0))
		for n := range 300 {
			a.effects, b.effects = nil, nil
			a.act()
			b.act()
			if !slices.Equal(a.effects, b.effects) {
				t.Fatalf("seed %d, act %d:\n%s\n%s", seed, n, a.effects, b.effects)
			}
		}
	}
}

// truth is a pod as it is in the cluster. bad is true once it was anything but ready and
// selected, so that its endpoint may have been removed for that.
type truth struct {
	pod      syncer.Pod
	revision uint64
	bad      bool
}

// change is one event of the cluster's log.
type change struct {
	kind     Kind
	key      syncer.Key
	uid      string
	revision uint64
	object   any // nil: deleted
}

// feed is one stream as the test plays it.
type feed struct {
	at       uint64
	listed   bool
	down     bool
	restored bool // the store went back under it
}

type history struct {
	*world
	r        *rand.Rand
	config   Config
	revision uint64
	pods     map[syncer.Key]truth
	services map[syncer.Key]store.Versioned[syncer.Service]
	steady   map[syncer.Key]bool // Services that were never changed
	hand     map[syncer.Key]store.Versioned[store.HandEndpoints]
	events   []change
	feeds    map[Scope]*feed
	// gone are UIDs that the state was told to be gone.
	gone   map[string]bool
	backup func()
	uids   int
	writes int
	// effects are those of the last act, as text.
	effects []string
	log     []string
	faults  []string
}

func newHistory(r *rand.Rand) *history {
	h := &history{r: r, pods: map[syncer.Key]truth{}, services: map[syncer.Key]store.Versioned[syncer.Service]{},
		steady: map[syncer.Key]bool{}, hand: map[syncer.Key]store.Versioned[store.HandEndpoints]{}, gone: map[string]bool{}}
	if r.IntN(3) == 0 {
		h.config.Namespaces = []string{"shop", "x"}
	}
	h.world = newWorld(h.config)
	h.restart()
	return h
}

func (h *history) say(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%4d ", h.revision)+fmt.Sprintf(format, args...))
}

func (h *history) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
	h.say("FAULT "+format, args...)
}

// act does one thing.
func (h *history) act() {
	h.now = h.now.Add(time.Duration(h.r.IntN(800)) * time.Millisecond)
	switch h.r.IntN(40) {
	case 0:
		h.restart()
	case 1:
		if h.state.Followed() {
			h.play(h.publishedEvent())
		} else {
			h.restart()
		}
	case 2:
		h.changeService()
	case 3:
		h.changeHand()
	case 4:
		if h.r.IntN(4) == 0 {
			h.restore()
		}
	case 5:
		h.backup = h.snapshot()
	case 6, 7:
		h.breakOne()
	case 8, 9, 10:
		h.list(h.any(), true)
	case 11, 12, 13, 14, 15, 16:
		h.changePod()
	case 17, 18, 19, 20:
		h.answer(h.r.IntN(3) > 0)
	case 21, 22, 23:
		if h.wants {
			h.play(h.publishedEvent())
		}
	case 24:
		h.play(Tick{})
	default:
		h.deliver(h.any())
	}
}

// play plays an event and checks what is written for it.
func (h *history) play(e Event) {
	h.tell(e)
	before := map[syncer.Key][]syncer.Endpoint{}
	for key, endpoints := range h.published {
		before[key] = endpoints
	}
	effects, written := h.step(e)
	for _, c := range effects.Dirty {
		h.effects = append(h.effects, fmt.Sprint(c.Replica, c.Effect, *c.Cause))
	}
	h.effects = append(h.effects, fmt.Sprint(effects.Ask, effects.WantPublished, written))
	h.writes += len(written)
	for _, replica := range written {
		h.say("write %s: %s", replica, h.text(replica))
		h.checkWrite(replica, before[replica])
	}
	h.follow()
}

// tell logs an event.
func (h *history) tell(e Event) {
	switch e := e.(type) {
	case Tick:
	case *Shown[syncer.Pod]:
		if e.Object == nil {
			h.say("gone pod %s %s %d", e.Key, e.UID, e.Revision)
			break
		}
		pod := &e.Object.Object
		h.say("seen %s %s %v ready=%v terminating=%v", e.Key, e.UID, pod.IPs, pod.Ready, pod.Terminating)
	case *Shown[syncer.Service]:
		if e.Object == nil {
			h.say("gone service %s %s %d", e.Key, e.UID, e.Revision)
			break
		}
		h.say("seen %s %s %v", e.Key, e.UID, e.Object.Object.Selector)
	case Listed[syncer.Pod]:
		h.say("listed %s", e.Scope)
		for _, v := range e.Items {
			h.say("    %s %s %v ready=%v terminating=%v", v.Object.Key, v.Object.UID, v.Object.IPs, v.Object.Ready, v.Object.Terminating)
		}
	case Listed[syncer.Service]:
		h.say("listed %s", e.Scope)
		for _, v := range e.Items {
			h.say("    %s %s %v", v.Object.Key, v.Object.UID, v.Object.Selector)
		}
	case Answer:
		h.say("answer %s %s %s: there=%v gone=%v", e.Kind, e.Key, e.UID, e.Object != nil, e.Gone)
	default:
		h.say("%T", e)
	}
}

// follow sets the feeds that the state wants.
func (h *history) follow() {
	next := map[Scope]*feed{}
	for _, scope := range h.state.Scopes() {
		if next[scope] = h.feeds[scope]; next[scope] == nil {
			next[scope] = &feed{}
		}
	}
	h.feeds = next
}

func (h *history) restart() {
	h.say("restart")
	h.begin(h.config)
	h.feeds, h.gone = nil, map[string]bool{}
	h.follow()
}

// any is one of the streams.
func (h *history) any() Scope {
	all := h.state.Scopes()
	return all[h.r.IntN(len(all))]
}

var errAway = errors.New("away")

func (h *history) breakOne() {
	scope := h.any()
	h.feeds[scope].down = true
	h.play(Phase{Scope: scope, Err: []error{nil, errAway}[h.r.IntN(2)]})
}

func (h *history) key(kind string) syncer.Key {
	return syncer.Key{Namespace: []string{"shop", "x"}[h.r.IntN(2)], Name: fmt.Sprintf("%s-%d", kind, h.r.IntN(4))}
}

func (h *history) newUID() string {
	h.uids++
	return fmt.Sprintf("uid-%d", h.uids)
}

// happen appends a change or deletion of an object to the cluster's log.
func (h *history) happen(kind Kind, key syncer.Key, uid string, object any) uint64 {
	h.revision++
	h.say("happens: %v %s %s %v", kind, key, uid, object != nil)
	h.events = append(h.events, change{kind, key, uid, h.revision, object})
	return h.revision
}

// freeAddress is one that no pod has.
func (h *history) freeAddress() netip.Addr {
	for {
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + h.r.IntN(12))})
		if !slices.ContainsFunc(slices.Collect(maps.Values(h.pods)), func(t truth) bool { return t.pod.IPs[0].Addr == addr }) {
			return addr
		}
	}
}

func (h *history) changePod() {
	key := h.key("web")
	t, there := h.pods[key]
	switch {
	case !there:
		t = truth{pod: syncer.Pod{Key: key, UID: h.newUID(), Ready: h.r.IntN(3) > 0, IPs: []syncer.PodIP{{Addr: h.freeAddress()}},
			Labels: syncer.LabelsOf(map[string]string{"app": []string{"a", "b"}[h.r.IntN(2)]})}}
	case h.r.IntN(3) == 0:
		delete(h.pods, key)
		h.happen(Pods, key, t.pod.UID, nil)
		return
	case h.r.IntN(6) == 0: // finished: it has left the selector
		delete(h.pods, key)
		t.pod.Terminal, t.pod.Ready = true, false
		h.happen(Pods, key, t.pod.UID, t.pod)
		return
	case h.r.IntN(4) == 0:
		t.pod.Terminating = true
	default:
		t.pod.Ready = !t.pod.Ready
	}
	t.bad = t.bad || !t.pod.Ready || t.pod.Terminating
	t.revision = h.happen(Pods, key, t.pod.UID, t.pod)
	h.pods[key] = t
}

func (h *history) changeService() {
	key := h.key("svc")
	v, there := h.services[key]
	if there && h.r.IntN(3) == 0 {
		delete(h.services, key)
		h.steady[key] = false
		h.happen(Services, key, v.Object.UID, nil)
		return
	}
	_, before := h.steady[key]
	h.steady[key] = !before
	uid := v.Object.UID
	if !there {
		uid = h.newUID()
	}
	v.Object = syncer.Service{Key: key, UID: uid, Ports: []syncer.ServicePort{{Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: 80}}},
		Selector: map[string]string{"app": []string{"a", "b"}[h.r.IntN(2)]}}
	if h.r.IntN(4) == 0 {
		v.Object.Selector = nil
	}
	v.Revision = h.happen(Services, key, uid, v.Object)
	h.services[key] = v
}

func (h *history) changeHand() {
	key := h.key("svc")
	v, there := h.hand[key]
	if there && h.r.IntN(3) == 0 {
		delete(h.hand, key)
		h.happen(Endpoints, key, v.Object.UID, nil)
		return
	}
	if !there {
		v.Object = store.HandEndpoints{Key: key, UID: h.newUID(), SkipMirror: true}
	}
	v.Object.Subsets = []syncer.Subset{{Ready: []syncer.Address{{Addr: netip.AddrFrom4([4]byte{10, 9, 0, byte(1 + h.r.IntN(9))})}},
		Ports: []syncer.Port{{Protocol: syncer.TCP, Number: 80}}}}
	v.Revision = h.happen(Endpoints, key, v.Object.UID, v.Object)
	h.hand[key] = v
}

// snapshot returns a function that restores the cluster's store to its present state.
func (h *history) snapshot() func() {
	pods, services, hand, revision := maps.Clone(h.pods), maps.Clone(h.services), maps.Clone(h.hand), h.revision
	steady := maps.Clone(h.steady)
	return func() {
		h.pods, h.services, h.hand, h.steady = maps.Clone(pods), maps.Clone(services), maps.Clone(hand), maps.Clone(steady)
		h.revision = revision
	}
}

// restore restores the backup: with lower revisions, or with bumped ones.
func (h *history) restore() {
	if h.backup == nil {
		return
	}
	latest, services, pods := h.revision, h.services, h.pods
	h.backup()
	for key, t := range h.pods {
		delete(h.gone, t.pod.UID) // it lives again
		t.bad = t.bad || pods[key].pod.UID != t.pod.UID || pods[key].bad
		h.pods[key] = t
	}
	for key, v := range h.services {
		h.steady[key] = h.steady[key] && services[key].Revision == v.Revision
	}
	h.events = nil
	if h.r.IntN(2) == 0 {
		h.revision = latest + 1000
	}
	h.say("restored, latest was %d", latest)
	for _, scope := range h.state.Scopes() {
		f := h.feeds[scope]
		f.down, f.listed, f.restored = true, false, h.revision < f.at
		h.play(Phase{Scope: scope})
	}
}

// list lists a scope, and brings it level with its stream. A list may lie: it may lack objects.
func (h *history) list(scope Scope, mayLie bool) {
	f := h.feeds[scope]
	if f == nil {
		return
	}
	if f.restored {
		f.restored = false
		h.play(WentBack{scope})
	}
	lies := func() bool { return mayLie && h.r.IntN(8) == 0 }
	f.at, f.listed, f.down = h.revision, true, false
	switch scope.Kind {
	case Pods:
		var all []store.Versioned[syncer.Pod]
		for _, key := range sorted(h.pods) {
			if t := h.pods[key]; scope.covers(key) && !lies() {
				all = append(all, store.Versioned[syncer.Pod]{Object: t.pod, Revision: t.revision})
			}
		}
		h.play(Listed[syncer.Pod]{Scope: scope, Items: all, Revision: h.revision})
	case Services:
		h.play(Listed[syncer.Service]{Scope: scope, Items: shownOf(h.services, scope, lies), Revision: h.revision})
	case Endpoints:
		h.play(Listed[store.HandEndpoints]{Scope: scope, Items: shownOf(h.hand, scope, lies), Revision: h.revision})
	default:
		h.play(Listed[store.HandSlice]{Scope: scope, Revision: h.revision})
	}
}

func shownOf[T Object](all map[syncer.Key]store.Versioned[T], scope Scope, lies func() bool) (out []store.Versioned[T]) {
	for _, key := range sorted(all) {
		if scope.covers(key) && !lies() {
			out = append(out, all[key])
		}
	}
	return out
}

// deliver continues a stream: it resumes, or shows its next event.
func (h *history) deliver(scope Scope) (more bool) {
	f := h.feeds[scope]
	switch {
	case !f.listed || f.restored:
		return false
	case f.down:
		f.down = false
		h.play(Phase{Scope: scope, Following: true})
		return true
	}
	for _, c := range h.events {
		if c.kind != scope.Kind || !scope.covers(c.key) || c.revision <= f.at {
			continue
		}
		f.at = c.revision
		h.show(scope, &c)
		return true
	}
	if f.at = h.revision; h.r.IntN(2) == 0 {
		h.play(gone(scope, syncer.Key{}, "", h.revision, h.now))
	}
	return false
}

func (h *history) show(scope Scope, c *change) {
	switch o := c.object.(type) {
	case syncer.Pod:
		if o.Terminal {
			h.tellGone(c.uid)
			h.play(gone(scope, c.key, c.uid, c.revision, h.now))
			break
		}
		h.play(seen(scope, store.Versioned[syncer.Pod]{Object: o, Revision: c.revision}, h.now))
		h.checkSeen(&o, c.revision)
	case syncer.Service:
		h.play(seen(scope, store.Versioned[syncer.Service]{Object: o, Revision: c.revision}, h.now))
	case store.HandEndpoints:
		h.play(seen(scope, store.Versioned[store.HandEndpoints]{Object: o, Revision: c.revision}, h.now))
	default:
		h.tellGone(c.uid)
		h.play(gone(scope, c.key, c.uid, c.revision, h.now))
	}
}

func (h *history) tellGone(uid string) { h.gone[uid] = uid != "" }

// answer answers one of the questions.
func (h *history) answer(tells bool) {
	if len(h.asked) == 0 {
		return
	}
	i := h.r.IntN(len(h.asked))
	q := h.asked[i]
	h.asked = slices.Delete(h.asked, i, i+1)
	a := Answer{Question: q}
	if tells {
		a.Object = h.truthOf(q)
		a.Gone = a.Object == nil
		if a.Gone && h.state.Open(q) {
			h.tellGone(q.UID)
		}
	}
	h.play(a)
}

func (h *history) truthOf(q Question) any {
	switch {
	case q.Kind == Pods:
		if t, ok := h.pods[q.Key]; ok {
			return store.Versioned[syncer.Pod]{Object: t.pod, Revision: t.revision}
		}
	case q.Kind == Services:
		if v, ok := h.services[q.Key]; ok {
			return v
		}
	case q.Kind == Endpoints:
		if v, ok := h.hand[q.Key]; ok {
			return v
		}
	}
	return nil
}

// settle ends all faults, and waits until nothing changes any more. Then what is published is
// what the cluster has (CONV).
func (h *history) settle() {
	h.say("settle")
	for scope := range h.feeds { // what a list lacked and nobody asked for comes with the next one
		h.feeds[scope].listed = false
	}
	for range 200 {
		h.now = h.now.Add(time.Second)
		for _, scope := range h.state.Scopes() {
			if f := h.feeds[scope]; f != nil && (!f.listed || f.restored) {
				h.list(scope, false)
			}
		}
		for _, scope := range h.state.Scopes() {
			for h.feeds[scope] != nil && h.deliver(scope) {
			}
		}
		if h.wants {
			h.play(h.publishedEvent())
		}
		for len(h.asked) > 0 {
			h.answer(true)
		}
		h.play(Tick{})
		if h.check(); len(h.faults) > 0 {
			return
		}
	}
	if !h.state.Listed() || len(h.state.asking.open) > 0 {
		h.fault("CONV: listed %v, open %v", h.state.Listed(), len(h.state.asking.open))
	}
	h.checkTruth()
}
