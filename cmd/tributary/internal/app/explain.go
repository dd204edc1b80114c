// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// ExplainPath answers GET with what becomes of a replica; its parameter is service,
// as namespace/name.
const ExplainPath = "/debug/explain"

// Explanation is the answer: every member's Service and pods, and what the ingress cluster has of each.
type Explanation struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Members   []ExplainedMember `json:"members"`
	// Service is whose the Service of that name in the ingress cluster is: "ours", "foreign" or
	// "none"; "unknown" before the cluster was listed.
	Service string `json:"service"`
	// Conflicts are those of the status that are about the replica.
	Conflicts []metrics.Conflict `json:"conflicts,omitempty"`
}

// ExplainedMember is what one member has to do with the replica.
type ExplainedMember struct {
	Cluster    string              `json:"cluster"`
	State      string              `json:"state"`
	Conditions []metrics.Condition `json:"conditions,omitempty"`
	// Place is its place in the failover order, the first choice 0.
	Place int `json:"place"`
	// Listed is whether the member was listed completely: until then what is published of it is
	// its share.
	Listed bool `json:"listed"`
	// Reserve is why all its endpoints are reserves; empty where they are not.
	Reserve string `json:"reserve,omitempty"`
	// Asked are objects that a list lacked: nobody knows whether they are there.
	Asked []string `json:"asked,omitempty"`
	// Found is whether it has the Service; Excluded says why that is not replicated.
	Found    bool   `json:"found"`
	Excluded string `json:"excluded,omitempty"`
	// Ready, InReserve and NotReady count its endpoints by grade.
	Ready     int `json:"ready"`
	InReserve int `json:"inReserve"`
	NotReady  int `json:"notReady"`
	// Endpoints are the pods that the Service selects, and what the ingress cluster has beside them.
	Endpoints []ExplainedEndpoint `json:"endpoints,omitempty"`
}

// ExplainedEndpoint is one pod: its grade as an endpoint and why it is no better; or an address
// that the ingress cluster has and that is no such pod's.
type ExplainedEndpoint struct {
	Pod       string   `json:"pod,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Node      string   `json:"node,omitempty"`
	// Grade of a pod is "ready", "reserve" or "not ready"; "none": it is no endpoint.
	Grade string `json:"grade,omitempty"`
	Why   string `json:"why,omitempty"`
	// Rule is the rule of the configuration that decided about it.
	Rule string `json:"rule,omitempty"`
	// Current is how the ingress cluster has it: "ready", "not ready" or "no".
	Current string `json:"current"`
}

// explainHandler serves explanations.
func (a *App) explainHandler(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("service")
	if key, ok := syncer.ParseKey(text); ok {
		page.JSON(w, a.explain(key))
		return
	}
	http.Error(w, fmt.Sprintf("service: %.200q is not NAMESPACE/NAME", text), http.StatusBadRequest)
}

// explain gathers what is known of a replica.
func (a *App) explain(key syncer.Key) *Explanation {
	out := &Explanation{Namespace: key.Namespace, Name: key.Name, Members: []ExplainedMember{}, Service: "unknown"}
	current := map[string]map[string]string{}
	if a.reconciler.Cache.HasSynced() {
		out.Service, current = currentOf(a.reconciler.Cache.Current(key))
	}
	loaded, states := a.running(), map[string]metrics.ClusterStatus{}
	for _, c := range a.set.Status() {
		states[c.Name] = c
	}
	for _, e := range a.set.Explain(key) {
		m := explainMember(&e, current[e.Member], loaded.Config.Rules)
		m.State, m.Conditions = states[e.Member].State, states[e.Member].Conditions
		m.Place = loaded.Config.Replicas.Place(key.Namespace, e.Member)
		out.Members = append(out.Members, m)
		delete(current, e.Member)
	}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		m := ExplainedMember{Cluster: name, State: "not configured"}
		m.others(current[name])
		out.Members = append(out.Members, m)
	}
	for _, c := range a.metrics.Status().Conflicts {
		if c.Namespace == key.Namespace && c.Service == key.Name {
			out.Conflicts = append(out.Conflicts, c)
		}
	}
	return out
}

// currentOf says whose the Service is, and by cluster and address what our slices have.
func currentOf(now plan.Current) (service string, current map[string]map[string]string) {
	service, current = "none", map[string]map[string]string{}
	if now.Service != nil && now.Service.Owned {
		service = "ours"
	} else if now.Service != nil {
		service = "foreign"
	}
	for _, slice := range now.Slices {
		if !slice.Owned {
			continue
		}
		cluster := slice.Labels.Get(syncer.LabelSourceCluster)
		if current[cluster] == nil {
			current[cluster] = map[string]string{}
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			current[cluster][e.Addr.String()] = "not ready"
			if e.Ready {
				current[cluster][e.Addr.String()] = "ready"
			}
		}
	}
	return service, current
}

// explainMember is what becomes of a member's Service. rules are all of the configuration,
// current is what the ingress cluster has of the member, by address.
func explainMember(e *clusters.Explained, current map[string]string, rules []rules.Rule) ExplainedMember {
	m := ExplainedMember{Cluster: e.Member, Listed: e.Share.Listed, Reserve: e.Share.Reserve, Found: e.Service != nil, Excluded: e.Excluded}
	for _, q := range e.Questions {
		m.Asked = append(m.Asked, q.Kind.String()+" "+q.Key.String())
	}
	most := syncer.Ready // of all endpoints
	if e.Share.Reserve != "" {
		most = syncer.Reserve
	}
	of := map[syncer.Grade]int{}
	for i := range e.Share.Given.Endpoints {
		of[min(e.Share.Given.Endpoints[i].Grade, most)]++
	}
	m.Ready, m.InReserve, m.NotReady = of[syncer.Ready], of[syncer.Reserve], of[syncer.NotReady]
	for i := range e.Pods {
		p := &e.Pods[i]
		pod := ExplainedEndpoint{Pod: p.Name, Node: p.NodeName, Grade: "none", Why: p.Why, Current: "no"}
		if p.Endpoint {
			pod.Grade = strings.ReplaceAll(min(p.Grade, most).String(), "_", " ")
		}
		if p.Rule >= 0 && p.Rule < len(rules) {
			pod.Rule = rules[p.Rule].Name
		}
		for _, ip := range p.IPs {
			address := ip.Addr.String()
			pod.Addresses, pod.Current = append(pod.Addresses, address), cmp.Or(current[address], pod.Current)
			delete(current, address)
		}
		switch {
		case pod.Why != "" || !p.Endpoint || pod.Current == "ready":
		case pod.Current == "no":
			pod.Why = "not written yet"
		default:
			pod.Why = cmp.Or(e.Share.Reserve, "a later place in the failover order") + ": others serve"
		}
		m.Endpoints = append(m.Endpoints, pod)
	}
	m.others(current)
	return m
}

// others adds what the ingress cluster has beside the pods.
func (m *ExplainedMember) others(current map[string]string) {
	for _, address := range slices.Sorted(maps.Keys(current)) {
		m.Endpoints = append(m.Endpoints, ExplainedEndpoint{Addresses: []string{address}, Current: current[address]})
	}
}
