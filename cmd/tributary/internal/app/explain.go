// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// ExplainPath answers GET with what becomes of a replica; its parameter is service,
// as namespace/name. Without it the answer is Explainable.
const ExplainPath = "/debug/explain"

// Explainable are the replicas that members contribute to, for the completion of names.
type Explainable struct {
	Services []string `json:"services"`
}

// Explanation is the answer: every member's Service and pods, and what stands.
type Explanation struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Members   []ExplainedMember `json:"members"`
	Stands    Standing          `json:"stands"`
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
	// Listed is whether the member was listed completely: until then what stands of it is
	// its share.
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

// ExplainedPod is one pod: its grade as an endpoint and why it is no better, and how it
// stands.
type ExplainedPod struct {
	Pod  string   `json:"pod"`
	IPs  []string `json:"ips,omitempty"`
	Node string   `json:"node,omitempty"`
	// Grade is "ready", "reserve" or "not ready"; "none": it is no endpoint.
	Grade string `json:"grade"`
	Why   string `json:"why,omitempty"`
	// Rule is the rule of the configuration that decided about it.
	Rule string `json:"rule,omitempty"`
	// Stands is how it stands in the ingress cluster: "ready", "not ready" or "no".
	Stands string `json:"stands"`
}

// Standing is what stands of the replica in the ingress cluster.
type Standing struct {
	// Service is "ours", "foreign", "none", or "unknown" before the cluster was listed.
	Service   string             `json:"service"`
	Endpoints []StandingEndpoint `json:"endpoints,omitempty"`
}

// StandingEndpoint is an address in our slices.
type StandingEndpoint struct {
	Cluster     string `json:"cluster"`
	Address     string `json:"address"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
}

// explainHandler serves explanations, and the names of all replicas.
func (a *App) explainHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.URL.Query().Get("service")
		key, ok := syncer.ParseKey(text)
		switch {
		case ok:
			page.JSON(w, a.explain(key))
		case text != "":
			http.Error(w, fmt.Sprintf("service: %.200q is not NAMESPACE/NAME", text), http.StatusBadRequest)
		default:
			names := Explainable{Services: []string{}}
			for _, key := range a.set.Replicas() {
				names.Services = append(names.Services, key.String())
			}
			page.JSON(w, names)
		}
	})
}

// explain gathers what is known of a replica.
func (a *App) explain(key syncer.Key) Explanation {
	out := Explanation{Namespace: key.Namespace, Name: key.Name, Members: []ExplainedMember{}, Stands: Standing{Service: "unknown"}}
	if a.reconciler.Synced() {
		out.Stands = standingOf(a.reconciler.Current(key))
	}
	loaded, states := a.running(), map[string]metrics.ClusterStatus{}
	for _, c := range a.set.Status() {
		states[c.Name] = c
	}
	for _, e := range a.set.Explain(key) {
		m := explained(&e, &out.Stands, loaded.Rules.For(e.Member).Names())
		m.State, m.Conditions = states[e.Member].State, states[e.Member].Conditions
		m.Place = loaded.Config.Replicas.Place(key.Namespace, e.Member)
		out.Members = append(out.Members, m)
	}
	for _, c := range a.metrics.Status().Conflicts {
		if c.Namespace == key.Namespace && c.Service == key.Name {
			out.Conflicts = append(out.Conflicts, c)
		}
	}
	return out
}

// standingOf is what stands, by slices.
func standingOf(now plan.Current) Standing {
	out := Standing{Service: "none"}
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
			out.Endpoints = append(out.Endpoints, StandingEndpoint{slice.Labels.Get(syncer.LabelSourceCluster), e.Addr.String(), e.Ready, e.Serving, e.Terminating})
		}
	}
	slices.SortFunc(out.Endpoints, func(a, b StandingEndpoint) int {
		return strings.Compare(a.Cluster+" "+a.Address, b.Cluster+" "+b.Address)
	})
	return out
}

// explained is what a member has to do with the replica. rules are the names of those for it.
func explained(e *clusters.Explained, standing *Standing, rules []string) ExplainedMember {
	out := ExplainedMember{Cluster: e.Member, Listed: e.Share.Listed, Reserve: e.Share.Reserve}
	for _, q := range e.Questions {
		out.Asked = append(out.Asked, q.Kind.String()+" "+q.Key.String())
	}
	if !e.Found {
		return out
	}
	s := &ExplainedService{Excluded: e.Excluded, HandWritten: e.Service.Selector == nil}
	out.Service = s
	if e.Excluded != "" {
		return out
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
		pod := ExplainedPod{Pod: p.Name, Node: p.NodeName, Grade: "none", Why: p.Why, Stands: "no"}
		if p.Endpoint {
			pod.Grade = strings.ReplaceAll(min(p.Grade, most).String(), "_", " ")
		}
		if p.Rule >= 0 && p.Rule < len(rules) {
			pod.Rule = rules[p.Rule]
		}
		for _, ip := range p.IPs {
			pod.IPs = append(pod.IPs, ip.Addr.String())
			pod.Stands = standing.how(e.Member, ip.Addr, pod.Stands)
		}
		switch {
		case pod.Why != "" || !p.Endpoint || pod.Stands == "ready":
		case pod.Stands == "no":
			pod.Why = "not written yet"
		default:
			pod.Why = cmp.Or(e.Share.Reserve, "a later place in the failover order") + ": others serve"
		}
		s.Pods = append(s.Pods, pod)
	}
	return out
}

// how says how an address of a member stands; before is what another of its addresses says.
func (s *Standing) how(member string, addr netip.Addr, before string) string {
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; e.Cluster == member && e.Address == addr.String() {
			if e.Ready {
				return "ready"
			}
			return "not ready"
		}
	}
	return before
}
