// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/config"
)

// need is a right that a command asks a cluster about: all verbs on a resource.
type need struct {
	group, resource string
	// namespace is where; empty for every namespace.
	namespace string
	verbs     []string
	// without says what is lost when the right is missing; empty when run cannot
	// work without it.
	without string
}

const discovery = "discovery.k8s.io"

// memberNeeds are the rights that Tributary uses in a member.
func memberNeeds(c *config.Cluster) (needs []need) {
	namespaces := c.Namespaces.Plain()
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	follow, ask := []string{"list", "watch"}, []string{"get"}
	const askedByLists = "what a list lacks is asked for by lists, which cost more"
	for _, namespace := range namespaces {
		for _, resource := range []string{"services", "pods"} {
			needs = append(needs, need{resource: resource, namespace: namespace, verbs: follow}, need{resource: resource, namespace: namespace, verbs: ask, without: askedByLists})
		}
		needs = append(needs,
			need{resource: "endpoints", namespace: namespace, verbs: follow, without: "Services without a selector are not replicated"},
			need{group: discovery, resource: "endpointslices", namespace: namespace, verbs: follow, without: "hand-written EndpointSlices are not replicated"})
	}
	return needs
}

// ingressNeeds are the rights that Tributary uses in the ingress cluster.
func ingressNeeds(c *config.Config) []need {
	write := []string{"list", "watch", "create", "update", "delete"}
	own := c.Namespace
	needs := []need{
		{resource: "namespaces", verbs: []string{"list", "watch"}},
		{resource: "services", verbs: write},
		{resource: "endpoints", verbs: write},
		{group: discovery, resource: "endpointslices", verbs: write},
		{resource: "events", verbs: []string{"create"}, without: "conflicts are not shown as events"},
		{resource: "configmaps", namespace: own, verbs: []string{"get", "create", "update"}, without: "another cluster at a member's address is not recognised across a restart"},
	}
	if c.Replicas.CreateNamespaces {
		needs = append(needs, need{resource: "namespaces", verbs: []string{"create"}})
	}
	if c.LeaderElection.Enabled {
		needs = append(needs, need{group: "coordination.k8s.io", resource: "leases", namespace: own, verbs: []string{"get", "create", "update"}})
	}
	if c.ClustersFrom.Secrets != nil {
		needs = append(needs, need{resource: "secrets", namespace: own, verbs: []string{"list"}},
			need{resource: "secrets", namespace: own, verbs: []string{"get", "update"}, without: "tokens of these members are not renewed"})
	}
	return needs
}

// missingRights asks the cluster which of the needs are not granted. Every
// request is a SelfSubjectAccessReview, which any user may send.
func missingRights(ctx context.Context, client kubernetes.Interface, needs []need) (missing []need, err error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	lost := make([][]string, len(needs))
	for i, n := range needs {
		for _, verb := range n.verbs {
			group.Go(func() {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Group: n.group, Resource: n.resource, Verb: verb, Namespace: n.namespace},
				}}
				answer, failed := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				mu.Lock()
				defer mu.Unlock()
				if failed != nil {
					err = fmt.Errorf("ask for rights: %w", failed)
				} else if !answer.Status.Allowed {
					lost[i] = append(lost[i], verb)
				}
			})
		}
	}
	group.Wait()
	for i, n := range needs {
		if n.verbs = slices.Sorted(slices.Values(lost[i])); len(n.verbs) > 0 {
			missing = append(missing, n)
		}
	}
	return missing, err
}

// String renders a missing right: "list,watch pods".
func (n need) String() string {
	text := strings.Join(n.verbs, ",") + " " + schema.GroupResource{Group: n.group, Resource: n.resource}.String()
	if n.namespace != "" {
		text += " in namespace " + n.namespace
	}
	return text
}
