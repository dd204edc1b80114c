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

	"tributary.dev/tributary/clusters/config"
)

// TestMissingRights asks a cluster that grants what is named.
func TestMissingRights(t *testing.T) {
	shop := []string{
		"shop list services", "shop watch services", "shop list pods", "shop watch pods", "get namespaces/kube-system",
		"shop get services", "shop get pods",
		"list nodes", "watch nodes", "shop get endpoints", "shop list endpoints", "shop watch endpoints",
		"shop get endpointslices", "shop list endpointslices", "shop watch endpointslices",
	}
	for _, c := range []struct {
		name    string
		granted []string
		needs   []need
		want    []string
	}{
		{"one namespace is enough where one is read", shop, memberNeeds(only("shop"), true), nil},
		{"not where two are", shop, memberNeeds(only("pay", "shop"), false), []string{
			"list,watch services in namespace pay", "list,watch pods in namespace pay", "get services in namespace pay", "get pods in namespace pay", "get,list,watch endpoints in namespace pay",
		}},
		{"nor where all are", shop, memberNeeds(only("*"), false), []string{"list,watch services", "list,watch pods", "get services", "get pods", "get,list,watch endpoints"}},
		{"Roles alone", shop[:2], memberNeeds(&config.Cluster{RolesOnly: true, Namespaces: config.Namespaces{Include: []string{"shop"}}}, false)[:1], nil},
		{"what only improves", shop[:4], memberNeeds(only("shop"), false), []string{
			"get namespaces/kube-system", "list,watch nodes", "get services in namespace shop", "get pods in namespace shop", "get,list,watch endpoints in namespace shop",
		}},
		{"Leases", []string{"lease-ns list leases"}, ingressNeeds(nil, false, false, "own", "lease-ns")[7:], []string{"create,delete,update leases.coordination.k8s.io in namespace lease-ns"}},
		{"sinks", []string{"own get configmaps"}, []need{sinkNeed("own")}, []string{"create,delete,update configmaps in namespace own"}},
		{"no Leases", nil, ingressNeeds(nil, false, false, "own", "")[6:], []string{"create,list,update leases.coordination.k8s.io in namespace own"}},
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

// only is a member of which these namespaces are read.
func only(namespaces ...string) *config.Cluster {
	return &config.Cluster{Namespaces: config.Namespaces{Include: namespaces}}
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
