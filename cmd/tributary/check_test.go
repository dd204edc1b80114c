// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"tributary.dev/tributary/internal/apitest"
)

// denying refuses one right.
func denying(verb, resource string) func(apitest.Request) bool {
	return func(r apitest.Request) bool { return r.Verb != verb || r.Resource != resource }
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*world)
		code int
		// want are texts in the answer as JSON, or among the errors.
		want []string
	}{
		{"all is well", func(*world) {}, 0, []string{`"result": "ok"`, `"version": "v1.`}},
		{"a right that run needs", func(w *world) { w.members["idc-a"].Allow(denying("watch", "pods")) }, 1, []string{"idc-a: the user of the kubeconfig may not watch pods; grant it"}},
		{"a right that run can do without", func(w *world) { w.members["idc-a"].Allow(denying("get", "pods")) }, 0, []string{"may not get pods: what a list lacks is asked for by lists"}},
		{"no right to write", func(w *world) { w.ingress.Allow(denying("update", "endpointslices")) }, 1, []string{"ingress: the user of the kubeconfig may not update endpointslices.discovery.k8s.io"}},
		{"writing in one namespace alone, and no Endpoints", func(w *world) {
			w.extra = "ingress: {kubeconfig: ingress, namespaces: [shop]}\nreplicas: {write: [EndpointSlices]}\n"
			w.ingress.Allow(func(r apitest.Request) bool {
				return r.Verb != "create" && r.Verb != "update" && r.Verb != "delete" || r.Resource != "endpoints" && r.Namespace != "" || r.Resource == "namespaces"
			})
		}, 0, []string{`"result": "ok"`}},
		{"a member that does not answer", func(w *world) { w.members["idc-b"].Close() }, 1, []string{`"result": "unreachable"`, "is the server's address right"}},
		{"another ingress cluster", func(w *world) {
			w.extra = "ingress: {kubeconfig: ingress, identity: other-uid}\n"
		}, 1, []string{`ingress.identity is "other-uid"`}},
		{"the same cluster twice", func(w *world) { w.members["idc-b"] = w.members["idc-a"] }, 0, []string{"is the same cluster as idc-a"}},
		{"overlapping ranges", func(w *world) {
			w.clusters["idc-a"], w.clusters["idc-b"] = ", allowedCIDRs: [10.0.0.0/8]", ", allowedCIDRs: [10.2.0.0/16, fd00::/64]"
		}, 0, []string{"allowedCIDRs of idc-a have addresses of 10.2.0.0/16 as well"}},
		{"a kubeconfig that is refused", func(w *world) { w.clusters["idc-b"] = ", context: nowhere" }, 2, []string{`"result": "kubeconfig refused"`, "nowhere", `"result": "ok"`}},
		{"a sink that does not answer", func(w *world) { w.extra = "sinks: [{name: slb, url: 'http://127.0.0.1:1/'}]\n" }, 1, []string{"sinks[0] (slb)"}},
		{"no Secret of a member", func(w *world) { w.extra = "clustersFrom: {secrets: {selector: a=b}}\n" }, 0, []string{"matches clustersFrom.secrets.selector (a=b)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.edit(w)
			path := w.files()
			if strings.HasPrefix(w.extra, "ingress:") {
				rewrite(t, path, "ingress: {kubeconfig: ingress}\n", "")
			}
			code, out, errs := call(t, "check", "--config", path, "-o", "json")
			if code != test.code || !json.Valid([]byte(out)) {
				t.Errorf("exit %d\n%s%s", code, out, errs)
			}
			for _, want := range test.want {
				if !strings.Contains(strings.ReplaceAll(out, `\"`, `"`)+errs, want) {
					t.Errorf("no %q in\n%s%s", want, out, errs)
				}
			}
			if len(w.ingress.Writes("")) > 0 {
				t.Error("check writes")
			}
		})
	}
}

// TestCheckHints: what keeps a server from being reached is not always its address.
func TestCheckHints(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	for _, test := range []struct{ name, user, want string }{
		{"a certificate of another authority", "{token: a}", "are certificate-authority and tls-server-name of the kubeconfig this server's?"},
		{"a program that fails", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: Never}}", "does the program print a credential here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.files()
			member := filepath.Join(w.dir, "idc-b")
			rewrite(t, member, "user: {}", "user: "+test.user)
			rewrite(t, member, w.members["idc-b"].Config("").Host, server.URL)
			if code, _, errs := call(t, "check", "--config", path); code != exitFailed || !strings.Contains(errs, test.want) {
				t.Errorf("exit %d, no %q in\n%s", code, test.want, errs)
			}
		})
	}
}

// TestPlanWithoutAMember: what could not be listed is said with its state and the reason.
func TestPlanWithoutAMember(t *testing.T) {
	w := newWorld(t)
	path := w.files()
	w.members["idc-b"].Close()
	code, _, errs := call(t, "plan", "--config", path, "--timeout", "2s")
	if code != exitFailed || !strings.Contains(errs, "cluster idc-b was not listed within 2s (unreachable: ") {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.ingress.Close()
	code, _, errs = call(t, "plan", "--config", path, "--timeout", "1s")
	if _, said, _ := strings.Cut(errs, "was not listed within"); code != exitFailed || strings.Count(said, "the version of the cluster") != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestLeader: the Lease names the pod.
func TestLeader(t *testing.T) {
	client := fake.NewSimpleClientset()
	for instance, holder := range map[string]string{"default": "pod-1", "ended": ""} {
		_ = client.Tracker().Add(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tributary-leader." + instance}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
		})
	}
	for instance, want := range map[string]string{"default": "pod-1", "ended": "no pod leads at the moment", "other": "has no Lease tributary-leader.other"} {
		holder, err := leader(t.Context(), client, "ns", instance)
		if err == nil && holder != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", instance, holder, err)
		}
	}
}
