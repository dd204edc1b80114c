// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/sinks/ledger"
)

// illness is what is wrong with the API server for the state of sinks.
type illness int

const (
	well       illness = iota
	denied             // ConfigMaps can be read, and not be written
	unreadable         // they cannot be read either
	away               // nothing can be read or written
	deadWriter         // a process is killed: what it still writes does not count
)

// ailing is an API server whose illness can be set.
func ailing() (*fake.Clientset, *atomic.Int32) {
	client, is := fake.NewClientset(), &atomic.Int32{}
	client.PrependReactor("*", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		reads, maps := a.GetVerb() == "get", a.GetResource().Resource == "configmaps"
		switch illness(is.Load()) {
		case denied:
			return maps && !reads, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("exceeded quota"))
		case unreadable:
			return maps, nil, errors.New("unable to decrypt")
		case away:
			return true, nil, errors.New("connection refused")
		case deadWriter:
			return !reads, nil, errors.New("killed")
		}
		return false, nil, nil
	})
	return client, is
}

// kill ends a process as SIGKILL does: it writes nothing more.
func (p *process) kill(is *atomic.Int32) {
	was := is.Swap(int32(deadWriter))
	p.stop()
	is.Store(was)
}

// TestUnkeptAcrossTerms: whatever keeps what was acknowledged from being written, and whoever
// leads next, the receiver has what is in the end, is told at once what goes, and is not told
// what it certainly has.
func TestUnkeptAcrossTerms(t *testing.T) {
	type next int
	const (
		fresh    next = iota // another process, which knows nothing
		listener             // one that stood by
		same
	)
	for _, test := range []struct {
		name   string
		is     illness
		next   next
		kill   bool
		mended bool // before the next term
		all    bool // everything may be told anew
	}{
		{"denied, another process", denied, fresh, false, false, false},
		{"denied, killed", denied, fresh, true, false, false},
		{"denied, mended, another process", denied, fresh, false, true, false},
		{"denied, killed, mended", denied, fresh, true, true, false},
		{"denied, the same process", denied, same, false, false, false},
		{"denied, mended, the same process", denied, same, false, true, false},
		{"unreadable, another process", unreadable, fresh, true, false, true},
		{"unreadable, mended, another process", unreadable, fresh, true, true, false},
		{"unreadable, the same process", unreadable, same, false, false, false},
		{"away, mended, who stood by", away, listener, true, true, false},
		{"away, who stood by", away, listener, true, false, true},
		{"away, mended, the same process", away, same, false, true, false},
		{"away, the same process", away, same, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, is := ailing()
				r := newReceiver()
				receivers := map[string]*receiver{"slb": r}
				first := newProcess(client, receivers, spec("slb")).lead(t)
				second := first
				if test.next != same {
					second = newProcess(client, receivers, spec("slb"))
				}
				tell := func(name string, now *ledger.Service) {
					first.tell(name, now)
					if test.next == listener {
						second.tell(name, now)
					}
				}
				for _, name := range []string{"flaps", "empty", "grows", "same", "deleted"} {
					tell(name, service(1, 2))
				}
				time.Sleep(time.Minute)
				r.told()
				is.Store(int32(test.is))
				tell("flaps", service(2))
				expect(t, r, "flaps=2") // at once
				tell("empty", service())
				tell("grows", service(1, 2, 3))
				tell("deleted", nil)
				tell("new", service(1))
				time.Sleep(30 * time.Second)
				if got, want := r.state(), (map[string]string{"flaps": "2", "empty": "", "grows": "1,2,3", "same": "1,2", "new": "1"}); !maps.Equal(got, want) {
					t.Errorf("in the first term the receiver has %v, want %v", got, want)
				}
				if test.kill {
					first.kill(is)
				} else {
					first.stop()
				}
				if test.mended {
					is.Store(int32(well))
				}
				r.told()
				// While nobody leads all is as it was, but for one that is gone.
				if test.next != fresh {
					second.tell("flaps", service(1, 2))
					second.tell("empty", service(1, 2))
					second.tell("grows", service(1, 2))
					second.tell("new", nil)
				}
				second.lead(t)
				defer func() { second.stop() }()
				time.Sleep(10 * time.Second)
				if test.next == fresh {
					for _, name := range []string{"flaps", "empty", "grows", "same"} {
						second.tell(name, service(1, 2))
					}
					for _, name := range second.looked {
						if name == "new" || name == "deleted" {
							second.tell(name, nil)
						}
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				is.Store(int32(well))
				time.Sleep(time.Minute)
				synctest.Wait()
				for _, name := range second.looked { // what could be read now
					if name == "new" || name == "deleted" {
						second.tell(name, nil)
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got, want := r.state(), (map[string]string{"flaps": "1,2", "empty": "1,2", "grows": "1,2", "same": "1,2"}); !maps.Equal(got, want) {
					t.Errorf("the receiver has %v, want %v", got, want)
				}
				got := r.told()
				if !test.all && strings.Contains(got, "same") || strings.Contains(got, "deleted") && test.next != fresh && test.mended && test.is != away {
					t.Errorf("what the receiver certainly has is told anew: %q", got)
				}
				s := second.set.Status()[0]
				if s.Pending != 0 || s.Unkept != "" || s.Failing {
					t.Errorf("status %+v", s)
				}
				second.stop()
				third := newProcess(client, receivers, spec("slb"))
				for _, name := range []string{"flaps", "empty", "grows", "same"} {
					third.tell(name, service(1, 2))
				}
				third.lead(t)
				second = third
				time.Sleep(time.Minute)
				expect(t, r, "") // all is on record
			})
		})
	}
}

// TestKilled: what was told and never acknowledged, or noted, is told as it is by the next
// leader, whatever the first could put on record of it.
func TestKilled(t *testing.T) {
	for _, test := range []struct {
		name       string
		is         illness
		unanswered bool // the last request
		again      bool // it was well again, and another was acknowledged
	}{
		{"one mark failed", away, false, true},
		{"in flight", well, true, false},
		{"in flight, noted in the Lease", denied, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, is := ailing()
				r := newReceiver()
				receivers := map[string]*receiver{"slb": r}
				first := newProcess(client, receivers, spec("slb")).lead(t)
				first.tell("web", service(1, 2))
				first.tell("same", service(1))
				time.Sleep(time.Minute)
				r.told()
				is.Store(int32(test.is))
				if test.unanswered {
					r.setAnswer(func(events []event) outcome {
						r.take(events)
						return outcome{result: resultTimeout, err: errors.New("killed meanwhile")}
					})
				}
				first.tell("web", service(2))
				expect(t, r, "web=2")
				if test.again {
					is.Store(int32(well))
					first.tell("web", service(2, 3))
					time.Sleep(2 * time.Second)
					expect(t, r, "web=2,3")
				}
				first.kill(is)
				is.Store(int32(well))
				r.setAnswer(nil)
				second := newProcess(client, receivers, spec("slb"))
				second.tell("web", service(1, 2))
				second.tell("same", service(1))
				second.lead(t)
				defer second.stop()
				time.Sleep(time.Minute)
				expect(t, r, "web=1,2")
			})
		})
	}
}

// TestStateOutOfReach: where nothing is answered at the begin of a term, everything is told
// after a while, and that is said; what was deleted meanwhile, when it can be read. A removal
// waits for no longer than a second or so for what is put on record.
func TestStateOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, is := ailing()
		r := newReceiver()
		receivers := map[string]*receiver{"slb": r}
		first := newProcess(client, receivers, spec("slb")).lead(t)
		first.tell("web", service(1, 2))
		first.tell("deleted", service(1))
		time.Sleep(time.Minute)
		r.told()
		first.stop()
		is.Store(int32(unreadable))
		second := newProcess(client, receivers, spec("slb"))
		second.tell("web", service(2))
		second.lead(t)
		defer second.stop()
		time.Sleep(patience + 3*time.Second)
		expect(t, r, "web=2")
		if s := second.set.Status()[0]; !s.Telling || !strings.Contains(s.Unkept, "unable to decrypt") {
			t.Errorf("status %+v", s)
		}
		second.tell("web", service())
		expect(t, r, "web=")
		is.Store(int32(well))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := strings.Join(second.looked, " "); !strings.Contains(got, "deleted") {
			t.Errorf("looked at %q", got)
		}
		second.tell("deleted", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.state(); !maps.Equal(got, map[string]string{"web": ""}) {
			t.Errorf("the receiver has %v", got)
		}
	})
}

// TestStateHangs: a removal is told soon, however long requests for the state take.
func TestStateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, r := fake.NewClientset(), newReceiver()
		var hangs atomic.Bool
		client.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) {
			if hangs.Load() {
				time.Sleep(time.Second) // as long as one may take
				return true, nil, context.DeadlineExceeded
			}
			return false, nil, nil
		})
		s := spec("slb")
		s.Rate = 1000
		p := newProcess(client, map[string]*receiver{"slb": r}, s).lead(t)
		defer p.stop()
		for i := range 20 {
			p.tell(fmt.Sprint("s", i), service(1))
		}
		time.Sleep(time.Minute)
		r.told()
		hangs.Store(true)
		var waited time.Duration
		for i := range 20 {
			began := time.Now()
			p.tell(fmt.Sprint("s", i), service())
			for r.state()[fmt.Sprint("s", i)] != "" {
				time.Sleep(100 * time.Millisecond)
			}
			took := time.Since(began)
			waited += took
			if took > 2200*time.Millisecond {
				t.Errorf("a removal waits for %s", took)
			}
			time.Sleep(time.Second)
		}
		if waited > 15*time.Second {
			t.Errorf("20 removals waited for %s", waited)
		}
	})
}

// TestUnkeptHistories: random changes, failing receivers, and a state that cannot be written
// for spans of time, across terms; in the end the receiver has what is.
func TestUnkeptHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 12) {
		synctest.Test(t, func(t *testing.T) {
			rng, fates := dice.From(seed, 3), dice.From(seed, 4)
			client, is := ailing()
			r := newReceiver()
			r.setAnswer(func(events []event) outcome {
				switch fates.IntN(6) {
				case 0:
					return outcome{result: resultServerError, err: errors.New("500")}
				case 1:
					r.take(events)
					return outcome{result: resultTimeout, err: errors.New("timeout")}
				}
				return outcome{result: resultOK}
			})
			receivers := map[string]*receiver{"slb": r}
			one := spec("slb")
			one.Changes, one.Removals = time.Duration(rng.IntN(3))*time.Second, time.Duration(rng.IntN(3))*time.Second
			// Who listens is told of what goes by nothing but what it heard: then all may be away.
			ill := []illness{denied, unreadable}[rng.IntN(2)]
			listens := rng.IntN(2) == 0
			if listens {
				ill = away
			}
			truth := map[string]*ledger.Service{}
			leads, stands := newProcess(client, receivers, one).lead(t), newProcess(client, receivers, one)
			tell := func(name string, now *ledger.Service) {
				truth[name] = now
				leads.tell(name, now)
				if listens {
					stands.tell(name, now)
				}
			}
			for i := range 5 {
				tell(fmt.Sprint("s", i), service(1, 2))
			}
			time.Sleep(30 * time.Second)
			for range 80 {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
				switch rng.IntN(12) {
				case 0:
					is.Store(int32(ill))
				case 1, 2:
					is.Store(int32(well))
				case 3:
					if rng.IntN(2) == 0 {
						leads.kill(is)
						time.Sleep(20 * time.Second)
					} else {
						leads.stop()
					}
					if illness(is.Load()) != well {
						time.Sleep(20 * time.Second) // until the Lease runs out
					}
					former := leads
					leads = stands
					if !listens {
						leads = newProcess(client, receivers, one)
						for name, now := range truth {
							leads.tell(name, now)
						}
					}
					leads.lead(t)
					stands = former // which remembers
					if rng.IntN(2) == 0 || !listens {
						stands = newProcess(client, receivers, one)
						if listens {
							for name, now := range truth {
								stands.tell(name, now)
							}
						}
					}
				default:
					var now []int
					for n := range 4 {
						if rng.IntN(3) > 0 {
							now = append(now, n)
						}
					}
					tell(fmt.Sprint("s", rng.IntN(5)), service(now...))
				}
			}
			is.Store(int32(well))
			r.setAnswer(nil)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			want := map[string]string{}
			for name, now := range truth {
				want[name] = addresses(payload{Endpoints: endpointsOf(now)})
			}
			if got := r.state(); !maps.Equal(got, want) {
				t.Errorf("seed %d, illness %d: the receiver has\n%v, and it is\n%v", seed, ill, got, want)
			}
			leads.stop()
		})
	}
}
