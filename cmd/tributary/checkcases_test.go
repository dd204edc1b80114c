// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package main

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/inventory"
	"tributary.dev/tributary/syncer"
)

// checkCase is a setting in which run works, or does not.
type checkCase struct {
	name   string
	change func(*setting)
	// says is part of why it does not work; "" if it works. notes is part of what is
	// told of it all the same.
	says, notes string
}

// checkCases are the ways in which an installation goes wrong.
var checkCases = slices.Concat([]checkCase{
	{name: "as it should be"},
	// How clusters are reached.
	{name: "another CA", change: func(s *setting) {
		s.kubeconfigs["idc-a"]["ca"] = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
	}, says: "certificate"},
	{name: "the member's token is refused", change: func(s *setting) { s.kubeconfigs["idc-a"]["token"] = "bad" }, says: "refuses the credential"},
	{name: "the ingress cluster's token is refused", change: func(s *setting) { s.kubeconfigs["ingress"]["token"] = "bad" }, says: "ingress cluster"},
	{name: "nobody at the member's address", change: func(s *setting) { s.kubeconfigs["idc-a"]["server"] = "https://127.0.0.1:1" }, says: "cluster idc-a"},
	{name: "nobody at the ingress cluster's address", change: func(s *setting) { s.kubeconfigs["ingress"]["server"] = "https://127.0.0.1:1" }, says: "ingress cluster"},
	{name: "no such kubeconfig", change: func(s *setting) { s.part("clusters")["kubeconfig"] = "nowhere" }, says: "nowhere"},
	{name: "no such context", change: func(s *setting) { s.part("clusters")["context"] = "nowhere" }, says: "nowhere"},
	{name: "an ingress cluster without slices", change: func(s *setting) { s.ingress.WithoutSlices() }, says: "replicas.write"},
	{name: "an ingress cluster without slices, none wanted", change: func(s *setting) {
		s.ingress.WithoutSlices()
		s.sliceless = true
		s.config["replicas"] = map[string]any{"write": []string{"Endpoints"}}
	}},
	{name: "a member without slices", change: func(s *setting) { s.member.WithoutSlices() }, notes: "hand-written EndpointSlices"},
	// Who clusters are.
	{name: "another ingress cluster than is pinned", change: func(s *setting) { s.part("ingress")["identity"] = "other" }, says: "ingress.identity"},
	{name: "the pinned ingress cluster", change: func(s *setting) { s.part("ingress")["identity"] = "ingress-uid" }},
	{name: "another ingress cluster than is recorded", change: func(s *setting) { s.recorded("other", `{}`) }, says: "ingress.identity"},
	{name: "another member than is recorded", change: func(s *setting) { s.recorded("ingress-uid", `{"idc-a":"other"}`) }, says: "another name"},
	{name: "the Leases of a former version", change: func(s *setting) { s.formerLeases() }},
	{name: "another member than a former version recorded", change: func(s *setting) {
		s.formerLeases()
		s.member.identify(s.T, "other")
	}, says: "another name"},
	{name: "another ingress cluster than a former version recorded", change: func(s *setting) {
		s.formerLeases()
		s.ingress.identify(s.T, "other")
	}, says: "ingress.identity"},
	{name: "the pinned ingress cluster, which may not be told from another", change: func(s *setting) {
		s.part("ingress")["identity"] = "ingress-uid"
		s.ingress.deny("get namespaces")
	}, says: "cannot be told"},
	{name: "the recorded ones, which may not be told from others", change: func(s *setting) {
		s.recorded("ingress-uid", `{"idc-a":"idc-a-uid"}`)
		s.ingress.deny("get namespaces")
		s.member.deny("get namespaces")
	}, notes: "is not recognised"},
	{name: "a member that does not tell what it offers", change: func(s *setting) { s.member.deny("get groups") }},
	{name: "an ingress cluster that does not tell what it offers", change: func(s *setting) { s.ingress.deny("get groups") }, says: "discovery.k8s.io/v1"},
	{name: "no cluster around this machine", change: func(s *setting) { delete(s.config, "ingress") }, says: "ingress.kubeconfig"},
	{name: "a kubeconfig that runs a program", change: func(s *setting) { s.kubeconfigs["idc-a"]["exec"] = "true" }, says: "exec"},
	{name: "those that are recorded", change: func(s *setting) { s.recorded("ingress-uid", `{"idc-a":"idc-a-uid"}`) }},
	// This machine.
	{name: "the address is taken", change: func(s *setting) { s.config["listen"] = s.taken() }, says: "listen"},
	{name: "the address for metrics is taken", change: func(s *setting) { s.config["metricsListen"] = s.taken() }, says: "metricsListen"},
	{name: "no certificate for metrics", change: func(s *setting) {
		s.config["metricsListen"], s.config["metricsTLS"] = freeAddress(s.T), map[string]any{"certFile": "none.crt", "keyFile": "none.key"}
	}, says: "metricsTLS"},
	{name: "a certificate for metrics that is none", change: func(s *setting) {
		s.write("x.crt", "x")
		s.config["metricsListen"], s.config["metricsTLS"] = freeAddress(s.T), map[string]any{"certFile": "x.crt", "keyFile": "x.crt"}
	}, says: "metricsTLS"},
	// The file.
	{name: "an unknown field", change: func(s *setting) { s.config["x"] = 1 }, says: "tributary.yaml"},
	{name: "a rule that does not compile", change: func(s *setting) {
		s.config["rules"] = []any{map[string]any{"name": "r", "when": "pod.nothing", "then": "Absent"}}
	}, says: "rules[0].when"},
	// Rights in the member.
	{name: "another namespace alone is readable", change: func(s *setting) { s.member.onlyIn("pay") }, says: "list,watch pods"},
	{name: "Roles alone", change: func(s *setting) {
		s.bounded = true
		s.member.onlyIn("shop")
		s.part("clusters")["namespaces"] = map[string]any{"include": []string{"shop"}}
		s.part("clusters")["rolesOnly"] = true
	}},
	{name: "Roles where one namespace is named", change: func(s *setting) {
		s.bounded = true
		s.member.onlyIn("shop")
		s.part("clusters")["namespaces"] = map[string]any{"include": []string{"shop"}}
	}, notes: "another cluster at the same address"},
	{name: "no right on nodes", change: func(s *setting) { s.member.deny("* nodes") }, notes: "zone"},
	{name: "no right on nodes, which rules read", change: func(s *setting) {
		s.member.deny("* nodes")
		s.config["rules"] = []any{map[string]any{"name": "far", "when": "node.zone != 'z1'", "then": "NotReady"}}
	}, notes: "rules that read node.zone match nothing: far"},
	{name: "no right to get pods", change: func(s *setting) { s.member.deny("get pods") }, notes: "second list"},
	{name: "no right on Endpoints", change: func(s *setting) { s.member.deny("* endpoints") }, notes: "without a selector"},
	{name: "no right on slices", change: func(s *setting) { s.member.deny("* endpointslices") }, notes: "hand-written"},
	// Rights in the ingress cluster.
	{name: "no right on Leases", change: func(s *setting) { s.ingress.deny("* leases") }, notes: "leader election"},
	{name: "no right to get what is written", change: func(s *setting) { s.ingress.deny("get services", "get endpoints", "get endpointslices") }, notes: "not answered"},
	{name: "no right on events", change: func(s *setting) { s.ingress.deny("* events") }, notes: "events"},
	{name: "no right to make namespaces", change: func(s *setting) { s.ingress.deny("create namespaces") }, says: "create namespaces"},
	{name: "no right to make namespaces, none wanted", change: func(s *setting) {
		s.bounded = true
		s.ingress.deny("create namespaces")
		s.config["replicas"] = map[string]any{"createNamespaces": false}
	}, notes: "Services wait whose namespace is missing"},
	{name: "the namespace is missing and made", change: func(s *setting) {
		apitest.Remove[*corev1.Namespace](s.T, s.ingress.Server, "", "shop")
	}},
	{name: "Tributary's own namespace is missing and made", change: func(s *setting) {
		apitest.Remove[*corev1.Namespace](s.T, s.ingress.Server, "", ownName)
	}},
	{name: "Tributary's own namespace is missing and may not be made", change: func(s *setting) {
		apitest.Remove[*corev1.Namespace](s.T, s.ingress.Server, "", ownName)
		s.ingress.deny("create namespaces")
		s.config["replicas"] = map[string]any{"createNamespaces": false}
		s.bounded = true
	}, notes: "namespace tributary-system is missing and may not be made"},
	{name: "Tributary's own namespace is missing and nothing may be asked of it", change: func(s *setting) {
		apitest.Remove[*corev1.Namespace](s.T, s.ingress.Server, "", ownName)
		s.ingress.deny("create namespaces", "get namespaces")
		s.config["replicas"] = map[string]any{"createNamespaces": false}
		s.bounded = true
	}},
	{name: "Roles in a namespace of the ingress cluster", change: func(s *setting) {
		s.bounded = true
		s.ingress.onlyIn("shop", ownName)
		s.part("ingress")["namespaces"] = []string{"shop"}
	}, notes: "taken to be there"},
	{name: "Roles in another namespace of the ingress cluster", change: func(s *setting) {
		s.ingress.onlyIn("pay", ownName)
		s.part("ingress")["namespaces"] = []string{"shop"}
	}, says: "in namespace shop"},
	{name: "Roles in a namespace of the ingress cluster, as is said", change: func(s *setting) {
		s.bounded = true
		s.ingress.onlyIn("shop", ownName)
		s.part("ingress")["namespaces"], s.part("ingress")["rolesOnly"] = []string{"shop"}, true
	}},
	// What admission says of writes, for which there are rights.
	{name: "Services are denied", change: func(s *setting) { s.denied("*", (*corev1.Service)(nil)) }, says: "the Service of shop/web"},
	{name: "Endpoints are denied", change: func(s *setting) { s.denied("*", (*corev1.Endpoints)(nil)) }, says: "the Endpoints of shop/web"},
	{name: "slices are denied in a namespace", change: func(s *setting) { s.denied("shop", (*discoveryv1.EndpointSlice)(nil)) }, says: "exceeded quota"},
	{name: "slices are denied in another namespace", change: func(s *setting) { s.denied("other", (*discoveryv1.EndpointSlice)(nil)) }},
	{name: "namespaces are denied", change: func(s *setting) {
		s.populate("pay")
		s.denied("", (*corev1.Namespace)(nil))
	}, says: "the Namespace of pay/web"},
	// Members from Secrets.
	{name: "a member from a Secret", change: func(s *setting) { s.fromSecret(s.kubeconfig("idc-a"), nil) }},
	{name: "a Secret that holds no kubeconfig", change: func(s *setting) { s.fromSecret("x", nil) }, says: "idc-a"},
	{name: "a Secret with a setting that is none", change: func(s *setting) {
		s.fromSecret(s.kubeconfig("idc-a"), map[string]string{"tributary.dev/staleAfter": "x"})
	}, says: "staleAfter"},
	{name: "a selector that no Secret has", change: func(s *setting) {
		s.config["clustersFrom"] = map[string]any{"secrets": map[string]any{"selector": "other=x"}}
	}, notes: "no Secret"},
	{name: "no right on Secrets", change: func(s *setting) {
		s.fromSecret(s.kubeconfig("idc-a"), nil)
		s.ingress.deny("* secrets")
	}, says: "list,watch secrets"},
	// Sinks.
	{name: "a sink", change: func(s *setting) { s.sink(http.StatusOK, "") }},
	{name: "nobody at a sink's address", change: func(s *setting) { s.sink(0, "") }, says: "sinks[0]"},
	{name: "a sink with a token that is not there", change: func(s *setting) { s.sink(http.StatusOK, "none") }, says: "sinks[0].auth"},
	{name: "a sink that refuses the token", change: func(s *setting) { s.sink(http.StatusUnauthorized, s.write("token", "x")) }, says: "sinks[0].url"},
	{name: "a sink by TLS", change: func(s *setting) { s.tlsSink(true) }},
	{name: "a sink whose certificate nobody vouches for", change: func(s *setting) { s.tlsSink(false) }, says: "certificate"},
}, deniedCases("member", true, []string{"services", "pods"}, "list", "watch"),
	deniedCases("ingress", false, []string{"services", "endpointslices"}, "list", "watch", "create", "update", "delete"),
	deniedCases("ingress", false, []string{"endpoints"}, "list", "watch", "create", "update"),
	deniedCases("ingress", false, []string{"namespaces"}, "list", "watch"))

// deniedCases are those in which one right is missing that run needs.
func deniedCases(role string, member bool, resources []string, verbs ...string) (all []checkCase) {
	for _, resource := range resources {
		for _, verb := range verbs {
			all = append(all, checkCase{name: "no right to " + verb + " " + resource + ", " + role, change: func(s *setting) {
				c := s.ingress
				if member {
					c = s.member
				}
				c.WithoutStreamedLists() // as servers before 1.34: what is granted is used
				c.deny(verb + " " + resource)
			}, says: verb + " " + resource})
		}
	}
	return all
}

// recorded is what a process before knew.
func (s *setting) recorded(ingress, members string) {
	s.ingress.Create(s.T, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: ownName, Name: "tributary.inventory.default",
		Labels:      map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: "default"},
		Annotations: map[string]string{inventory.AnnotationIngress: ingress, inventory.AnnotationMembers: members},
	}})
}

// formerLeases are those that a former version left: of the leader, of the member, and of what it knew.
func (s *setting) formerLeases() {
	text, err := os.ReadFile("testdata/versions/leases-e7ef860.json")
	if err != nil {
		s.Fatal(err)
	}
	var leases []*coordinationv1.Lease
	if err := json.Unmarshal(text, &leases); err != nil || len(leases) != 3 {
		s.Fatal(len(leases), err)
	}
	for _, lease := range leases {
		s.ingress.Create(s.T, lease)
	}
}

// denied lets admission refuse objects of a kind in a namespace; "*": in all.
func (s *setting) denied(namespace string, of apitest.Object) {
	s.ingress.Refuse(func(o apitest.Object) (field.ErrorList, error) {
		if reflect.TypeOf(o) != reflect.TypeOf(of) || namespace != "*" && o.GetNamespace() != namespace {
			return nil, nil
		}
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, o.GetName(), errors.New("exceeded quota"))
	})
}

// taken is an address at which somebody else listens.
func (s *setting) taken() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	other := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = other.Serve(l) }()
	s.Cleanup(func() { other.Close() })
	return l.Addr().String()
}

// fromSecret makes the member one of a Secret.
func (s *setting) fromSecret(kubeconfig string, annotations map[string]string) {
	s.ingress.Create(s.T, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ownName, Name: "idc-a", Annotations: annotations, Labels: map[string]string{"tributary.dev/member": "true"}},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	})
	s.config["clusters"] = []any{}
	s.config["clustersFrom"] = map[string]any{"secrets": map[string]any{}}
}

// tlsSink is one whose certificate comes from an authority of its own, which is known or not.
func (s *setting) tlsSink(known bool) {
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	receiver.Config.ErrorLog = log.New(io.Discard, "", 0)
	receiver.StartTLS()
	s.Cleanup(receiver.Close)
	sink := map[string]any{"name": "slb", "url": receiver.URL}
	if known {
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})
		sink["auth"] = map[string]any{"tls": map[string]any{"caFile": s.write("ca.crt", string(ca))}}
	}
	s.config["sinks"] = []any{sink}
}

// sink is one that answers with a code; 0: nobody does.
func (s *setting) sink(code int, tokenFile string) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	s.Cleanup(receiver.Close)
	sink := map[string]any{"name": "slb", "url": receiver.URL}
	if code == 0 {
		sink["url"] = "http://127.0.0.1:1"
	}
	if tokenFile != "" {
		sink["auth"] = map[string]any{"bearerTokenFile": tokenFile}
	}
	s.config["sinks"] = []any{sink}
}
