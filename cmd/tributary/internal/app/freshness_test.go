// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Lease keeps the identity of a member that is away, and says since when it is: it
// must outlive a restart of Tributary, while that of nobody goes.
func TestLeaseOfAMemberThatIsAwayOutlivesARestart(t *testing.T) {
	f := newFront(t)
	for _, cluster := range []string{"a", "gone"} {
		f.leases = append(f.leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "own", Name: "tributary-" + cluster, ResourceVersion: "7",
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "tributary", "multicluster.kubernetes.io/source-cluster": cluster},
			Annotations: map[string]string{"tributary.dev/identity": "uid-" + cluster},
		}})
	}
	r := replicating(t, loadedWith(t, f.access("good"), "leases: {namespace: own}\nclusters: [{name: a, kubeconfig: a}]\n"))
	const leases = "/apis/coordination.k8s.io/v1/namespaces/own/leases"
	remove := "DELETE " + leases + "/tributary-gone"
	until(t, "the Lease of nobody is deleted", func() bool { return slices.Contains(f.leaseCalls(), remove) })
	calls := slices.DeleteFunc(f.leaseCalls(), func(call string) bool { return !strings.Contains(call, leases) })
	if want := []string{"GET " + leases, "GET " + leases, remove}; !slices.Equal(calls, want) {
		t.Errorf("asked %q, want %q", calls, want)
	}
	if got := r.pinned("a"); got != "uid-a" {
		t.Errorf("a is known as %q", got)
	}
}
