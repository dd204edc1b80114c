// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// event is something that happens to the pods of an arm while requests come in.
type event struct {
	name string
	// only is the arm that it is about; empty: all.
	only string
	// clean: no request may fail.
	clean bool
	do    func(ctx context.Context, w *world, arm string) error
}

// image numbers the images, a new one for every roll-out.
var image int

func rollOut(ctx context.Context, w *world, arm string, grace time.Duration) error {
	image++
	name := fmt.Sprintf("app:%d", image)
	group, ctx := errgroup.WithContext(ctx)
	for m := range w.membersOf(arm) {
		group.Go(func() error { return w.deploy(ctx, m, arm, name, podsOfArm/w.membersOf(arm), grace) })
	}
	return group.Wait()
}

// membersOf is how many members have pods of an arm: one if it is read directly.
func (w *world) membersOf(arm string) int {
	if arm == armDirect {
		return 1
	}
	return len(w.fleet.Members)
}

func (w *world) events() []event {
	var all []event
	for _, grace := range graces {
		all = append(all, event{
			name: fmt.Sprintf("roll-out, grace %s", grace), clean: grace > 2*throttle+time.Second,
			do: func(ctx context.Context, w *world, arm string) error { return rollOut(ctx, w, arm, grace) },
		})
	}
	return append(all,
		event{name: "scaled to a third and back", clean: true, do: func(ctx context.Context, w *world, arm string) error {
			for _, n := range []int{max(1, podsOfArm/w.membersOf(arm)/3), podsOfArm / w.membersOf(arm)} {
				for m := range w.membersOf(arm) {
					if err := w.deploy(ctx, m, arm, fmt.Sprintf("app:%d", image), n, 5*time.Second); err != nil {
						return err
					}
				}
			}
			return nil
		}},
		event{name: "a container crashes", do: func(ctx context.Context, w *world, arm string) error {
			c := w.kubelets[0].of(arm, false)[0]
			return w.kubelets[0].crash(ctx, c)
		}},
		event{name: "all pods deleted", do: func(ctx context.Context, w *world, arm string) error {
			for m := range w.membersOf(arm) {
				if err := w.fleet.Members[m].Client.CoreV1().Pods(arm).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
					return err
				}
			}
			return rollOut(ctx, w, arm, 5*time.Second)
		}},
		event{name: "roll-out in a storm, grace 2s", do: func(ctx context.Context, w *world, arm string) error {
			group, storming := errgroup.WithContext(ctx)
			for m := range w.membersOf(arm) {
				group.Go(func() error { return w.relabel(storming, m, arm) })
			}
			if err := rollOut(ctx, w, arm, 2*time.Second); err != nil {
				return err
			}
			return group.Wait()
		}},
		event{name: "tributary restarts in a roll-out", only: armTributary, clean: true, do: func(ctx context.Context, w *world, arm string) error {
			group, rolling := errgroup.WithContext(ctx)
			group.Go(func() error { return rollOut(rolling, w, arm, 5*time.Second) })
			for _, t := range w.tributary { // one after the other, as a Deployment does
				if err := t.Stop(ctx); err != nil {
					return err
				}
				if err := t.Start(ctx); err != nil {
					return err
				}
				if err := t.WaitReady(ctx); err != nil {
					return err
				}
			}
			return group.Wait()
		}},
		event{name: "the leader is killed in a roll-out", only: armTributary, do: func(ctx context.Context, w *world, arm string) error {
			group, rolling := errgroup.WithContext(ctx)
			group.Go(func() error { return rollOut(rolling, w, arm, 5*time.Second) })
			leader, err := w.leader(ctx)
			if err != nil {
				return err
			}
			leader.Kill()
			if err := leader.Start(ctx); err != nil {
				return err
			}
			return group.Wait()
		}},
	)
}

// relabel changes a label of all Services of an arm's storm.
func (w *world) relabel(ctx context.Context, member int, arm string) error {
	return fleet.RelabelStorm(ctx, w.fleet.Members[member].Client, stormOf(arm), stormServices, strconv.Itoa(image), "")
}

// leader is the process that holds the Lease.
func (w *world) leader(ctx context.Context) (*fleet.Tributary, error) {
	for _, t := range w.tributary {
		text, err := t.Get(ctx, "/metrics")
		if err != nil {
			return nil, err
		}
		if metric(text, "tributary_leader") == 1 {
			return t, nil
		}
	}
	return nil, fmt.Errorf("none of %d processes leads", len(w.tributary))
}

// startTributary starts two processes of one installation.
func (w *world) startTributary(ctx context.Context) error {
	namespaces := map[string]any{"include": []string{armTributary, stormOf(armTributary), failover}}
	for i := range 2 {
		listen, err := cluster.FreeAddress()
		if err != nil {
			return err
		}
		config := map[string]any{
			"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "listen": listen,
			"ingress":         map[string]any{"kubeconfig": w.fleet.Ingress.Kubeconfig},
			"clusterDefaults": map[string]any{"namespaces": namespaces},
			"replicas":        map[string]any{"failover": []any{map[string]any{"namespaces": []string{failover}, "order": []string{"idc-a", "idc-b"}}}},
			"clusters": []any{
				map[string]any{"name": "idc-a", "kubeconfig": w.fleet.Members[0].Kubeconfig}, map[string]any{"name": "idc-b", "kubeconfig": w.fleet.Members[1].Kubeconfig},
			},
			"leaderElection": map[string]any{"leaseDuration": "5s"},
		}
		text, err := yaml.Marshal(config)
		if err != nil {
			return err
		}
		path := filepath.Join(w.fleet.Dir, fmt.Sprintf("tributary-%d.yaml", i))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
		t, err := fleet.StartReady(ctx, fleet.TributaryOptions{Binary: w.binary, Config: path})
		if err != nil {
			return err
		}
		w.tributary = append(w.tributary, t)
	}
	return nil
}
