// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestConcurrentUse lets every kind of caller loose on one store, for the race
// detector, and compares the end with a store that saw the same in peace.
func TestConcurrentUse(t *testing.T) {
	const events, apps = 400, 6
	seed := dice.Seed(t)
	noisy, quiet := New(Options{Placement: everywhere}), New(Options{Placement: everywhere})
	pods := func(s *Store) {
		rng := dice.From(seed, 1)
		for i := range events {
			p := aPod(fmt.Sprint("p", rng.IntN(30)), fmt.Sprint(rng.IntN(apps)), byte(rng.IntN(250)))
			v := Versioned[syncer.Pod]{Object: p, RV: uint64(i + 1)}
			switch rng.IntN(20) {
			case 0:
				s.DeletePod(v)
			case 1:
				s.PlanReplacePods([]Versioned[syncer.Pod]{v}, uint64(i+1)).Apply(keepAll)
			default:
				s.UpsertPod(v)
			}
		}
	}
	services := func(s *Store) {
		rng := dice.From(seed, 2)
		for i := range events {
			v := Versioned[syncer.Service]{Object: aService(fmt.Sprint("s", rng.IntN(apps)), fmt.Sprint(rng.IntN(apps))), RV: uint64(i + 1)}
			switch rng.IntN(20) {
			case 0:
				s.DeleteService(v)
			case 1:
				v.Object.Selector = nil
				s.UpsertService(v)
			default:
				s.UpsertService(v)
			}
		}
	}
	others := func(s *Store) {
		for i := range events / 4 {
			s.SetNode(Node{Name: fmt.Sprint("n", i%5), Zone: fmt.Sprint("z", i%3)})
			s.SetPlacement(everywhere)
			s.SetRules(syncer.Options{})
			s.UpsertEndpoints(written("s1", byte(i)))
			s.ReplaceSlices(in("s1"), nil, 0)
		}
	}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				read(noisy, worker)
			}
		})
	}
	for _, write := range []func(*Store){pods, services, others} {
		writers.Go(func() { write(noisy) })
		write(quiet)
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if err := noisy.check(); err != nil {
		t.Fatal(err)
	}
	for _, replica := range quiet.Replicas() {
		got, want := &world{Store: noisy, t: t}, &world{Store: quiet, t: t}
		if !slices.Equal(got.addresses(replica), want.addresses(replica)) {
			t.Errorf("%s: %v, want %v", replica, got.addresses(replica), want.addresses(replica))
		}
	}
}

// read asks everything; each worker gathers for replicas of its own.
func read(s *Store, worker int) {
	for i, replica := range s.Replicas() {
		if i%3 == worker {
			_, commit := s.Gather(replica)
			commit()
		}
		s.Peek(replica)
		s.Sources(replica)
	}
	for _, p := range s.Pods() {
		s.ReplicasOf(p.Key)
	}
	s.Stats()
	s.WrittenSources()
	s.HeldPods()
	s.PlanReplaceServices(nil, 0)
}
