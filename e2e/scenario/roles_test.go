// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestNamespaceWithoutRole has a member grant Roles in two namespaces, and takes away one of
// them: the other is followed, also by a process that starts then, and what is published of the one
// stays until it may be read again.
func TestNamespaceWithoutRole(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.configure(a)
	w.replaceConfig(func(s string) string { return s + "clusterDefaults: {namespaces: {include: [shop, side]}}\n" })
	w.must(a.CreateNamespaces(ctx, "shop", "side"))
	w.must(a.Revoke(ctx, fleet.ProductUser))
	bind := func(namespace string) {
		t.Helper()
		_, err := a.Client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "tributary"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tributary"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: fleet.ProductUser}},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	lines := map[string][]string{}
	for _, namespace := range []string{"shop", "side"} {
		_, err := a.Client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tributary"}, Rules: fleet.MemberRules()}, metav1.CreateOptions{})
		w.must(err)
		bind(namespace)
		w.must(a.Create(ctx, fleet.NewService(namespace, "web")))
		for _, name := range []string{"web-0", "web-1", "web-2", "web-3"} {
			lines[namespace] = append(lines[namespace], line(a, w.pod(a, namespace, name, "web"), "ready+serving"))
		}
	}
	published := func(inShop, inSide int) {
		t.Helper()
		w.shows("shop", "web", lines["shop"][inShop:]...)
		w.shows("side", "web", lines["side"][inSide:]...)
	}
	w.start()
	published(0, 0)

	// Open watches go on until their end, which is soon.
	w.must(a.Client.RbacV1().RoleBindings("side").Delete(ctx, "tributary", metav1.DeleteOptions{}))
	fleettest.Eventually(t, 3*soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err == nil && !bytes.Contains(body, []byte("Pod side")) {
			err = fmt.Errorf("pods of side are followed yet: %s", body)
		}
		return err
	})
	w.must(a.Remove(ctx, "side", "web-0", "web-1"))
	w.must(a.Remove(ctx, "shop", "web-0"))
	published(1, 0)

	w.proc.Kill()
	w.must(a.Remove(ctx, "shop", "web-1"))
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.reports("idc-a", "Refused")
	published(2, 0)
	w.must(a.Remove(ctx, "shop", "web-2"))
	published(3, 0)

	w.must(w.proc.Stop(ctx)) // who starts does not wait for the next time that it is asked for
	bind("side")
	w.must(w.proc.Start(ctx))
	w.reports("idc-a", "")
	published(3, 2)
}
