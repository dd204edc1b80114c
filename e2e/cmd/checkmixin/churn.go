// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

const namespace = "shop"

var apps = []string{"cart", "search", "web"}

// podsOfApp is how many pods of an app there are at a time.
const podsOfApp = 5

// churnAll churns in every member for a while.
func churnAll(ctx context.Context, f *fleet.Fleet, load time.Duration) error {
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

// churn replaces pods of one member until ctx is done: a pod becomes ready, the
// oldest of its app turns not ready, terminates and goes.
func churn(ctx context.Context, site *fleet.Site) error {
	alive := map[string][]*corev1.Pod{}
	for n := 0; ctx.Err() == nil; n++ {
		app := apps[n%len(apps)]
		pod := fleet.NewPod(namespace, fmt.Sprintf("%s-%d", app, n), app)
		if err := site.RunPods(ctx, pod); err != nil {
			return err
		}
		alive[app] = append(alive[app], pod)
		if len(alive[app]) <= podsOfApp {
			continue
		}
		oldest := alive[app][0].Name
		alive[app] = alive[app][1:]
		for _, step := range []func() error{
			func() error { return site.MarkNotReady(ctx, namespace, oldest) },
			func() error { return site.Terminate(ctx, namespace, oldest) },
			func() error { return site.Remove(ctx, namespace, oldest) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func freePort() (int, error) { return cluster.FreePort() }
