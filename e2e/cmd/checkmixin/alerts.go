// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// limit is how long an alert may take to fire or to end.
const limit = 90 * time.Second

// trouble is the cause of an alert.
type trouble struct {
	alert       string
	begin, mend func(context.Context) error
}

// checkAlerts causes the alerts, one after the other.
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
	ends := func(after time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { return endsIn(ctx, s.fleet.Member("idc-a"), after) }
	}
	for _, t := range []trouble{
		{"TributaryMemberUnreachable", kill(member), member.Start},
		{"TributaryConflict", s.claim, s.unclaim},
		{"TributaryCredentialEnds", ends(time.Hour), ends(month)},
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

// unclaim resolves the conflict.
func (s *scene) unclaim(ctx context.Context) error {
	return s.fleet.Ingress.Client.CoreV1().Services(namespace).Delete(ctx, claimed, metav1.DeleteOptions{})
}

// month is longer than the period before expiry in which a credential has an alert.
const month = 30 * 24 * time.Hour

// endsIn sets tributary's token for a member to one that expires after a time.
func endsIn(ctx context.Context, site *fleet.Site, after time.Duration) error {
	const namespace, name = "tributary-system", "tributary" // as fleet.ProductUser
	if err := site.CreateNamespaces(ctx, namespace); err != nil {
		return err
	}
	accounts := site.Client.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(after.Seconds()))}}
	granted, err := accounts.CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	text, err := site.Cluster.Kubeconfig(cluster.User{Name: name, Token: granted.Status.Token})
	if err != nil {
		return err
	}
	return os.WriteFile(site.Kubeconfig, text, 0o600)
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
