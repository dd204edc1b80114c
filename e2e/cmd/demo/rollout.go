// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/e2e/fleet"
)

const namespace = "shop"

// apps are the Services that roll in every member.
var apps = []string{"cart", "search", "web"}

const podsOfApp = 4

// rollout replaces the pods of one member one after the other, forever: a new pod
// becomes ready, then the oldest of its app terminates and goes.
type rollout struct {
	site *fleet.Site
	// queues are each app's pods, oldest first.
	queues map[string][]*corev1.Pod
	made   int
	pods   atomic.Int64
}

// newRollouts creates the Services and first pods of every member.
func newRollouts(ctx context.Context, f *fleet.Fleet) ([]*rollout, error) {
	var rollouts []*rollout
	for _, site := range f.Members {
		r := &rollout{site: site, queues: map[string][]*corev1.Pod{}}
		if err := site.CreateNamespaces(ctx, namespace); err != nil {
			return nil, err
		}
		for _, app := range apps {
			if err := site.Create(ctx, fleet.NewService(namespace, app)); err != nil {
				return nil, err
			}
			for range podsOfApp {
				if err := r.grow(ctx, app); err != nil {
					return nil, err
				}
			}
		}
		rollouts = append(rollouts, r)
	}
	return rollouts, nil
}

func (r *rollout) grow(ctx context.Context, app string) error {
	r.made++
	pod := fleet.NewPod(namespace, fmt.Sprintf("%s-%d", app, r.made), app)
	if err := r.site.RunPods(ctx, pod); err != nil {
		return err
	}
	r.queues[app] = append(r.queues[app], pod)
	r.pods.Add(1)
	return nil
}

func (r *rollout) shrink(ctx context.Context, app string) error {
	oldest := r.queues[app][0]
	r.queues[app] = r.queues[app][1:]
	if err := r.site.Terminate(ctx, namespace, oldest.Name); err != nil {
		return err
	}
	if err := r.site.Remove(ctx, namespace, oldest.Name); err != nil {
		return err
	}
	r.pods.Add(-1)
	return nil
}

// run rolls until the context ends.
func (r *rollout) run(ctx context.Context) error {
	pace := time.NewTicker(400 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		app := apps[i%len(apps)]
		err := r.grow(ctx, app)
		if err == nil {
			err = r.shrink(ctx, app)
		}
		if err != nil {
			return fmt.Errorf("rollout in %s: %w", r.site.Name(), err)
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// free reports whether nothing listens at the address.
func free(address string) bool {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
