// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// pod makes a pod of tributary's account, and a kubeconfig with a token that is bound to
// it, as a kubelet does. What is started next runs in it.
func (w *world) pod(name string) (kubeconfig string) {
	w.Helper()
	ctx, client := w.Context(), w.ingress.Client
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tributary"}}
	if _, err := client.CoreV1().ServiceAccounts(own).Create(ctx, account, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	pod, err := client.CoreV1().Pods(own).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: "tributary", Containers: []corev1.Container{{Name: "tributary", Image: "tributary"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	token, err := client.CoreV1().ServiceAccounts(own).CreateToken(ctx, "tributary", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: name, UID: pod.UID},
	}}, metav1.CreateOptions{})
	w.must(err)
	text, err := w.ingress.Cluster.Kubeconfig(cluster.User{Name: fleet.ProductUser, Token: token.Status.Token})
	w.must(err)
	w.env = []string{"POD_NAME=" + name}
	kubeconfig = filepath.Join(w.dir, name+".kubeconfig")
	w.must(os.WriteFile(kubeconfig, text, 0o600))
	return kubeconfig
}

// fence applies the policy of deploy/ for the Lease of this world.
func (w *world) fence() {
	w.Helper()
	ctx, api := w.Context(), w.ingress.Client.AdmissionregistrationV1()
	text, err := os.ReadFile("../../deploy/kubernetes/fencing.yaml")
	w.must(err)
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var policy admissionv1.ValidatingAdmissionPolicy
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		w.must(yaml.Unmarshal(document, &policy))
		if policy.Kind == "ValidatingAdmissionPolicy" {
			_, err = api.ValidatingAdmissionPolicies().Create(ctx, &policy, metav1.CreateOptions{})
			w.must(err)
			continue
		}
		w.must(yaml.Unmarshal(document, &binding))
		binding.Spec.ParamRef.Namespace = own
		_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, &binding, metav1.CreateOptions{})
		w.must(err)
	}
}

// TestFencing lets the API server refuse whoever does not hold the Lease: a leader from
// which it was taken while it was frozen, and one that has not noticed yet. Both
// understand that, and stay on standby.
func TestFencing(t *testing.T) {
	w := newWorld(t, "fencing")
	ctx := t.Context()
	a, b := NewChurn(w.a, w.ns, 4, 20, w.seed), NewChurn(w.b, w.ns, 4, 20, w.seed+1)
	w.must(a.Fill(ctx))
	w.must(b.Fill(ctx))
	w.config.ingress = w.pod("first")
	w.start()
	first := w.proc
	w.state(first, "leading", 5*time.Second)
	w.config.ingress = w.pod("second")
	second := w.standby()
	w.state(second, "standby", 5*time.Second)
	stranger, err := kubernetes.NewForConfig(w.ingress.Cluster.Config(w.ingress.Product))
	w.must(err)
	// Whoever holds nothing is refused while the policy is in force.
	inForce := func(want bool) error {
		return fleet.Eventually(context.WithoutCancel(ctx), 20*time.Second, func(ctx context.Context) error {
			_, err := stranger.CoreV1().Services(w.ns).Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "tributary.dev/fenced")
			if !refused && err != nil {
				return err
			}
			if refused != want {
				return fmt.Errorf("refused: %t, want %t", refused, want)
			}
			return nil
		})
	}
	w.Cleanup(func() { // before the fleet is lent to another test
		w.must(w.ingress.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().DeleteCollection(context.WithoutCancel(ctx), metav1.DeleteOptions{}, metav1.ListOptions{}))
		w.must(inForce(false))
	})
	w.fence()
	w.must(inForce(true))
	stop := w.churn(5*time.Millisecond, a, b)
	w.pause(time.Second)

	// The Lease is given to the other by hand: the next write is refused, long before a renewal would be.
	// It has just been renewed, so that the next renewal is far.
	before, err := w.lease()
	w.must(err)
	w.must(fleet.Eventually(context.WithoutCancel(ctx), 5*time.Second, func(context.Context) error {
		lease, err := w.lease()
		if err == nil && lease.Spec.RenewTime.Equal(before.Spec.RenewTime) {
			err = errors.New("the Lease is not renewed")
		}
		return err
	}))
	w.down = w.rec.Begin(history.ProductDown, "")
	w.must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // it is renewed meanwhile
		lease, err := w.lease()
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity = new("second")
		_, err = w.ingress.Client.CoordinationV1().Leases(own).Update(ctx, lease, metav1.UpdateOptions{})
		return err
	}))
	w.state(second, "leading", 12*time.Second)
	w.state(first, "standby", 5*time.Second)
	w.down.End()

	// And frozen: the first takes over; the second writes nothing when it goes on.
	w.down = w.rec.Begin(history.ProductDown, "")
	w.must(second.Freeze())
	w.state(first, "leading", 12*time.Second)
	w.down.End()
	w.must(second.Thaw())
	w.state(second, "standby", 5*time.Second)
	stop()
	w.converges(5 * time.Second)
	w.judge()
}
