// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/reconcile/sinks/state"
	"tributary.dev/tributary/syncer"
)

// receiver is one that can be ill. answer says what becomes of a request; nil: it is taken.
type receiver struct {
	mu       sync.Mutex
	answer   func(events []event) outcome
	has      map[string]payload
	requests []string
	at       []time.Time
	began    time.Time
}

func newReceiver() *receiver { return &receiver{has: map[string]payload{}, began: time.Now()} }

func (r *receiver) post(ctx context.Context, body []byte) outcome {
	var events []event
	if err := json.Unmarshal(body, &events); err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var words []string
	for _, e := range events {
		words = append(words, e.Data.Name+"="+addresses(e.Data))
	}
	r.requests = append(r.requests, strings.Join(words, " "))
	r.at = append(r.at, time.Now())
	if r.answer != nil {
		if o := r.answer(events); o.result != resultOK {
			if o.result == resultTimeout {
				r.mu.Unlock()
				<-ctx.Done()
				r.mu.Lock()
			}
			return o
		}
	}
	r.take(events)
	return outcome{result: resultOK}
}

// take applies events as a receiver should: what is older than what it has, it leaves.
func (r *receiver) take(events []event) {
	for _, e := range events {
		if e.Data.Generation < r.has[e.Subject].Generation {
			panic(fmt.Sprintf("%s: generation %d after %d", e.Subject, e.Data.Generation, r.has[e.Subject].Generation))
		}
		r.has[e.Subject] = e.Data
	}
}

func (r *receiver) close() {}

func (r *receiver) setAnswer(answer func([]event) outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// told returns the requests since the last call.
func (r *receiver) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.requests, "; ")
	r.requests = nil
	return out
}

// state is what the receiver has.
func (r *receiver) state() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]string{}
	for _, p := range r.has {
		if !p.Deleted {
			out[p.Name] = addresses(p)
		}
	}
	return out
}

func addresses(p payload) string {
	if p.Deleted {
		return "-"
	}
	var out []string
	for _, e := range p.Endpoints {
		out = append(out, strings.TrimPrefix(e.Address, "10.0.0."))
	}
	return strings.Join(out, ",")
}

func service(numbers ...int) *ledger.Service {
	var list []ledger.Endpoint
	for _, n := range numbers {
		list = append(list, ledger.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), Cluster: "idc-a", Ready: true, Serving: true, Ports: []syncer.Port{{Protocol: syncer.TCP, Number: 80}}})
	}
	return ledger.NewService(list)
}

func key(name string) syncer.Key { return syncer.Key{Namespace: "shop", Name: name} }

// process is one process that leads, with sinks whose receivers are given.
type process struct {
	set  *Set
	term Term
	stop func()

	mu     sync.Mutex // each sink looks for itself
	looked []string
}

func spec(name string) Spec {
	return Spec{Name: name, URL: "https://" + name, Changes: 2 * time.Second, Rate: 5, MaxServices: 10, Timeout: time.Second, Config: name,
		Selects: func(syncer.Key, map[string]string) bool { return true }}
}

func newProcess(client *fake.Clientset, receivers map[string]*receiver, specs ...Spec) *process {
	p := &process{set: New(Options{Instance: "default"})}
	p.set.poster = func(s Spec, _ Term) poster { return receivers[s.Name] }
	p.set.Configure(specs)
	p.term = Term{
		Where: state.Where{Client: client, Namespace: "own", Instance: "default"},
		Hold:  func(ctx context.Context) (context.Context, func(), bool) { return ctx, func() {}, true },
		Look: func(k syncer.Key) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.looked = append(p.looked, k.Name)
		},
	}
	return p
}

func (p *process) lead(t *testing.T) *process {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.set.Run(ctx, p.term) }()
	p.stop = func() { cancel(); <-done }
	synctest.Wait()
	return p
}

func (p *process) tell(name string, now *ledger.Service) {
	for _, one := range *p.set.sinks.Load() {
		one.tell(key(name), now, time.Now())
	}
	synctest.Wait()
}

func expect(t *testing.T, r *receiver, want string) {
	t.Helper()
	synctest.Wait()
	if got := r.told(); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestTellsAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		p := newProcess(fake.NewClientset(), map[string]*receiver{"slb": r}, spec("slb")).lead(t)
		defer p.stop()
		for i := range 30 {
			p.tell(fmt.Sprintf("s%02d", i), service(1))
		}
		time.Sleep(1999 * time.Millisecond)
		expect(t, r, "")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(r.requests) != 3 || len(r.state()) != 30 {
			t.Errorf("%d requests, %d Services", len(r.requests), len(r.state()))
		}
		for i := 1; i < len(r.at); i++ {
			if pause := r.at[i].Sub(r.at[i-1]); pause < 200*time.Millisecond {
				t.Errorf("%s between two requests, and 5 a second are allowed", pause)
			}
		}
		r.told()
		p.tell("s00", service())
		expect(t, r, "s00=") // at once
		p.tell("s01", nil)
		time.Sleep(200 * time.Millisecond)
		expect(t, r, "s01=-")
	})
}

// TestRestart: after an orderly end nothing is told again; after a crash what may have been
// told and never acknowledged. What was deleted meanwhile is asked for, and told.
func TestRestart(t *testing.T) {
	for _, orderly := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			client, r := fake.NewClientset(), newReceiver()
			first := newProcess(client, map[string]*receiver{"slb": r}, spec("slb")).lead(t)
			first.tell("same", service(1))
			first.tell("other", service(1))
			first.tell("deleted", service(1))
			first.tell("late", service(1))
			time.Sleep(time.Minute)
			expect(t, r, "deleted=1 late=1 other=1 same=1")
			gone := func(a ktesting.Action) (bool, runtime.Object, error) {
				update, _ := a.(ktesting.UpdateAction)
				return update != nil && strings.HasSuffix(update.GetObject().(*corev1.ConfigMap).Name, ".0"), nil, errors.New("gone")
			}
			if !orderly { // nothing is written any more but what is to be told
				client.PrependReactor("*", "configmaps", gone)
			}
			first.tell("late", service())
			expect(t, r, "late=")
			first.stop()
			if !orderly {
				client.ReactionChain = client.ReactionChain[1:]
			}
			second := newProcess(client, map[string]*receiver{"slb": r}, spec("slb"))
			second.tell("same", service(1)) // as a standby
			second.tell("late", service(1))
			second.lead(t)
			defer second.stop()
			if got := strings.Join(second.looked, " "); got != "deleted other" {
				t.Errorf("looked at %q", got)
			}
			second.tell("other", service(1, 2))
			second.tell("deleted", nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got, want := r.state(), map[string]string{"same": "1", "other": "1,2", "late": "1"}; !maps.Equal(got, want) {
				t.Errorf("orderly %t: the receiver has %v, want %v", orderly, got, want)
			}
			if got := r.told(); strings.Contains(got, "same") {
				t.Errorf("orderly %t: what was acknowledged is told again: %q", orderly, got)
			}
		})
	}
}

// TestAnotherURL: another receiver is told everything.
func TestAnotherURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, r := fake.NewClientset(), newReceiver()
		p := newProcess(client, map[string]*receiver{"slb": r}, spec("slb")).lead(t)
		defer p.stop()
		p.tell("web", service(1))
		time.Sleep(time.Minute)
		expect(t, r, "web=1")
		same, other := spec("slb"), spec("slb")
		same.Config, same.MaxServices = "same", 3
		other.Config, other.URL = "other", "https://elsewhere"
		for want, next := range map[string]Spec{"": same} {
			if !p.set.Configure([]Spec{next}) {
				t.Error("nothing changed")
			}
			synctest.Wait()
			p.tell("web", service(1))
			time.Sleep(time.Minute)
			expect(t, r, want)
		}
		p.set.Configure([]Spec{other})
		p.tell("web", service(1))
		time.Sleep(time.Minute)
		expect(t, r, "web=1")
		if p.set.Configure([]Spec{other}) {
			t.Error("the same counts as a change")
		}
		p.set.Configure(nil)
		p.tell("web", service(2))
		time.Sleep(time.Minute)
		expect(t, r, "")
	})
}

// TestFailures: after each, the newest is told, at a growing pace or when the receiver asks.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name     string
		fails    outcome
		at, most time.Duration
	}{
		{"an error", outcome{result: resultServerError, err: errors.New("500")}, 400 * time.Millisecond, time.Second},
		{"a pause that is asked for", outcome{result: resultThrottled, err: errors.New("429"), pause: 7 * time.Second}, 7 * time.Second, 8 * time.Second},
		{"no answer", outcome{result: resultTimeout, err: errors.New("timeout")}, time.Second, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReceiver()
				p := newProcess(fake.NewClientset(), map[string]*receiver{"slb": r}, spec("slb")).lead(t)
				defer p.stop()
				p.tell("web", service(1, 2))
				time.Sleep(10 * time.Second)
				expect(t, r, "web=1,2")
				r.setAnswer(func([]event) outcome { return test.fails })
				began := time.Now()
				p.tell("web", service(1))
				expect(t, r, "web=1")
				p.tell("web", service(3))
				p.tell("web", service(4))
				r.setAnswer(nil)
				time.Sleep(30 * time.Second)
				expect(t, r, "web=4")
				if took := r.at[len(r.at)-1].Sub(began); took < test.at || took > test.most {
					t.Errorf("tried again after %s", took)
				}
			})
		})
	}
}

// TestDeadReceiver: it is tried at a bounded pace, what waits for it is bounded, whoever tells
// waits for nothing, and another sink is told at once.
func TestDeadReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, well := newReceiver(), newReceiver()
		dead.setAnswer(func([]event) outcome {
			return outcome{result: resultTimeout, err: errors.New("it does not answer in time")}
		})
		a, b := spec("dead"), spec("well")
		b.Changes = 0
		b.Rate = 1000
		p := newProcess(fake.NewClientset(), map[string]*receiver{"dead": dead, "well": well}, a, b).lead(t)
		defer p.stop()
		for i := range 300 {
			before := time.Now()
			p.tell(fmt.Sprint("s", i%10), service(1+i%200))
			if time.Since(before) != 0 {
				t.Fatal("whoever tells waits")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := well.state()[fmt.Sprint("s", i%10)]; got != fmt.Sprint(1+i%200) {
				t.Fatalf("the other sink has %q", got)
			}
		}
		if n := len(dead.requests); n < 5 || n > 30 {
			t.Errorf("%d requests in 300 s", n)
		}
		s := p.set.Status()[0]
		if s.Pending != 10 || !s.Failing || s.Failures == 0 || time.Since(s.Oldest) < 250*time.Second {
			t.Errorf("status %+v", s)
		}
		dead.setAnswer(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !maps.Equal(dead.state(), well.state()) {
			t.Errorf("it has %v, want %v", dead.state(), well.state())
		}
	})
}

// TestWithoutRights: what is acknowledged is kept in memory, and leadership that returns goes
// on with it.
func TestWithoutRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, r := fake.NewClientset(), newReceiver()
		client.PrependReactor("*", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no"))
		})
		p := newProcess(client, map[string]*receiver{"slb": r}, spec("slb")).lead(t)
		p.tell("web", service(1))
		p.tell("db", service(1))
		time.Sleep(time.Minute)
		expect(t, r, "db=1 web=1")
		if s := p.set.Status()[0]; s.Unkept == "" {
			t.Error("nothing is said about it")
		}
		p.stop()
		p.tell("web", service(2))
		p.lead(t)
		defer p.stop()
		time.Sleep(time.Minute)
		expect(t, r, "web=2")
	})
}

// TestWithoutPermit: nothing is sent without the right to write.
func TestWithoutPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, r := fake.NewClientset(), newReceiver()
		p := newProcess(client, map[string]*receiver{"slb": r}, spec("slb"))
		var held atomic.Bool
		p.term.Hold = func(ctx context.Context) (context.Context, func(), bool) { return ctx, func() {}, held.Load() }
		p.lead(t)
		defer p.stop()
		p.tell("web", service(1))
		time.Sleep(time.Minute)
		expect(t, r, "")
		held.Store(true)
		time.Sleep(time.Minute)
		expect(t, r, "web=1")
	})
}

func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		p := newProcess(fake.NewClientset(), map[string]*receiver{"slb": r}, spec("slb"))
		if _, ok := p.set.Resync(""); ok {
			t.Error("a standby tells")
		}
		p.lead(t)
		defer p.stop()
		p.tell("web", service(1))
		time.Sleep(time.Minute)
		expect(t, r, "web=1")
		if n, ok := p.set.Resync("slb"); n != 1 || !ok {
			t.Error(n, ok)
		}
		if _, ok := p.set.Resync("other"); ok {
			t.Error("there is no such sink")
		}
		time.Sleep(time.Second)
		expect(t, r, "web=1")
	})
}

// TestHistories: random changes, receivers that fail at random, crashes and orderly ends; in
// the end the receiver has what is.
func TestHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 8) {
		synctest.Test(t, func(t *testing.T) {
			rng := dice.From(seed, 1)
			client, r := fake.NewClientset(), newReceiver()
			var crashed atomic.Bool
			fates := dice.From(seed, 2) // of the receiver, which is another goroutine
			client.PrependReactor("*", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) { return crashed.Load(), nil, errors.New("gone") })
			fate := func(events []event) outcome {
				switch fates.IntN(6) {
				case 0:
					return outcome{result: resultServerError, err: errors.New("500")}
				case 1:
					r.take(events)
					return outcome{result: resultTimeout, err: errors.New("timeout")}
				case 2:
					return outcome{result: resultRefused, err: errors.New("422")}
				case 3:
					r.take(events)
					return outcome{result: resultThrottled, err: errors.New("429"), pause: 3 * time.Second}
				}
				return outcome{result: resultOK}
			}
			r.setAnswer(fate)
			one := spec("slb")
			one.Changes, one.Removals, one.MaxServices = time.Duration(rng.IntN(3))*time.Second, time.Duration(rng.IntN(3))*time.Second, 1+rng.IntN(3)
			truth := map[string]*ledger.Service{}
			p := newProcess(client, map[string]*receiver{"slb": r}, one).lead(t)
			restart := func() {
				crashed.Store(rng.IntN(2) == 0)
				p.stop()
				if rng.IntN(2) == 0 { // what is changes meanwhile
					truth["s0"] = service(rng.IntN(200))
				}
				crashed.Store(false)
				p = newProcess(client, map[string]*receiver{"slb": r}, one).lead(t)
				for _, name := range p.looked {
					p.tell(name, truth[name])
				}
				for name, now := range truth {
					p.tell(name, now)
				}
			}
			for range 120 {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
				name := fmt.Sprint("s", rng.IntN(5))
				switch rng.IntN(15) {
				case 0:
					restart()
				case 1:
					delete(truth, name)
					p.tell(name, nil)
				default:
					truth[name] = service(slices.Collect(func(yield func(int) bool) {
						for n := range 4 {
							if rng.IntN(2) == 0 && !yield(n) {
								return
							}
						}
					})...)
					p.tell(name, truth[name])
				}
			}
			r.setAnswer(nil)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			want := map[string]string{}
			for name, now := range truth {
				want[name] = addresses(payload{Endpoints: endpointsOf(now)})
			}
			if got := r.state(); !maps.Equal(got, want) {
				t.Errorf("seed %d: the receiver has\n%v, and it is\n%v", seed, got, want)
			}
			p.stop()
		})
	}
}

// TestEditBesideDeadReceivers: however many sinks an edit changes, it waits for them at once.
func TestEditBesideDeadReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receivers := map[string]*receiver{}
		var specs []Spec
		for i := range 10 {
			s := spec(fmt.Sprint("dead", i))
			s.Changes, s.Timeout = 0, 5*time.Minute
			r := newReceiver()
			r.setAnswer(func([]event) outcome { return outcome{result: resultTimeout, err: errors.New("late")} })
			receivers[s.Name], specs = r, append(specs, s)
		}
		p := newProcess(fake.NewClientset(), receivers, specs...).lead(t)
		defer p.stop()
		p.tell("web", service(1))
		for i := range specs {
			specs[i].Config += " edited"
		}
		began := time.Now()
		p.set.Configure(specs[:5]) // and as many are removed
		if took := time.Since(began); took > landing {
			t.Errorf("the edit of 10 sinks takes %s", took)
		}
	})
}

// TestManyRefused: however many Services a receiver refuses, others are told soon.
func TestManyRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		r.setAnswer(func(events []event) outcome {
			for _, e := range events {
				if strings.HasPrefix(e.Data.Name, "refused") {
					return outcome{result: resultRefused, err: errors.New("404")}
				}
			}
			return outcome{result: resultOK}
		})
		client, is := ailing()
		one := spec("slb")
		one.Changes = 0
		var p *process
		lead := func() {
			p = newProcess(client, map[string]*receiver{"slb": r}, one)
			for i := range 30 {
				p.tell(fmt.Sprint("refused", i), service(1))
			}
			p.tell("web", service(1))
			p.lead(t)
		}
		soon := func(when string, now ...int) {
			t.Helper()
			began := time.Now()
			p.tell("web", service(now...))
			for r.state()["web"] != addresses(payload{Endpoints: endpointsOf(service(now...))}) {
				time.Sleep(50 * time.Millisecond)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: told after %s", when, took)
			}
		}
		well := func() {
			t.Helper()
			synctest.Wait() // the receiver has it before its answer is taken in
			if s := p.set.Status()[0]; s.Failing || s.Refused != 30 || !s.Oldest.IsZero() {
				t.Errorf("status %+v", s)
			}
		}
		lead()
		time.Sleep(10 * time.Minute)
		for i := range 60 {
			time.Sleep(time.Duration(i) * 173 * time.Millisecond)
			soon(fmt.Sprint("change ", i), []int{1, 2, 3}[i%2:2+i%2]...)
		}
		well()
		for _, killed := range []bool{false, true} {
			time.Sleep(savePace)
			if killed {
				p.kill(is)
			} else {
				p.stop()
			}
			lead()
			time.Sleep(300 * time.Millisecond) // for what is due at the begin of the term
			for i := range 60 {
				time.Sleep(137 * time.Millisecond)
				soon(fmt.Sprint("change ", i, " by the next leader, the last was killed: ", killed), []int{1, 2}[:1+i%2]...)
				well()
			}
		}
		p.stop()
	})
}

// TestIdleTermsWriteNothing: nor does a clean end.
func TestIdleTermsWriteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, r := fake.NewClientset(), newReceiver()
		for i := range 3 {
			p := newProcess(client, map[string]*receiver{"slb": r}, spec("slb"))
			p.tell("web", service(1))
			p.lead(t)
			time.Sleep(time.Minute)
			p.stop()
			for _, a := range client.Actions() {
				if i > 0 && a.GetVerb() != "get" {
					t.Errorf("restart %d: %s %s", i, a.GetVerb(), a.GetResource().Resource)
				}
			}
			client.ClearActions()
		}
	})
}

// TestPaceOutlastsEdits: neither an edit nor another term makes a receiver be asked before the
// time that it gave, or more often than is configured. Another receiver did not ask for it.
func TestPaceOutlastsEdits(t *testing.T) {
	for _, pause := range []time.Duration{0, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := newReceiver()
			if pause > 0 {
				r.setAnswer(func([]event) outcome {
					return outcome{result: resultThrottled, err: errors.New("429"), pause: pause}
				})
			}
			s := spec("slb")
			s.Changes, s.Rate = 0, 0.01
			p := newProcess(fake.NewClientset(), map[string]*receiver{"slb": r}, s).lead(t)
			p.tell("web", service(1))
			expect(t, r, "web=1")
			for i := range 3 {
				s.Config += " edited"
				p.set.Configure([]Spec{s})
				synctest.Wait()
				p.tell("web", service(2+i))
				time.Sleep(time.Second)
				p.stop()
				p.lead(t)
				p.tell("web", service(20+i))
				time.Sleep(time.Second)
			}
			expect(t, r, "")
			time.Sleep(max(pause, 100*time.Second) - 7*time.Second)
			expect(t, r, "")
			time.Sleep(2 * time.Second)
			expect(t, r, "web=22")
			s.Config, s.URL = "other", "https://elsewhere"
			p.set.Configure([]Spec{s})
			p.tell("web", service(3))
			expect(t, r, "web=3")
			p.stop()
		})
	}
}
