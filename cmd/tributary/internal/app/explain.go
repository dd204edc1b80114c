// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// ExplainPath answers GET with what becomes of a replica; its parameter is service,
// as namespace/name.
const ExplainPath = "/debug/explain"

// Explanation is the answer: every member's Service and pods, and what the ingress cluster has.
type Explanation struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Members   []ExplainedMember `json:"members"`
	Current   ExplainedReplica  `json:"current"`
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
	// Listed is whether the member was listed completely: until then what the ingress cluster
	// has of it is its share.
	Listed bool `json:"listed"`
	// Reserve is why all its endpoints are reserves; empty where they are not.
	Reserve string `json:"reserve,omitempty"`
	// Asked are objects that a list lacked: nobody knows whether they are there.
	Asked []string `json:"asked,omitempty"`
	// Service is nil where it has none.
	Service *ExplainedService `json:"service,omitempty"`
}

// ExplainedService is a Service of a member.
type ExplainedService struct {
	// Excluded says why it is not replicated.
	Excluded string `json:"excluded,omitempty"`
	// HandWritten is true of a Service without a selector, whose endpoints are written by hand.
	HandWritten bool           `json:"handWritten,omitempty"`
	Ready       int            `json:"ready"`
	Reserve     int            `json:"reserve"`
	NotReady    int            `json:"notReady"`
	Pods        []ExplainedPod `json:"pods,omitempty"`
}

// ExplainedPod is one pod: its grade as an endpoint and why it is no better.
type ExplainedPod struct {
	Pod  string   `json:"pod"`
	IPs  []string `json:"ips,omitempty"`
	Node string   `json:"node,omitempty"`
	// Grade is "ready", "reserve" or "not ready"; "none": it is no endpoint.
	Grade string `json:"grade"`
	Why   string `json:"why,omitempty"`
	// Rule is the rule of the configuration that decided about it.
	Rule string `json:"rule,omitempty"`
	// Current is how the ingress cluster has it: "ready", "not ready" or "no".
	Current string `json:"current"`
}

// ExplainedReplica is what the ingress cluster has of the replica.
type ExplainedReplica struct {
	// Service is "ours", "foreign", "none", or "unknown" before the cluster was listed.
	Service   string              `json:"service"`
	Endpoints []ExplainedEndpoint `json:"endpoints,omitempty"`
}

// ExplainedEndpoint is an address in our slices.
type ExplainedEndpoint struct {
	Cluster     string `json:"cluster"`
	Address     string `json:"address"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
}

// Conditions names those that are true.
func (e *ExplainedEndpoint) Conditions() string {
	var names []string
	for name, set := range map[string]bool{"ready": e.Ready, "serving": e.Serving, "terminating": e.Terminating} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
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
	out := &Explanation{Namespace: key.Namespace, Name: key.Name, Members: []ExplainedMember{}, Current: ExplainedReplica{Service: "unknown"}}
	if a.reconciler.Cache.HasSynced() {
		out.Current = explainReplica(a.reconciler.Cache.Current(key))
	}
	loaded, states := a.running(), map[string]metrics.ClusterStatus{}
	for _, c := range a.set.Status() {
		states[c.Name] = c
	}
	for _, e := range a.set.Explain(key) {
		m := ExplainedMember{
			Cluster: e.Member, State: states[e.Member].State, Conditions: states[e.Member].Conditions,
			Place: loaded.Config.Replicas.Place(key.Namespace, e.Member), Listed: e.Share.Listed, Reserve: e.Share.Reserve,
		}
		for _, q := range e.Questions {
			m.Asked = append(m.Asked, q.Kind.String()+" "+q.Key.String())
		}
		if e.Found {
			m.Service = explainService(&e, &out.Current, loaded.Rules.For(e.Member).Names())
		}
		out.Members = append(out.Members, m)
	}
	for _, c := range a.metrics.Status().Conflicts {
		if c.Namespace == key.Namespace && c.Service == key.Name {
			out.Conflicts = append(out.Conflicts, c)
		}
	}
	return out
}

// explainReplica is what the ingress cluster has, by slices.
func explainReplica(now plan.Current) ExplainedReplica {
	out := ExplainedReplica{Service: "none"}
	if now.Service != nil {
		out.Service = "foreign"
		if now.Service.Owned {
			out.Service = "ours"
		}
	}
	for _, slice := range now.Slices {
		if !slice.Owned {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			out.Endpoints = append(out.Endpoints, ExplainedEndpoint{slice.Labels.Get(syncer.LabelSourceCluster), e.Addr.String(), e.Ready, e.Serving, e.Terminating})
		}
	}
	slices.SortFunc(out.Endpoints, func(a, b ExplainedEndpoint) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Address, b.Address))
	})
	return out
}

// explainService is what becomes of a member's Service. rules are the names of those for the
// member.
func explainService(e *clusters.Explained, now *ExplainedReplica, rules []string) *ExplainedService {
	s := &ExplainedService{Excluded: e.Excluded, HandWritten: e.Service.Selector == nil}
	if e.Excluded != "" {
		return s
	}
	most := syncer.Ready // of all endpoints
	if e.Share.Reserve != "" {
		most = syncer.Reserve
	}
	for i := range e.Share.Given.Endpoints {
		switch min(e.Share.Given.Endpoints[i].Grade, most) {
		case syncer.Ready:
			s.Ready++
		case syncer.Reserve:
			s.Reserve++
		default:
			s.NotReady++
		}
	}
	for i := range e.Pods {
		p := &e.Pods[i]
		pod := ExplainedPod{Pod: p.Name, Node: p.NodeName, Grade: "none", Why: p.Why, Current: "no"}
		if p.Endpoint {
			pod.Grade = strings.ReplaceAll(min(p.Grade, most).String(), "_", " ")
		}
		if p.Rule >= 0 && p.Rule < len(rules) {
			pod.Rule = rules[p.Rule]
		}
		for _, ip := range p.IPs {
			pod.IPs = append(pod.IPs, ip.Addr.String())
		}
		for _, current := range now.Endpoints {
			switch {
			case current.Cluster != e.Member || !slices.Contains(pod.IPs, current.Address):
			case current.Ready:
				pod.Current = "ready"
			default:
				pod.Current = "not ready"
			}
		}
		switch {
		case pod.Why != "" || !p.Endpoint || pod.Current == "ready":
		case pod.Current == "no":
			pod.Why = "not written yet"
		default:
			pod.Why = cmp.Or(e.Share.Reserve, "a later place in the failover order") + ": others serve"
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}
