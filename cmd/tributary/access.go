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
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/reconcile/leader"
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
	// name narrows the right to one object.
	name string
}

var (
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"list", "watch", "create", "update", "delete"}
)

// withoutGet is lost without the right to read single objects.
const withoutGet = "what a list lacks waits for a second list, or for somebody to release it"

// inDoubt is lost without the same right in the ingress cluster.
const inDoubt = "what became of a write that was not answered is known only when the watch shows it"

// memberNeeds are the rights that Tributary uses in a member.
func memberNeeds(c *config.Cluster, slices bool) (needs []need) {
	namespaces := c.Namespaces.Only()
	withoutNodes := "endpoints carry no zone"
	zoned := strings.Join(c.PodRules().ReadZone(), ", ")
	if zoned != "" {
		withoutNodes += ", and rules that read node.zone match nothing: " + zoned
	}
	switch {
	case c.RolesOnly && zoned != "":
		needs = []need{{resource: "nodes", verbs: readVerbs[1:], without: withoutNodes + "; rolesOnly asks for no nodes"}}
	case !c.RolesOnly:
		needs = []need{
			{resource: "namespaces", name: metav1.NamespaceSystem, verbs: readVerbs[:1], without: "another cluster at the same address is not recognised"},
			{resource: "nodes", verbs: readVerbs[1:], without: withoutNodes},
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		needs = append(needs,
			need{resource: "services", namespace: namespace, verbs: readVerbs[1:]},
			need{resource: "pods", namespace: namespace, verbs: readVerbs[1:]},
			need{resource: "services", namespace: namespace, verbs: readVerbs[:1], without: withoutGet},
			need{resource: "pods", namespace: namespace, verbs: readVerbs[:1], without: withoutGet},
			need{resource: "endpoints", namespace: namespace, verbs: readVerbs, without: "Services without a selector are not replicated"},
		)
		if slices {
			needs = append(needs, need{group: "discovery.k8s.io", resource: "endpointslices", namespace: namespace, verbs: readVerbs, without: "hand-written EndpointSlices are not replicated"})
		}
	}
	return needs
}

// electionNeed is the right that leader election uses.
func electionNeed(namespace string) need {
	return need{group: "coordination.k8s.io", resource: "leases", namespace: namespace, verbs: leader.Verbs(),
		without: "no leader election: it writes alone, and a second process of this installation would fight it"}
}

// ingressNeeds are the rights that Tributary uses in the ingress cluster, in all namespaces
// or in those alone that are named; own is Tributary's namespace, leases that of the
// members' Leases, empty if there are none.
func ingressNeeds(only []string, writeSlices, createNamespaces bool, own, leases string) []need {
	standing, missing := "", ""
	if only != nil {
		standing, missing = "the namespaces that are named are taken to be there", "a namespace that is named and missing is not made"
	}
	needs := []need{{resource: "namespaces", verbs: readVerbs[1:], without: standing}}
	if createNamespaces {
		needs = append(needs, need{resource: "namespaces", verbs: []string{"create"}, without: missing})
	}
	namespaces := only
	if only == nil {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		needs = append(needs,
			need{resource: "services", namespace: namespace, verbs: writeVerbs},
			need{resource: "endpoints", namespace: namespace, verbs: writeVerbs},
			need{resource: "services", namespace: namespace, verbs: readVerbs[:1], without: inDoubt},
			need{resource: "endpoints", namespace: namespace, verbs: readVerbs[:1], without: inDoubt},
			need{resource: "events", namespace: namespace, verbs: []string{"create", "patch"}, without: "conflicts are not shown as events"})
		if writeSlices {
			needs = append(needs, need{group: "discovery.k8s.io", resource: "endpointslices", namespace: namespace, verbs: writeVerbs},
				need{group: "discovery.k8s.io", resource: "endpointslices", namespace: namespace, verbs: readVerbs[:1], without: inDoubt})
		}
	}
	needs = append(needs, need{group: "coordination.k8s.io", resource: "leases", namespace: own, verbs: []string{"create", "list", "update"},
		without: "another cluster at the same address is not recognised across a restart"})
	if leases != "" {
		needs = append(needs, need{group: "coordination.k8s.io", resource: "leases", namespace: leases, verbs: []string{"create", "delete", "list", "update"},
			without: "no Lease says how fresh a member is"})
	}
	return needs
}

// secretNeeds are the rights on the Secrets that are members; none where none are wanted.
func secretNeeds(namespace string) []need {
	if namespace == "" {
		return nil
	}
	return []need{
		{resource: "secrets", namespace: namespace, verbs: readVerbs[1:]},
		{resource: "secrets", namespace: namespace, verbs: []string{"get", "update"}, without: "tokens of these members are not renewed, and one whose Secret went while nothing was followed stays"},
	}
}

// sinkNeed is the right by which it is remembered what sinks acknowledged.
func sinkNeed(namespace string) need {
	return need{resource: "configmaps", namespace: namespace, verbs: []string{"create", "delete", "get", "update"},
		without: "after a restart sinks are told everything"}
}

// reviewNeeds are the rights by which it is asked who scrapes.
var reviewNeeds = []need{
	{group: "authentication.k8s.io", resource: "tokenreviews", verbs: []string{"create"}, without: "metricsTokenReview refuses every scrape"},
	{group: "authorization.k8s.io", resource: "subjectaccessreviews", verbs: []string{"create"}, without: "metricsTokenReview refuses every scrape"},
}

// missingRights asks the cluster which of the needs are not granted. Every
// request is a SelfSubjectAccessReview, which any user may send.
func missingRights(ctx context.Context, client kubernetes.Interface, needs []need) ([]need, error) {
	var (
		mu       sync.Mutex
		group    sync.WaitGroup
		missing  = make([]need, len(needs))
		problems error
	)
	for i, n := range needs {
		for _, verb := range n.verbs {
			group.Go(func() {
				allowed, err := allowed(ctx, client, n, verb)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					problems = err
				case !allowed:
					lost := n
					lost.verbs = append(missing[i].verbs, verb)
					missing[i] = lost
				}
			})
		}
	}
	group.Wait()
	if problems != nil {
		return nil, fmt.Errorf("ask for rights: %w", problems)
	}
	missing = slices.DeleteFunc(missing, func(n need) bool { return n.resource == "" })
	for i := range missing {
		slices.Sort(missing[i].verbs)
	}
	return missing, nil
}

func allowed(ctx context.Context, client kubernetes.Interface, n need, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: n.group, Resource: n.resource, Verb: verb, Name: n.name, Namespace: n.namespace},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// String renders a missing right: "list,watch pods".
func (n need) String() string {
	text := strings.Join(n.verbs, ",") + " " + n.resource
	if n.group != "" {
		text += "." + n.group
	}
	if n.name != "" {
		text += "/" + n.name
	}
	if n.namespace != "" {
		text += " in namespace " + n.namespace
	}
	return text
}
