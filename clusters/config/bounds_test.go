// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestMayWrite(t *testing.T) {
	for _, test := range []struct {
		globs   []string
		yes, no []string
		only    []string
	}{
		{[]string{"*"}, []string{"shop", "kube", "default"}, []string{"kube-system", "kube-x", "own"}, nil},
		{[]string{"shop", "own", "pay"}, []string{"shop", "pay"}, []string{"own", "shop2", "default"}, []string{"own", "pay", "shop"}},
		{[]string{"team-*", "shop"}, []string{"team-a", "shop"}, []string{"team", "shops"}, nil},
		{[]string{"k*"}, []string{"kafka"}, []string{"kube-public"}, nil},
	} {
		in := Ingress{Namespaces: test.globs}
		may := in.MayWrite("own")
		for _, name := range test.yes {
			if !may(name) {
				t.Errorf("%v: %s may not be written to", test.globs, name)
			}
		}
		for _, name := range test.no {
			if may(name) {
				t.Errorf("%v: %s may be written to", test.globs, name)
			}
		}
		if got := in.Only(); !slices.Equal(got, test.only) {
			t.Errorf("%v: only %v, want %v", test.globs, got, test.only)
		}
	}
}

func TestOwnNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		given, kubeconfig, environment, want string
	}{
		{"given", "", "env", "given"},
		{"", "", "env", "pod"},
		{"", "k", "env", "env"},
		{"", "k", "", "tributary-system"},
	} {
		c := Config{Namespace: test.given}
		c.Ingress.Kubeconfig = test.kubeconfig
		if got := c.ownNamespace(file, test.environment); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestLeaseNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		leases     Leases
		kubeconfig string
		file       string
		want       string
	}{
		{Leases{Enabled: true}, "", file, "own"},
		{Leases{Enabled: true}, "", file + ".none", ""},
		{Leases{Enabled: true}, "ingress", file, ""},
		{Leases{Enabled: true, Namespace: "said"}, "ingress", file, "said"},
		{Leases{Enabled: true, Namespace: "said"}, "", file, "said"},
		{Leases{Namespace: "said"}, "", file, ""},
	} {
		loaded := Config{Leases: c.leases}
		loaded.Ingress.Kubeconfig = c.kubeconfig
		if got := loaded.leaseNamespace(c.file); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
