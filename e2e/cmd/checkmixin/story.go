// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/deploy/mixin"
	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// withEnd gives tributary a token for a member that says when it ends.
func withEnd(ctx context.Context, site *fleet.Site) error {
	const namespace, name = "tributary-system", "tributary" // as fleet.ProductUser
	if err := site.CreateNamespaces(ctx, namespace); err != nil {
		return err
	}
	accounts := site.Client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	granted, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	text, err := site.Cluster.Kubeconfig(cluster.User{Name: name, Token: granted.Status.Token})
	if err != nil {
		return err
	}
	return os.WriteFile(site.Kubeconfig, text, 0o600)
}

// lateBy is how much later than it happened the story's member tells of a change: more than the table calls bad.
const lateBy = 40 * time.Second

// checkStory: pods of idc-b are late, because the member tells late; on the first screen that an
// on-call person opens, its row and no other says so, in that column.
func checkStory(ctx context.Context, server *prometheus, f *fleet.Fleet) error {
	if err := flipLate(ctx, f.Member("idc-b")); err != nil {
		return err
	}
	dashboard := mixin.Dashboards()[0]
	panels := dashboard.Rows[0].Panels
	table := panels[len(panels)-1]
	at := slices.IndexFunc(table.Columns, func(c mixin.Column) bool { return c.Title == "Event late p99" })
	exprs := dashboard.Expressions()[table.Title]
	if at < 0 || len(exprs) != len(table.Columns) {
		return errors.New("the first table has no column for events that come late")
	}
	err := fleet.Eventually(ctx, limit, func(ctx context.Context) error {
		samples, err := server.query(ctx, variables.Replace(exprs[at]))
		if err != nil {
			return err
		}
		if len(samples) != len(f.Members) {
			return fmt.Errorf("%d rows", len(samples))
		}
		for _, s := range samples {
			if member := s.Metric["member_cluster"]; (s.number() > table.Columns[at].Bad) != (member == "idc-b") {
				return fmt.Errorf("that of %s is %v", member, s.number())
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pods of idc-b are late, and the screen does not say why: %w", err)
	}
	fmt.Println("pods of idc-b are late, and the screen says why")
	return nil
}

// flipLate turns half of the pods not ready, and tells of it late.
func flipLate(ctx context.Context, site *fleet.Site) error {
	happened := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lateBy):
	}
	pods, err := site.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"status": corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: metav1.NewTime(happened)},
	}}})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items[:len(pods.Items)/2] { // of more, it would be in panic
		if _, err := site.Client.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}
