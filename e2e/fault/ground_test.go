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
	seedFlag     = flag.Uint64("seed", 0, "seed of all random choices; 0 draws one, which is printed")
	fullFlag     = flag.Bool("full", false, "run every fault at the size that is promised, not the quick share")
	soakFlag     = flag.Duration("soak", 0, "how long TestSoak mixes faults; 0: a few of them")
	patienceFlag = flag.Float64("patience", 1, "factor on every time limit, for a machine that is busy with other things")
)

// ground is the fleet that the tests of this package share, made by the first.
var ground struct {
	sync.Mutex
	fleet *fleet.Fleet
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := razeGround(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func razeGround() error {
	ground.Lock()
	defer ground.Unlock()
	f := ground.fleet
	ground.fleet = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// sharedFleet returns the fleet, whole.
func sharedFleet(ctx context.Context) (*fleet.Fleet, error) {
	ground.Lock()
	defer ground.Unlock()
	if ground.fleet == nil {
		f, err := fleet.Start(ctx, fleet.Options{Members: []string{"idc-a", "idc-b"}, Audit: true})
		if err != nil {
			return nil, err
		}
		ground.fleet = f
	}
	return ground.fleet, nil
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

// restoreGround heals the fleet after a test, gives the product back what it
// needs, and removes what the test made. A fleet that cannot be healed is given
// up: the next test makes another.
func restoreGround(ctx context.Context, f *fleet.Fleet, namespaces ...string) error {
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
		errs = append(errs, s.Grant(ctx, fleet.ProductUser, rules...))
		for _, ns := range namespaces {
			errs = append(errs, clear(ctx, s, ns))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("restore the fleet: %w", err), razeGround())
}
