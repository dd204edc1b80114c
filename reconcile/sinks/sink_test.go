// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is one that can be ill. answer says what becomes of a request that tells of these
// Services; nil: it is accepted.
type receiver struct {
	mu       sync.Mutex
	answer   func(names []string) outcome
	has      map[string]string
	newest   map[string]int64
	requests []string
}

func (r *receiver) send(ctx context.Context, _ string, body []byte) outcome {
	var events []event
	if err := json.Unmarshal(body, &events); err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var words, names []string
	for _, e := range events {
		var d document
		if err := json.Unmarshal(e.Data, &d); err != nil {
			panic(err)
		}
		switch d.Endpoints == nil {
		case true:
			words = append(words, "inventory")
		default:
			words, names = append(words, d.Name+"="+addresses(&d)), append(names, d.Name)
		}
	}
	r.requests = append(r.requests, strings.Join(words, " "))
	if r.answer != nil {
		if o := r.answer(names); o.result != resultOK {
			if o.result == resultTimeout {
				r.mu.Unlock()
				<-ctx.Done()
				r.mu.Lock()
			}
			return o
		}
	}
	for _, e := range events {
		r.take(&e)
	}
	return outcome{result: resultOK}
}

// take applies an event as a receiver should.
func (r *receiver) take(e *event) {
	if e.Type == typeInventory {
		var all inventory
		_ = json.Unmarshal(e.Data, &all)
		maps.DeleteFunc(r.has, func(name, _ string) bool { return !slices.Contains(all.Services, "shop/"+name) })
		return
	}
	var d document
	_ = json.Unmarshal(e.Data, &d)
	if d.Generation <= r.newest[d.Name] {
		panic(fmt.Sprintf("%s: generation %d after %d", d.Name, d.Generation, r.newest[d.Name]))
	}
	if r.newest[d.Name] = d.Generation; d.Deleted {
		delete(r.has, d.Name)
		return
	}
	r.has[d.Name] = addresses(&d)
}

func (r *receiver) set(answer func([]string) outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// told returns the requests since the last call, but for inventories.
func (r *receiver) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.DeleteFunc(r.requests, func(request string) bool { return request == "inventory" })
	r.requests = nil
	return strings.Join(out, "; ")
}

func (r *receiver) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.has)
}

// addresses are the last parts of those that are ready; in brackets those that are not.
func addresses(d *document) string {
	if d.Deleted {
		return "-"
	}
	var endpoints []endpoint
	_ = json.Unmarshal(d.Endpoints, &endpoints)
	var out []string
	for _, e := range endpoints {
		text := strings.TrimPrefix(e.Address, "10.0.0.")
		if !e.Ready {
			text = "(" + text + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// world is a Set with one sink, and its receiver.
type world struct {
	*receiver
	t   *testing.T
	set *Set
	// all is what replicas there are; nil: that is not known.
	all  atomic.Pointer[map[syncer.Key]struct{}]
	held atomic.Bool
	stop func()
}

func play(t *testing.T, window, removal time.Duration, change func(*Spec), scene func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, receiver: &receiver{has: map[string]string{}, newest: map[string]int64{}}}
		w.all.Store(&map[syncer.Key]struct{}{})
		w.held.Store(true)
		w.set = New(Options{
			Instance: "default", Observe: func(string, string) {}, Logger: slog.New(slog.DiscardHandler),
			Hold: func(ctx context.Context) (context.Context, func(), bool) { return ctx, func() {}, w.held.Load() },
		})
		spec := Spec{Name: "lb", Selects: func(syncer.Key, map[string]string) bool { return true }, Window: window, RemovalWindow: removal, Rate: 5}
		if change != nil {
			change(&spec)
		}
		w.set.Configure([]Spec{spec})
		w.set.sinks[0].client = w.receiver
		w.lead()
		scene(w)
		w.stop()
	})
}

func (w *world) lead() {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.set.Run(ctx, func() ([]syncer.Key, bool) {
			if all := w.all.Load(); all != nil {
				return slices.SortedFunc(maps.Keys(*all), syncer.Key.Compare), true
			}
			return nil, false
		})
	}()
	w.stop = func() { cancel(); <-ended }
	pass(time.Second)
	w.told()
}

// tell tells what a Service is: its addresses, those not ready in brackets; "-": not there.
func (w *world) tell(name, text string) {
	if text == "-" {
		w.set.Tell(syncer.Key{Namespace: "shop", Name: name}, nil, nil)
		return
	}
	var endpoints []plan.Backend
	for a := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		ready := !strings.HasPrefix(a, "(")
		endpoints = append(endpoints, plan.Backend{Member: "a", Endpoint: syncer.Endpoint{
			Addr: netip.MustParseAddr("10.0.0." + strings.Trim(a, "()")), Ready: ready, Serving: ready, Ports: []syncer.Port{{Number: 80, Protocol: "TCP"}},
		}})
	}
	w.set.Tell(syncer.Key{Namespace: "shop", Name: name}, map[string]string{"name": name}, func() []plan.Backend { return endpoints })
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) expect(t *testing.T, want string) {
	t.Helper()
	if got := w.told(); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// Additions gather for a window that begins with the first; a removal is sent at once, with all
// that came; what came and went is not sent at all.
func TestWindows(t *testing.T) {
	play(t, 2*time.Second, 0, nil, func(w *world) {
		w.tell("web", "1,2")
		pass(time.Second)
		w.tell("web", "1,2,3")
		pass(900 * time.Millisecond)
		w.expect(t, "")
		pass(200 * time.Millisecond)
		w.expect(t, "web=1,2,3")
		w.tell("web", "1,2,3,4")
		pass(time.Second)
		w.tell("web", "1,(2),3,4")
		pass(time.Millisecond)
		w.expect(t, "web=1,(2),3,4")
		pass(time.Second)
		w.tell("web", "1,2,3,4,5")
		w.tell("web", "1,(2),3,4")
		pass(time.Minute)
		w.expect(t, "")
		w.tell("web", "-")
		pass(time.Millisecond)
		w.expect(t, "web=-")
	})
	play(t, 2*time.Second, 10*time.Second, nil, func(w *world) {
		w.tell("web", "1,2")
		pass(2 * time.Second)
		w.expect(t, "web=1,2")
		w.tell("web", "1,(2)")
		pass(9 * time.Second)
		w.tell("web", "1,2") // it returned
		pass(time.Minute)
		w.expect(t, "")
		w.tell("web", "1")
		pass(9 * time.Second)
		w.expect(t, "")
		pass(time.Second)
		w.expect(t, "web=1")
	})
}

// Removals go first, requests obey their rate, and whoever tells never waits.
func TestOrderAndRate(t *testing.T) {
	play(t, 0, 0, nil, func(w *world) {
		w.tell("s0", "1,2")
		pass(time.Millisecond)
		w.expect(t, "s0=1,2")
		for i := range 3000 {
			w.tell(fmt.Sprint("s", i), "1,2")
		}
		pass(200 * time.Millisecond)
		if n := strings.Count(w.told(), "="); n != maxBatch {
			t.Fatalf("%d in a request", n)
		}
		w.tell("s0", "1")
		pass(200 * time.Millisecond)
		if told := w.told(); !strings.HasPrefix(told, "s0=1 ") {
			t.Errorf("told %.40q first", told)
		}
		pass(time.Minute)
		if n := strings.Count(w.told(), "="); n != 3000-2*maxBatch {
			t.Errorf("%d told later", n)
		}
	})
}

// Only what differs from what was acknowledged is sent, and in its newest state, however ill
// the receiver is.
func TestFailures(t *testing.T) {
	for name, o := range map[string]outcome{
		"error":   {result: resultServerError, err: errors.New("503")},
		"timeout": {result: resultTimeout, err: errors.New("no answer")},
		"pause":   {result: resultThrottled, err: errors.New("429"), pause: 20 * time.Second},
	} {
		play(t, time.Second, 0, nil, func(w *world) {
			w.tell("web", "1")
			pass(time.Second)
			w.expect(t, "web=1")
			w.receiver.set(func([]string) outcome { return o })
			w.tell("web", "2")
			pass(5 * time.Minute)
			if n := len(strings.Split(w.told(), "; ")); n < 7 || n > 20 {
				t.Errorf("%s: %d requests in five minutes", name, n)
			}
			if s := w.set.Status()[0]; s.State != "failing" || s.Pending != 1 || s.LagSeconds < 240 || s.LastError == "" {
				t.Errorf("%s: %+v", name, s)
			}
			w.tell("web", "3")
			w.receiver.set(nil)
			pass(time.Minute)
			w.expect(t, "web=3")
			w.tell("web", "1")
			w.receiver.set(func([]string) outcome { return o })
			pass(time.Millisecond)
			w.tell("web", "3") // as it was acknowledged; but who knows what was accepted
			w.told()
			w.receiver.set(nil)
			pass(time.Minute)
			w.expect(t, "web=3")
			if s := w.set.Status()[0]; s.State != "live" || s.Pending != 0 || s.LagSeconds != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		})
	}
}

// A Service that the receiver refuses is found, and left alone; all others are told.
func TestOneServiceIsRefused(t *testing.T) {
	play(t, 0, 0, nil, func(w *world) {
		w.receiver.set(func(names []string) outcome {
			if slices.Contains(names, "s7") {
				return outcome{result: resultRefused, err: errors.New("422")}
			}
			return outcome{result: resultOK}
		})
		for i := range 20 {
			w.tell(fmt.Sprint("s", i), "1")
		}
		pass(time.Minute)
		if s := w.set.Status()[0]; s.Refused != 1 || s.Pending != 1 || s.LagSeconds != 0 || strings.Count(w.state(), ":1") != 19 {
			t.Errorf("%+v, told %s", s, w.state())
		}
		w.told()
		pass(9 * time.Minute)
		if n := strings.Count(w.told(), "s7="); n < 12 || n > 19 {
			t.Errorf("tried %d times in nine minutes", n)
		}
		w.receiver.set(nil)
		w.tell("s7", "2") // another document
		pass(time.Second)
		if s := w.set.Status()[0]; s.Refused != 0 || s.Pending != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A receiver that does not take inventories is told of Services all the same, and of each once.
func TestInventoryIsRefused(t *testing.T) {
	for _, result := range []result{resultRefused, resultServerError} {
		play(t, 0, 0, nil, func(w *world) {
			inventories := 0
			w.receiver.set(func(names []string) outcome {
				if len(names) == 0 {
					inventories++
					return outcome{result: result, err: errors.New("413")}
				}
				return outcome{result: resultOK}
			})
			pass(2 * inventoryEvery)
			for _, text := range []string{"1,2", "1"} {
				w.told()
				w.tell("web", text)
				pass(time.Second)
				w.expect(t, "web="+text)
				pass(inventoryEvery)
				w.expect(t, "")
			}
			if inventories < 30 || inventories > 80 {
				t.Errorf("%s: %d inventories in half an hour", result, inventories)
			}
		})
	}
}

// A receiver that is too slow for many Services at once is told of fewer.
func TestSlowReceiver(t *testing.T) {
	play(t, 0, 0, nil, func(w *world) {
		w.receiver.set(func(names []string) outcome {
			if len(names) > 100 {
				return outcome{result: resultTimeout, err: errors.New("no answer")}
			}
			return outcome{result: resultOK}
		})
		for i := range 1500 {
			w.tell(fmt.Sprint("s", i), "1")
		}
		pass(inventoryEvery)
		if n := strings.Count(w.state(), ":1"); n != 1500 {
			t.Errorf("told of %d Services", n)
		}
	})
}

// A leader tells everything once, and what was deleted meanwhile by an inventory, as soon as
// that is complete; then all again every ten minutes, for receivers that lost something.
func TestStartAndInventory(t *testing.T) {
	play(t, time.Minute, time.Minute, nil, func(w *world) {
		w.tell("a", "1")
		w.tell("b", "1")
		pass(2 * time.Minute)
		w.told()
		w.stop()
		w.tell("b", "-")
		w.tell("c", "1")
		w.all.Store(nil)
		w.lead()
		if got := w.state(); got != "map[a:1 b:1 c:1]" {
			t.Errorf("before the inventory: %s", got)
		}
		w.all.Store(&map[syncer.Key]struct{}{{Namespace: "shop", Name: "untold"}: {}})
		if pass(2 * time.Second); !strings.Contains(w.state(), "b:1") {
			t.Error("an inventory though not every replica was told")
		}
		w.tell("untold", "-")
		pass(2 * time.Second)
		if got := w.state(); got != "map[a:1 c:1]" {
			t.Errorf("after the inventory: %s", got)
		}
		pass(time.Minute)
		w.told()
		pass(8 * time.Minute)
		w.expect(t, "")
		w.receiver.mu.Lock()
		delete(w.has, "a")
		w.receiver.mu.Unlock()
		pass(time.Minute)
		if got := w.state(); got != "map[a:1 c:1]" {
			t.Errorf("after the next: %s", got)
		}
	})
}

// What an inventory named is sent as deleted though this process has sent nothing of it: another one had.
func TestGoneAfterTheInventory(t *testing.T) {
	play(t, time.Minute, time.Minute, nil, func(w *world) {
		w.has["a"] = "1"
		w.stop()
		w.all.Store(nil)
		w.lead()
		w.tell("a", "1")
		w.all.Store(&map[syncer.Key]struct{}{{Namespace: "shop", Name: "a"}: {}})
		pass(2 * time.Second)
		if got := w.state(); got != "map[a:1]" {
			t.Errorf("after the inventory: %s", got)
		}
		w.tell("a", "-")
		pass(2 * time.Second)
		w.expect(t, "a=-")
	})
}

// A sink gets what it selects; what it selects no longer is deleted. One that changes starts from nothing.
func TestSelectionAndConfiguration(t *testing.T) {
	even := func(key syncer.Key, labels map[string]string) bool {
		return labels["name"] == key.Name && key.Name < "c"
	}
	play(t, 0, 0, func(s *Spec) { s.Selects = even }, func(w *world) {
		w.tell("a", "1")
		w.tell("c", "1")
		pass(time.Second)
		w.expect(t, "a=1")
		w.set.Tell(syncer.Key{Namespace: "shop", Name: "a"}, map[string]string{"name": "other"}, func() []plan.Backend { return nil })
		pass(time.Second)
		w.expect(t, "a=-")
		one := w.set.sinks[0]
		w.set.Configure([]Spec{one.spec})
		if w.set.sinks[0] != one {
			t.Error("begun anew without a change")
		}
		changed := one.spec
		changed.Config, changed.URL = "other", "https://u:p@lb.example.com/in?token=x"
		w.set.Configure([]Spec{changed})
		pass(time.Second)
		if s := w.set.Status(); s[0].URL != "https://lb.example.com/in" || s[0].State == "standby" {
			t.Errorf("%+v", s)
		}
		if one.status.State != "standby" {
			t.Error("the former is told still")
		}
		if w.set.Configure(nil); len(w.set.Status()) > 0 {
			t.Error("there is a sink")
		}
	})
}

// Nothing is sent without the Permit, and what is under way when leadership ends is cancelled.
func TestOnlyTheLeaderTells(t *testing.T) {
	play(t, 0, 0, nil, func(w *world) {
		w.held.Store(false)
		w.tell("a", "1")
		pass(time.Minute)
		w.expect(t, "")
		w.held.Store(true)
		pass(time.Second)
		w.expect(t, "a=1")
		w.receiver.set(func([]string) outcome { return outcome{result: resultTimeout, err: errors.New("no answer")} })
		w.tell("a", "2")
		pass(time.Millisecond)
		began := time.Now()
		if w.stop(); time.Since(began) != 0 {
			t.Errorf("the request under way ended after %s", time.Since(began))
		}
		w.tell("a", "3")
		pass(time.Minute)
		w.expect(t, "a=2")
	})
}

// Whatever receivers do, in the end they have what is.
func TestRandomHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 20) {
		play(t, 2*time.Second, time.Second, nil, func(w *world) {
			rng, ills := dice.From(seed, 0), dice.From(seed, 1)
			w.receiver.set(func([]string) outcome {
				kind := []result{resultOK, resultOK, resultServerError, resultRefused, resultTimeout}[ills.IntN(5)]
				return outcome{result: kind, err: errors.New(string(kind))}
			})
			is := map[string]string{}
			for range 200 {
				name := string(rune('a' + rng.IntN(6)))
				if is[name] = []string{"1", "1,2", "(1),2", "3", ""}[rng.IntN(5)]; rng.IntN(5) == 0 {
					delete(is, name)
					w.tell(name, "-")
				} else {
					w.tell(name, is[name])
				}
				pass(time.Duration(rng.IntN(1500)) * time.Millisecond)
				if rng.IntN(50) == 0 {
					w.stop()
					pass(time.Duration(rng.IntN(3)) * time.Second)
					w.lead()
				}
			}
			w.receiver.set(nil)
			pass(12 * time.Minute)
			if got := w.state(); got != fmt.Sprint(is) {
				t.Errorf("seed %d: the receiver has %s, there is %s", seed, got, is)
			}
		})
	}
}
