// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// TestMissingRights asks a cluster that grants what is named.
func TestMissingRights(t *testing.T) {
	shop := []string{
		"shop list services", "shop watch services", "shop list pods", "shop watch pods", "get namespaces/kube-system",
		"shop get services", "shop get pods", "list nodes", "watch nodes", "shop get endpoints", "shop list endpoints", "shop watch endpoints",
		"shop get endpointslices", "shop list endpointslices", "shop watch endpointslices",
	}
	for _, c := range []struct {
		name    string
		granted []string
		needs   []need
		want    []string
	}{
		{"one namespace is enough where one is read", shop, memberNeeds("shop", true), nil},
		{"not where all are read", shop, memberNeeds("", false), []string{"list,watch services", "list,watch pods", "get services", "get pods", "get,list,watch endpoints"}},
		{"what only improves", shop[:4], memberNeeds("shop", false), []string{"get services in namespace shop", "get pods in namespace shop", "get namespaces/kube-system", "list,watch nodes", "get,list,watch endpoints in namespace shop"}},
		{"Leases", []string{"lease-ns list leases"}, ingressNeeds(nil, false, false, "lease-ns")[4:], []string{"create,delete,update leases.coordination.k8s.io in namespace lease-ns"}},
		{"no Leases", nil, ingressNeeds(nil, false, false, "")[4:], nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
				review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
				review.Status.Allowed = slices.Contains(c.granted, asked(review.Spec.ResourceAttributes))
				return true, review, nil
			})
			missing, err := missingRights(t.Context(), client, c.needs)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range missing {
				got = append(got, n.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("missing %q, want %q", got, c.want)
			}
		})
	}
}

func asked(a *authorizationv1.ResourceAttributes) string {
	text := a.Verb + " " + a.Resource
	if a.Name != "" {
		text += "/" + a.Name
	}
	if a.Namespace != "" {
		text = a.Namespace + " " + text
	}
	return text
}
