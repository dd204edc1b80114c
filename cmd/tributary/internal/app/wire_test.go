// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"tributary.dev/tributary/clusters/config"
)

func parsed(t *testing.T, replicas string) *config.Config {
	t.Helper()
	c, err := config.Parse("f", []byte("apiVersion: tributary.dev/v1alpha1\nkind: Config\nclusters: [{name: a, kubeconfig: a, drain: true}]\nreplicas: {"+replicas+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestSettingsFollowTheConfiguration(t *testing.T) {
	plain := settings(parsed(t, ""))
	if plain.DeleteRemoved || !plain.PassLabel("app") || plain.PassLabel("helm.sh/chart") || plain.Instance != "default" || plain.PassAnnotation("example.com/a") || !plain.WriteSlices || !plain.WriteEndpoints {
		t.Errorf("by default: %+v", plain)
	}
	if drain, force := plain.Policy.Drain("a"); !drain || force {
		t.Errorf("drain %v, force %v", drain, force)
	}
	edited := settings(parsed(t, "orphans: delete, labels: {pass: [app]}, annotations: {pass: ['*']}, write: [Endpoints]"))
	if !edited.DeleteRemoved || edited.PassLabel("tier") || !edited.PassLabel("app") || !edited.PassAnnotation("example.com/a") || edited.WriteSlices {
		t.Errorf("edited: %+v", edited)
	}
}

func TestKeeperFollowsTheConfiguration(t *testing.T) {
	const big = "kubectl.kubernetes.io/last-applied-configuration"
	var k annotationFilter
	k.set(parsed(t, ""))
	if k.keeps("example.com/a") {
		t.Error("keeps what no replica takes over")
	}
	k.set(parsed(t, "annotations: {pass: ['*']}"))
	if !k.keeps("example.com/a") || k.keeps(big) {
		t.Error("keeps too little, or what never passes")
	}
}
