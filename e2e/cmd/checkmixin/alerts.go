// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// limit is how long an alert may take to fire or to end.
const limit = 90 * time.Second

// trouble is something that an alert must notice.
type trouble struct {
	alert       string
	begin, mend func(context.Context) error
}

// checkAlerts brings troubles about, one after the other.
func checkAlerts(ctx context.Context, server *prometheus, s *scene) error {
	member := s.fleet.Member("idc-b").APIServer()
	ingress := s.fleet.Ingress.APIServer()
	good, err := os.ReadFile(s.config)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	write := func(text []byte) func(context.Context) error {
		return func(context.Context) error { return os.WriteFile(s.config, text, 0o644) }
	}
	kill := func(p interface{ Kill() }) func(context.Context) error {
		return func(context.Context) error { p.Kill(); return nil }
	}
	panicking := s.fleet.Member("idc-a")
	for _, t := range []trouble{
		{"TributaryMemberUnreachable", kill(member), member.Start},
		{"TributaryConflict", s.claim, s.unclaim},
		{"TributaryPanic", func(ctx context.Context) error { return allNotReady(ctx, panicking) }, func(ctx context.Context) error { return s.release(ctx, panicking.Name()) }},
		{"TributaryIngressUnreachable", kill(ingress), ingress.Start},
		{"TributaryConfigRefused", write(append([]byte("unknown: field\n"), good...)), write(good)},
		{"TributaryAbsent", kill(s.tributary), s.tributary.Start},
	} {
		if err := t.check(ctx, server); err != nil {
			return fmt.Errorf("%s: %w", t.alert, err)
		}
	}
	return nil
}

// claimed is the name that somebody else's Service has in the ingress cluster.
const claimed = "claimed"

// claim makes a conflict: a Service of the ingress cluster that is not
// Tributary's, and one of that name in a member.
func (s *scene) claim(ctx context.Context) error {
	for _, site := range []*fleet.Site{s.fleet.Ingress, s.fleet.Member("idc-a")} {
		if err := site.Create(ctx, fleet.NewService(namespace, claimed)); err != nil {
			return err
		}
	}
	return nil
}

// unclaim does what the conflict asks for.
func (s *scene) unclaim(ctx context.Context) error {
	return s.fleet.Ingress.Client.CoreV1().Services(namespace).Delete(ctx, claimed, metav1.DeleteOptions{})
}

// allNotReady turns every pod of a member not ready, as a network that failed would.
func allNotReady(ctx context.Context, site *fleet.Site) error {
	pods, err := site.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range pods.Items {
		group.Go(func() error { return site.MarkNotReady(ctx, namespace, pods.Items[i].Name) })
	}
	return group.Wait()
}

// release lets go of what is held for a member by the command that the runbook names.
func (s *scene) release(ctx context.Context, member string) error {
	out, err := exec.CommandContext(ctx, s.binary, "release", "--server", s.tributary.URL, "--cluster", member).CombinedOutput()
	if err != nil {
		return fmt.Errorf("tributary release: %w: %s", err, out)
	}
	return nil
}

func (t trouble) check(ctx context.Context, server *prometheus) error {
	if err := server.awaits(ctx, t.alert, false); err != nil {
		return fmt.Errorf("before the trouble: %w", err)
	}
	start := time.Now()
	if err := t.begin(ctx); err != nil {
		return err
	}
	if err := server.awaits(ctx, t.alert, true); err != nil {
		return err
	}
	fired := time.Since(start)
	start = time.Now()
	if err := t.mend(ctx); err != nil {
		return err
	}
	if err := server.awaits(ctx, t.alert, false); err != nil {
		return fmt.Errorf("after the trouble: %w", err)
	}
	fmt.Printf("%s fired after %.1f s and ended %.1f s after the repair\n", t.alert, fired.Seconds(), time.Since(start).Seconds())
	return nil
}

// awaits waits until the alert fires, or does not.
func (p *prometheus) awaits(ctx context.Context, name string, want bool) error {
	return fleet.Eventually(ctx, limit, func(ctx context.Context) error {
		alerts, err := p.alerts(ctx)
		if err != nil {
			return err
		}
		firing := false
		for _, a := range alerts {
			firing = firing || a.Labels["alertname"] == name && a.State == "firing"
		}
		if firing != want {
			return fmt.Errorf("firing is %v", firing)
		}
		return nil
	})
}
