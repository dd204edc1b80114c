// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"
)

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
