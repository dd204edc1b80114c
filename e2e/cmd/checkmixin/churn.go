// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"tributary.dev/tributary/e2e/fleet"
)

const namespace = "shop"

var apps = []string{"cart", "search", "web"}

// load is how long pods come and go before the panels are asked.
const load = 40 * time.Second

// churnAll churns in every member for that long.
func churnAll(ctx context.Context, f *fleet.Fleet) error {
	fmt.Printf("pods come and go for %v\n", load)
	loading, cancel := context.WithTimeout(ctx, load)
	defer cancel()
	group, churning := errgroup.WithContext(loading)
	for _, site := range f.Members {
		group.Go(func() error { return churn(churning, site) })
	}
	if err := group.Wait(); err != nil && loading.Err() == nil {
		return err
	}
	return ctx.Err()
}

// churn runs pods of one member until ctx is done. Of each app the last five live: as one comes, the oldest becomes not ready,
// terminates and goes.
func churn(ctx context.Context, site *fleet.Site) error {
	alive := map[string][]string{}
	for n := 0; ctx.Err() == nil; n++ {
		app := apps[n%len(apps)]
		name := fmt.Sprintf("%s-%d", app, n)
		if err := site.RunPods(ctx, fleet.NewPod(namespace, name, app)); err != nil {
			return err
		}
		if alive[app] = append(alive[app], name); len(alive[app]) <= 5 {
			continue
		}
		oldest := alive[app][0]
		alive[app] = alive[app][1:]
		if err := site.MarkNotReady(ctx, namespace, oldest); err != nil {
			return err
		}
		if err := site.Terminate(ctx, namespace, oldest); err != nil {
			return err
		}
		if err := site.Remove(ctx, namespace, oldest); err != nil {
			return err
		}
	}
	return ctx.Err()
}
