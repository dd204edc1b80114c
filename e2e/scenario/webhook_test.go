// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package scenario

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// touched is the label that the webhook adds to all that it sees.
const touched = "policy.example.com/touched"

// TestWebhookThatEditsWhatIsWritten has a mutating webhook edit every object of ours. A start
// writes nothing for that, and a pod that goes costs one write of each kind.
func TestWebhookThatEditsWhatIsWritten(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx, a := t.Context(), w.fleet.Member("idc-a")
	w.mutate()
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	stays, goes := w.pod(a, "shop", "web-0", "web"), w.pod(a, "shop", "web-1", "web")
	w.start()
	w.shows("shop", "web", line(a, stays, "ready+serving"), line(a, goes, "ready+serving"))
	fleettest.Eventually(t, soon, w.edited)

	before := w.writes()
	w.must(w.proc.Stop(ctx))
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	began := time.Now()
	w.must(a.MarkNotReady(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, stays, "ready+serving"), line(a, goes, "off"))
	t.Logf("a pod that turned not ready is written after %s", time.Since(began))
	if n := w.writes() - before; n != 2 {
		t.Errorf("a start and a pod that turned not ready cost %d writes, want 2", n)
	}
	w.must(w.edited(ctx))
	w.must(w.proc.Stop(ctx))
}

// edited returns an error unless each object of the replica has the webhook's label.
func (w *world) edited(ctx context.Context) error {
	client, in := w.fleet.Ingress.Client, metav1.ListOptions{}
	services, err := client.CoreV1().Services("shop").List(ctx, in)
	if err != nil {
		return err
	}
	endpoints, err := client.CoreV1().Endpoints("shop").List(ctx, in)
	if err != nil {
		return err
	}
	slices, err := client.DiscoveryV1().EndpointSlices("shop").List(ctx, in)
	if err != nil {
		return err
	}
	var all []metav1.ObjectMeta
	for _, o := range services.Items {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range endpoints.Items {
		all = append(all, o.ObjectMeta)
	}
	for _, o := range slices.Items {
		all = append(all, o.ObjectMeta)
	}
	for _, m := range all {
		if m.Labels[touched] == "" {
			return fmt.Errorf("%s has labels %v and annotations %v", m.Name, m.Labels, m.Annotations)
		}
	}
	if len(all) != 3 {
		return fmt.Errorf("%d objects", len(all))
	}
	return nil
}

// mutate has a webhook of the ingress cluster edit what carries our mark; it returns when that
// is in force.
func (w *world) mutate() {
	w.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(mutating))
	w.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	var hooks []registrationv1.MutatingWebhook
	for label, value := range map[string]string{"app.kubernetes.io/managed-by": "tributary", discoveryv1.LabelManagedBy: "tributary.dev"} {
		hooks = append(hooks, registrationv1.MutatingWebhook{
			Name: value + ".example.com", ClientConfig: registrationv1.WebhookClientConfig{URL: &server.URL, CABundle: ca},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}},
			FailurePolicy:  new(registrationv1.Fail), SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			Rules: []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
				Rule: registrationv1.Rule{APIGroups: []string{"", "discovery.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"services", "endpoints", "endpointslices"}}}},
		})
	}
	client := w.fleet.Ingress.Client
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(w.Context(), &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "edits"}, Webhooks: hooks}, metav1.CreateOptions{})
	w.must(err)
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		trial := fleet.NewService("default", "trial")
		trial.Labels = map[string]string{"app.kubernetes.io/managed-by": "tributary"}
		made, err := client.CoreV1().Services("default").Create(ctx, trial, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && made.Labels[touched] == "" {
			err = errors.New("the webhook is not asked yet")
		}
		return err
	})
}

// mutating answers an API server: a label on everything, the affinity of Services, and what is
// spoken at the ports of slices.
func mutating(out http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	var o struct {
		Kind  string
		Ports []discoveryv1.EndpointPort
	}
	if json.NewDecoder(request.Body).Decode(&review) != nil || review.Request == nil || json.Unmarshal(review.Request.Object.Raw, &o) != nil {
		http.Error(out, "not understood", http.StatusBadRequest)
		return
	}
	type edit struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	edits := []edit{{"add", "/metadata/labels/policy.example.com~1touched", "yes"}}
	switch o.Kind {
	case "Service":
		edits = append(edits, edit{"add", "/spec/sessionAffinity", string(corev1.ServiceAffinityClientIP)})
	case "EndpointSlice":
		for i := range o.Ports {
			edits = append(edits, edit{"add", fmt.Sprintf("/ports/%d/appProtocol", i), "http"})
		}
	}
	patch, err := json.Marshal(edits)
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: new(admissionv1.PatchTypeJSONPatch)}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // who asked has gone
}
