// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// full is what the policy of these tests says.
const full = "the slices of this member are full"

// TestRefusedWritesKeepNothing denies one member new slices by a policy and takes the
// webhook of Services down. What is gone of the other member is gone at once all the
// same, whatever else is to be written of the replica; the refusal is told in the
// server's words; and when it is over, all is written.
func TestRefusedWritesKeepNothing(t *testing.T) {
	w := newWorld(t, "refused")
	ctx := t.Context()
	w.service("web", 4, w.a)
	w.service("web", 2, w.b)
	w.start()
	w.converges(10 * time.Second)

	w.deny()
	free := []*history.Mark{w.rec.Begin(history.Free, w.b.Name()), w.rec.Begin(history.IngressDown, "")}
	// Other ports: b needs another slice, and the Service another port.
	for _, s := range []*fleet.Site{w.b, w.a} {
		svc, err := s.Client.CoreV1().Services(w.ns).Get(ctx, "web", metav1.GetOptions{})
		w.must(err)
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, Protocol: corev1.ProtocolTCP, TargetPort: svc.Spec.Ports[0].TargetPort})
		svc.Labels = map[string]string{"team": "blue"}
		_, err = s.Client.CoreV1().Services(w.ns).Update(ctx, svc, metav1.UpdateOptions{})
		w.must(err)
	}
	for i := range 3 {
		pod, err := w.a.Client.CoreV1().Pods(w.ns).Get(ctx, fmt.Sprintf("web-%d", i), metav1.GetOptions{})
		w.must(err)
		w.must(w.a.MarkNotReady(ctx, w.ns, pod.Name))
		took := w.eventually(time.Second, w.lacks("web", pod.Status.PodIP))
		t.Logf("%s is gone after %s", pod.Name, took)
	}
	w.eventually(20*time.Second, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err == nil && !strings.Contains(string(body), full) && !strings.Contains(string(body), "down.example.com") {
			return fmt.Errorf("the refusal is not told")
		}
		return err
	})

	w.must(w.admitAll(ctx))
	over := w.converges(60 * time.Second)
	for _, mark := range free {
		mark.End()
	}
	w.conflicts()
	t.Logf("all is written %s after the refusals ended", over)
	w.judge()
}

// unrouted is what the policy against an address says: it names none.
const unrouted = "an address is not routed here"

// TestRefusedAddress has a policy refuse the address of a new pod. What is gone leaves all the
// same, slices of the other member are written, the refusal is told in the policy's words, and
// when it is over, all is.
func TestRefusedAddress(t *testing.T) {
	w := newWorld(t, "unrouted")
	ctx := t.Context()
	web := w.service("web", 6, w.a)
	w.service("web", 2, w.b)
	w.start()
	w.converges(10 * time.Second)
	bad := w.a.NextIP().String()
	w.validate(admissionv1.Validation{Message: unrouted, Reason: new(metav1.StatusReasonForbidden), Expression: "!has(object.subsets) || object.subsets.all(s, !has(s.addresses) || s.addresses.all(a, a.ip != '" + bad + "'))"},
		admissionv1.Validation{Message: unrouted, Reason: new(metav1.StatusReasonForbidden), Expression: "!has(object.endpoints) || object.endpoints.all(e, e.addresses.all(a, a != '" + bad + "'))"})
	w.eventually(30*time.Second, func(ctx context.Context) error {
		_, err := w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "trial"}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{bad}}}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), unrouted) {
			return fmt.Errorf("the policy is not in force yet: %w", err)
		}
		return nil
	})
	waits := w.rec.Begin(history.IngressDown, "")
	unroutedPod := fleet.NewPod(w.ns, "web-100", "web")
	unroutedPod.Status.PodIP = bad
	w.must(w.a.RunPods(ctx, unroutedPod))
	for _, p := range web[:3] {
		w.must(w.a.MarkNotReady(ctx, w.ns, p.Name))
		t.Logf("%s is gone after %s", p.Name, w.eventually(3*time.Second, w.lacks("web", p.Status.PodIP)))
	}
	more := w.pods(w.b, "web", 100, 1)
	w.eventually(3*time.Second, func(ctx context.Context) error {
		flags, err := w.flags(ctx, "web")
		if err == nil && !flags[more[0].Status.PodIP] {
			err = fmt.Errorf("the other member's new pod is not in its slice: %v", flags)
		}
		return err
	})
	w.must(w.lacks("web", bad)(ctx))
	w.eventually(20*time.Second, func(ctx context.Context) error {
		s, err := w.status(ctx)
		for _, c := range s.Conflicts {
			if c.Reason == "write_refused" && strings.Contains(c.Message, unrouted) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("conflicts %+v do not tell what the policy says", s.Conflicts))
	})
	w.must(w.admitAll(ctx))
	over := w.converges(60 * time.Second)
	waits.End()
	w.conflicts()
	t.Logf("all is written %s after the policy was taken away", over)
	w.judge()
}

// TestServiceHangs: the server does not answer when the replica's Service is written. What is
// gone leaves at once, also of what needs the Service.
func TestServiceHangs(t *testing.T) {
	w := newWorld(t, "hangs")
	ctx := t.Context()
	proxy := w.proxyTo(w.ingress)
	web := w.service("web", 4, w.a)
	w.start()
	w.converges(10 * time.Second)
	waits := w.rec.Begin(history.IngressDown, "")
	hang := &Fault{Match: func(q Request) bool { return q.Namespace == w.ns && Writes("services")(q) }, Hang: true}
	proxy.Set(hang)
	svc, err := w.a.Client.CoreV1().Services(w.ns).Get(ctx, "web", getNow)
	w.must(err)
	svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, Protocol: corev1.ProtocolTCP, TargetPort: svc.Spec.Ports[0].TargetPort})
	_, err = w.a.Client.CoreV1().Services(w.ns).Update(ctx, svc, metav1.UpdateOptions{})
	w.must(err)
	w.eventually(10*time.Second, metAtLeast(hang, 1))
	for _, p := range web[:2] {
		w.must(w.a.MarkNotReady(ctx, w.ns, p.Name))
		t.Logf("%s is gone after %s", p.Name, w.eventually(2*time.Second, w.lacks("web", p.Status.PodIP)))
	}
	proxy.Set()
	t.Logf("all is written %s after the server answers", w.converges(60*time.Second))
	waits.End()
	w.judge()
}

// TestTerminatingNamespace: somebody deletes a namespace of the ingress cluster, and it takes
// its time. Removals are written in it meanwhile; when it is gone, it is made anew.
func TestTerminatingNamespace(t *testing.T) {
	w := newWorld(t, "ends-slowly")
	ctx := t.Context()
	second := w.ns + "-2"
	namespaces := w.ingress.Client.CoreV1().Namespaces()
	for _, s := range w.fleet.Sites() {
		w.must(s.CreateNamespaces(ctx, second))
	}
	w.config.members[0].Namespaces.Include = []string{w.ns, second}
	w.must(w.a.Create(ctx, fleet.NewService(second, "web")))
	for i := range 3 {
		w.must(w.a.RunPods(ctx, fleet.NewPod(second, fmt.Sprint("web-", i), "web")))
	}
	has := func(n int) func(context.Context) error {
		return func(ctx context.Context) error {
			inEndpoints, inSlices, err := w.readyIn(ctx, second, "web")
			if err == nil && (len(inEndpoints) != n || len(inSlices) != n) {
				err = fmt.Errorf("%q and %q, want %d", inEndpoints, inSlices, n)
			}
			return err
		}
	}
	w.service("web", 2, w.a)
	w.start()
	w.eventually(10*time.Second, has(3))
	w.must(namespaces.Delete(ctx, second, metav1.DeleteOptions{})) // nobody empties it: no controllers run here
	w.must(w.a.MarkNotReady(ctx, second, "web-0"))
	took := w.eventually(3*time.Second, has(2))
	w.pods(w.a, "web", 100, 1)
	w.eventually(3*time.Second, w.counts("web", 3)) // elsewhere all goes on
	w.must(w.ingress.Client.CoreV1().Services(second).Delete(ctx, "web", metav1.DeleteOptions{}))
	w.must(w.ingress.Client.CoreV1().Endpoints(second).DeleteCollection(ctx, metav1.DeleteOptions{}, everything))
	w.must(w.ingress.Client.DiscoveryV1().EndpointSlices(second).DeleteCollection(ctx, metav1.DeleteOptions{}, everything))
	ends, err := namespaces.Get(ctx, second, getNow)
	w.must(err)
	ends.Spec.Finalizers = nil
	_, err = namespaces.Finalize(ctx, ends, metav1.UpdateOptions{})
	w.must(err)
	t.Logf("a removal took %s; made anew %s after it was gone", took, w.eventually(30*time.Second, has(2)))
	w.converges(10 * time.Second)
	w.judge()
}

// TestQuotaOfSlices lets no more slices into the namespace than there are. What is gone is
// gone at once all the same, and what needs a new slice is written once it fits.
func TestQuotaOfSlices(t *testing.T) {
	w := newWorld(t, "quota")
	ctx := t.Context()
	w.service("web", 4, w.a)
	w.service("web", 2, w.b)
	w.start()
	w.converges(10 * time.Second)
	const counted = corev1.ResourceName("count/endpointslices.discovery.k8s.io")
	full := corev1.ResourceList{counted: resource.MustParse("2")}
	quotas := w.ingress.Client.CoreV1().ResourceQuotas(w.ns)
	quota, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: full}}, metav1.CreateOptions{})
	w.must(err)
	quota.Status = corev1.ResourceQuotaStatus{Hard: full, Used: full}
	_, err = quotas.UpdateStatus(ctx, quota, metav1.UpdateOptions{})
	w.must(err)
	trial := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	w.eventually(30*time.Second, func(ctx context.Context) error {
		_, err := w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "trial"}, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}}, trial)
		if err == nil || !strings.Contains(err.Error(), "quota") {
			return fmt.Errorf("the quota is not in force yet: %w", err)
		}
		return nil
	})
	free := []*history.Mark{w.rec.Begin(history.Free, w.b.Name()), w.rec.Begin(history.IngressDown, "")}
	svc, err := w.b.Client.CoreV1().Services(w.ns).Get(ctx, "web", metav1.GetOptions{})
	w.must(err)
	svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, Protocol: corev1.ProtocolTCP, TargetPort: svc.Spec.Ports[0].TargetPort})
	_, err = w.b.Client.CoreV1().Services(w.ns).Update(ctx, svc, metav1.UpdateOptions{})
	w.must(err)
	w.service("new", 1, w.b)
	for _, name := range []string{"web-0", "web-1"} {
		pod, err := w.a.Client.CoreV1().Pods(w.ns).Get(ctx, name, metav1.GetOptions{})
		w.must(err)
		w.must(w.a.MarkNotReady(ctx, w.ns, name))
		t.Logf("%s is gone after %s", name, w.eventually(time.Second, w.lacks("web", pod.Status.PodIP)))
	}
	w.must(quotas.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	over := w.converges(60 * time.Second)
	for _, mark := range free {
		mark.End()
	}
	t.Logf("all is written %s after the quota was taken away", over)
	w.judge()
}

// TestOccupiedSliceName plants a slice of the Service that has the name which ours would have:
// ours gets another one.
func TestOccupiedSliceName(t *testing.T) {
	w := newWorld(t, "occupied")
	ctx := t.Context()
	w.service("web", 2, w.a)
	w.start()
	w.converges(10 * time.Second)
	ours := discoveryv1.LabelServiceName + "=web"
	list, err := w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).List(ctx, metav1.ListOptions{LabelSelector: ours})
	w.must(err)
	if len(list.Items) != 1 {
		t.Fatalf("%d slices", len(list.Items))
	}
	w.must(w.a.Client.CoreV1().Services(w.ns).Delete(ctx, "web", metav1.DeleteOptions{}))
	w.converges(10 * time.Second)
	planted := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: w.ns, Name: list.Items[0].Name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	planted, err = w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Create(ctx, planted, metav1.CreateOptions{})
	w.must(err)
	w.must(w.a.Create(ctx, fleet.NewService(w.ns, "web")))
	w.converges(10 * time.Second)
	w.must(w.a.MarkNotReady(ctx, w.ns, "web-0"))
	w.converges(10 * time.Second)
	left, err := w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Get(ctx, planted.Name, metav1.GetOptions{})
	w.must(err)
	if left.ResourceVersion != planted.ResourceVersion {
		t.Error("the planted slice was written")
	}
	w.must(w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Delete(ctx, planted.Name, metav1.DeleteOptions{}))
	w.conflicts()
	w.judge()
}

// lacks returns nil when an address is ready in neither kind.
func (w *world) lacks(service, ip string) func(context.Context) error {
	return func(ctx context.Context) error {
		inEndpoints, inSlices, err := w.readyAddresses(ctx, service)
		if err == nil && (slices.Contains(inEndpoints, ip) || slices.Contains(inSlices, ip)) {
			err = fmt.Errorf("%s is ready still: endpoints %q, slices %q", ip, inEndpoints, inSlices)
		}
		return err
	}
}

// deny makes the ingress cluster refuse new slices of member b, and takes the webhook
// of Services down, both in this namespace; it returns when both are in force.
func (w *world) deny() {
	w.Helper()
	ctx, client := w.Context(), w.ingress.Client.AdmissionregistrationV1()
	w.validate(admissionv1.Validation{Message: full, Reason: new(metav1.StatusReasonForbidden), Expression: fmt.Sprintf(
		"oldObject != null || has(object.subsets) || !('multicluster.kubernetes.io/source-cluster' in object.metadata.labels) || object.metadata.labels['multicluster.kubernetes.io/source-cluster'] != '%s'", w.b.Name())})
	nobody := "https://127.0.0.1:1/"
	_, err := client.ValidatingWebhookConfigurations().Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "down.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &nobody}, NamespaceSelector: w.here(),
			FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone), TimeoutSeconds: new(int32(1)), AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}}}},
		}}}, metav1.CreateOptions{})
	w.must(err)
	trial := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	w.eventually(30*time.Second, func(ctx context.Context) error {
		_, err := w.ingress.Client.CoreV1().Services(w.ns).Create(ctx, fleet.NewService(w.ns, "trial"), trial)
		if err == nil {
			return fmt.Errorf("the webhook is not asked yet")
		}
		_, err = w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "trial", Labels: map[string]string{"multicluster.kubernetes.io/source-cluster": w.b.Name()}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}}, trial)
		if err == nil || !strings.Contains(err.Error(), full) {
			return fmt.Errorf("the policy is not in force yet: %w", err)
		}
		return nil
	})
}

func (w *world) here() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.ns}}
}

// validate has a policy check Endpoints and slices of this namespace.
func (w *world) validate(rules ...admissionv1.Validation) {
	w.Helper()
	client := w.ingress.Client.AdmissionregistrationV1()
	of := func(group, resource string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}
	}
	_, err := client.ValidatingAdmissionPolicies().Create(w.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.ns},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: new(admissionv1.Fail), Validations: rules,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{of("", "endpoints"), of("discovery.k8s.io", "endpointslices")}},
		}}, metav1.CreateOptions{})
	w.must(err)
	_, err = client.ValidatingAdmissionPolicyBindings().Create(w.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.ns},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: w.ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: w.here()}}}, metav1.CreateOptions{})
	w.must(err)
}

// admitAll takes both away.
func (w *world) admitAll(ctx context.Context) error {
	client, now := w.ingress.Client.AdmissionregistrationV1(), metav1.DeleteOptions{}
	return errors.Join(
		client.ValidatingAdmissionPolicyBindings().DeleteCollection(ctx, now, everything),
		client.ValidatingAdmissionPolicies().DeleteCollection(ctx, now, everything),
		client.ValidatingWebhookConfigurations().DeleteCollection(ctx, now, everything))
}
