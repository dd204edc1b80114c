// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/metrics"
)

// TestASecretIsAMember: one that comes, one whose kubeconfig or settings change, one that loses its label, one that goes.
// What is done has effect within two seconds on a machine that does nothing else; how long it took is logged, not judged.
func TestASecretIsAMember(t *testing.T) {
	const own, name = "tributary-system", "idc-b"
	w := newWorld(t)
	ctx := t.Context()
	b := w.fleet.Member(name)
	for _, site := range w.fleet.Members {
		w.must(site.CreateNamespaces(ctx, "shop"))
		w.must(site.Create(ctx, fleet.NewService("shop", "web")))
		w.pod(site, "shop", "web-0", "web")
	}
	w.must(w.fleet.Ingress.CreateNamespaces(ctx, own))
	secrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}
	w.must(w.fleet.Ingress.Grant(ctx, fleet.ProductUser, append([]rbacv1.PolicyRule{secrets}, fleet.IngressRules()...)...))
	w.configure(w.fleet.Member("idc-a"))
	config, err := os.ReadFile(w.config)
	w.must(err)
	w.must(os.WriteFile(w.config, append(config, "clustersFrom: {secrets: {}}\n"...), 0o600))
	w.start()
	w.showsMembers("idc-a")

	kubeconfig, err := os.ReadFile(b.Kubeconfig)
	w.must(err)
	account, err := b.NewServiceAccount(ctx, own, "tributary", fleet.MemberRules()...)
	w.must(err)
	rotated, err := b.Cluster.Kubeconfig(account) // whose token says when it ends
	w.must(err)
	api := w.fleet.Ingress.Client.CoreV1().Secrets(own)
	patch := func(text string) func() error {
		return func() error {
			_, err := api.Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
	}
	kept, err := json.Marshal(map[string]any{"data": map[string]any{"kubeconfig": rotated}})
	w.must(err)
	create := func() error {
		_, err := api.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tributary.dev/member": "true"}}, Data: map[string][]byte{"kubeconfig": kubeconfig},
		}, metav1.CreateOptions{})
		return err
	}
	is := func(what func(*metrics.ClusterStatus) bool) func(*metrics.ClusterStatus) bool {
		return func(c *metrics.ClusterStatus) bool { return c != nil && c.State == "live" && what(c) }
	}
	live := is(func(*metrics.ClusterStatus) bool { return true })
	none := func(c *metrics.ClusterStatus) bool { return c == nil }
	for _, step := range []struct {
		what  string
		do    func() error
		holds func(*metrics.ClusterStatus) bool
	}{
		{"created", create, live},
		{"rewritten", patch(string(kept)), is(func(c *metrics.ClusterStatus) bool { return !c.CredentialExpires.IsZero() })},
		{"drained", patch(`{"metadata":{"annotations":{"tributary.dev/settings":"drain: true"}}}`), is((*metrics.ClusterStatus).Drained)},
		{"drained no more", patch(`{"metadata":{"annotations":null}}`), is(func(c *metrics.ClusterStatus) bool { return !c.Drained() })},
		{"no longer labelled", patch(`{"metadata":{"labels":null}}`), none},
		{"labelled", patch(`{"metadata":{"labels":{"tributary.dev/member":"true"}}}`), live},
		{"deleted", func() error { return api.Delete(ctx, name, metav1.DeleteOptions{}) }, none},
		{"created again", create, live},
	} {
		start := time.Now()
		w.must(step.do())
		if err := fleet.Eventually(ctx, soon, func(ctx context.Context) error { return w.memberIs(ctx, name, step.holds) }); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		t.Logf("%s: in effect after %s", step.what, time.Since(start).Round(time.Millisecond))
	}
	w.showsMembers("idc-a", name)
}

// memberIs says whether what the process shows of a member, nil if it is none, is as wanted, and whether its metrics agree.
func (w *world) memberIs(ctx context.Context, name string, holds func(*metrics.ClusterStatus) bool) error {
	body, err := w.proc.Get(ctx, "/debug/status")
	if err != nil {
		return err
	}
	var status metrics.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return err
	}
	var shown *metrics.ClusterStatus
	if i := slices.IndexFunc(status.Clusters, func(c metrics.ClusterStatus) bool { return c.Name == name }); i >= 0 {
		shown = &status.Clusters[i]
	}
	if !holds(shown) {
		return fmt.Errorf("%s is shown as %+v", name, shown)
	}
	if body, err = w.proc.Get(ctx, "/metrics"); err != nil {
		return err
	}
	if up := strings.Contains(string(body), fmt.Sprintf("tributary_cluster_up{member_cluster=%q} 1\n", name)); up != (shown != nil) {
		return errors.New("tributary_cluster_up differs from the status")
	}
	return nil
}

// showsMembers waits until shop/web has the pod of each of these members.
func (w *world) showsMembers(names ...string) {
	w.Helper()
	var lines []string
	for _, name := range names {
		site := w.fleet.Member(name)
		pod, err := site.Client.CoreV1().Pods("shop").Get(w.Context(), "web-0", metav1.GetOptions{})
		w.must(err)
		lines = append(lines, line(site, pod, "ready+serving"))
	}
	w.shows("shop", "web", lines...)
}
