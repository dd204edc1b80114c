// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"tributary.dev/tributary/cmd/tributary/internal/link"
)

// TestLinkDryRun: YAML for kubectl unless JSON is asked for, and nothing is reached.
func TestLinkDryRun(t *testing.T) {
	run := func(args ...string) string {
		var out, complaints bytes.Buffer
		if code := dispatch(t.Context(), append([]string{"link", "idc-a", "--dry-run"}, args...), &out, &complaints); code != exitOK || complaints.Len() > 0 {
			t.Fatalf("%v: exit %d, %s", args, code, &complaints)
		}
		return out.String()
	}
	plain := run()
	documents := strings.Split(plain, "\n---\n")
	if run("-o", "yaml") != plain || len(documents) < 3 {
		t.Errorf("-o yaml is not the default, or lacks objects:\n%s", plain)
	}
	var list struct {
		APIVersion, Kind string
		Items            []struct{ APIVersion, Kind string }
	}
	if err := json.Unmarshal([]byte(run("-o", "json")), &list); err != nil || list.APIVersion != "v1" || list.Kind != "List" || len(list.Items) != len(documents) {
		t.Fatalf("%+v, %v; want a List of %d", list, err, len(documents))
	}
	for i, item := range list.Items {
		if item.APIVersion == "" || !strings.Contains(documents[i], "kind: "+item.Kind+"\n") {
			t.Errorf("item %d is %+v", i, item)
		}
	}
}

// TestLinkSteps: what was done, for people and for programs.
func TestLinkSteps(t *testing.T) {
	result := link.Result{Steps: []link.Step{{Did: "created", What: "Namespace tributary-system"}, {Did: "left", What: "Role shop/x", Why: "not ours"}}, Kept: "idc-a.kubeconfig", Expires: traceNoon}
	for format, want := range map[string]string{
		"text": "created    Namespace tributary-system\nleft       Role shop/x (not ours)\n",
		"yaml": "apiVersion: tributary.dev/v1alpha1\nkind: Link\nkubeconfig: idc-a.kubeconfig\nname: idc-a\nsteps:\n- did: created\n  what: Namespace tributary-system\n" +
			"- did: left\n  what: Role shop/x\n  why: not ours\ntokenExpires: \"2026-03-01T12:00:00Z\"\n",
	} {
		var out bytes.Buffer
		if err := printSteps(&out, format, "Link", "idc-a", result); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", format, err, &out)
		}
	}
	var out bytes.Buffer
	if err := printSteps(&out, "json", "Unlink", "idc-a", link.Result{}); err != nil || strings.Join(strings.Fields(out.String()), "") != `{"apiVersion":"tributary.dev/v1alpha1","kind":"Unlink","name":"idc-a","steps":[]}` {
		t.Errorf("nothing done: %v, %s", err, &out)
	}
}
