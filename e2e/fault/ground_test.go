// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

var (
	fullFlag     = flag.Bool("full", false, "run every fault at the size that is promised, not the quick share")
	soakFlag     = flag.Duration("soak", 0, "how long TestSoak mixes faults; 0: a few of them")
	patienceFlag = flag.Float64("patience", 0, "factor on every time limit, for a machine that is busy with other things; 0: 1 with -full or -soak, else 3")
)

// fleets are lent to tests, one at a time, and live until the last has ended. A
// second is started only for tests that run side by side: two tributaries in one
// ingress cluster would collect each other's replicas.
type fleets struct {
	lent chan struct{} // holds one for each fleet that is in use

	mu   sync.Mutex
	free []*fleet.Fleet
}

var ground = fleets{lent: make(chan struct{}, 2)}

func TestMain(m *testing.M) {
	flag.Parse()
	if *patienceFlag == 0 {
		*patienceFlag = 3
		if *fullFlag || *soakFlag > 0 {
			*patienceFlag = 1
		}
	}
	code := m.Run()
	for _, f := range ground.free {
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// take lends a fleet, whole, when there is one.
func (g *fleets) take(ctx context.Context) (*fleet.Fleet, error) {
	select {
	case g.lent <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	g.mu.Lock()
	if n := len(g.free); n > 0 {
		defer g.mu.Unlock()
		f := g.free[n-1]
		g.free = g.free[:n-1]
		return f, nil
	}
	g.mu.Unlock()
	f, err := fleet.Start(ctx, fleet.Options{Members: []string{"idc-a", "idc-b"}, Audit: true})
	if err != nil {
		<-g.lent
	}
	return f, err
}

// giveBack takes a fleet back after a test: heals it, gives the product back what it
// needs, and removes what the test made. A fleet that cannot be healed is given up.
func (g *fleets) giveBack(ctx context.Context, f *fleet.Fleet, namespace string) error {
	defer func() { <-g.lent }()
	err := restore(ctx, f, namespace)
	if err != nil {
		return errors.Join(fmt.Errorf("restore the fleet: %w", err), f.Close())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = append(g.free, f)
	return nil
}

// heal makes every server of a site run and answer.
func heal(ctx context.Context, s *fleet.Site) error {
	for _, p := range []*cluster.Process{s.Etcd(), s.APIServer()} {
		if err := p.Thaw(); err != nil {
			return err
		}
		if p.Running() {
			continue
		}
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return fleet.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		_, err := s.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

func restore(ctx context.Context, f *fleet.Fleet, namespace string) error {
	var errs []error
	for _, s := range f.Sites() {
		rules := fleet.MemberRules()
		if s == f.Ingress {
			rules = fleet.IngressRules()
		}
		if err := heal(ctx, s); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, s.Grant(ctx, fleet.ProductUser, rules...), clear(ctx, s, namespace))
	}
	return errors.Join(errs...)
}
