// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
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

// Explanation is the answer: every member's Services and pods, and what stands.
type Explanation struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Members   []ExplainedMember `json:"members"`
	// Stands is what stands; its Service is unknown before the ingress cluster was listed.
	Stands reconcile.Stands `json:"stands"`
	// Orphans are clusters that are not configured any more, and whose endpoints stand still.
	Orphans []plan.Kept `json:"orphans,omitempty"`
	// Conflicts and Held are those of the status that are about the replica, or about a
	// member as a whole.
	Conflicts []metrics.Conflict   `json:"conflicts,omitempty"`
	Held      []metrics.HeldChange `json:"held,omitempty"`
}

// ExplainedMember is what one member has to do with the replica.
type ExplainedMember struct {
	Cluster string `json:"cluster"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Drained bool   `json:"drained,omitempty"`
	// Synced is whether the member was read whole: then it lacks what is not named here.
	Synced   bool               `json:"synced"`
	Services []ExplainedService `json:"services"`
}

// ExplainedService is one Service of a member.
type ExplainedService struct {
	Service string `json:"service"`
	// Replica is where it is placed; empty where Excluded says why it is not replicated.
	Replica  string `json:"replica,omitempty"`
	Excluded string `json:"excluded,omitempty"`
	Held     bool   `json:"held,omitempty"`
	// Manual is true of a Service without a selector, whose endpoints are written by hand.
	Manual   bool           `json:"manual,omitempty"`
	Ready    int            `json:"ready"`
	NotReady int            `json:"notReady"`
	Pods     []ExplainedPod `json:"pods,omitempty"`
}

// ExplainedPod is one pod: whether it is an endpoint, whether it takes traffic, and why
// it does not, or why it does although its own word is another.
type ExplainedPod struct {
	Pod      string   `json:"pod"`
	IPs      []string `json:"ips,omitempty"`
	Node     string   `json:"node,omitempty"`
	Endpoint bool     `json:"endpoint"`
	Ready    bool     `json:"ready"`
	Why      string   `json:"why,omitempty"`
	// Rule is the rule of the configuration that decides, Then what it wants.
	Rule string `json:"rule,omitempty"`
	Then string `json:"then,omitempty"`
}

// ExplainHandler serves explanations, and the names of all replicas.
func ExplainHandler(explain func(syncer.Key) Explanation, replicas func() []syncer.Key) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.URL.Query().Get("service")
		key, ok := syncer.ParseKey(text)
		if !ok && text != "" {
			http.Error(w, fmt.Sprintf("service: %.200q is not namespace/name", text), http.StatusBadRequest)
			return
		}
		if ok {
			sendJSON(w, explain(key))
			return
		}
		names := Explainable{Services: []string{}}
		for _, key := range replicas() {
			names.Services = append(names.Services, key.String())
		}
		sendJSON(w, names)
	})
}

// explain gathers what is known of a replica.
func (r *App) explain(key syncer.Key) Explanation {
	out := Explanation{Namespace: key.Namespace, Name: key.Name, Members: []ExplainedMember{}, Stands: reconcile.Stands{Service: "unknown"}}
	drained := map[string]bool{}
	for _, c := range r.running().Config.Clusters {
		drained[c.Name] = c.Drain
	}
	for _, c := range r.notAsked() {
		out.Members = append(out.Members, ExplainedMember{Cluster: c.Name, State: c.State, Drained: drained[c.Name], Services: []ExplainedService{}})
	}
	for _, m := range r.set.Explain(key) {
		out.Members = append(out.Members, explainedMember(m, drained[m.Cluster]))
	}
	if session := r.ingress.Load(); session != nil && session.reconciler.Synced() {
		out.Stands = session.reconciler.Stands(key)
		stale := map[string]bool{}
		for _, m := range r.set.Members() {
			stale[m.Name] = m.Stale
		}
		wanted := session.reconciler.Wanted(key)
		out.Orphans = wanted.Kept
		inSlices := len(out.Stands.Endpoints) > 0 || out.Stands.InEndpoints == 0
		for i := 0; inSlices && i < len(out.Members); i++ { // of Endpoints alone nobody can tell whose an address is
			out.Members[i].explainUnserved(key.String(), stale[out.Members[i].Cluster], out.Stands.Endpoints, &wanted)
		}
	}
	status := r.metrics.StatusOf(metrics.Scope{Namespace: key.Namespace, Service: key.Name})
	out.Conflicts, out.Held = status.Conflicts, status.Held
	return out
}

// explainUnserved says why pods that the member gives as ready do not stand so in the replica.
func (m *ExplainedMember) explainUnserved(replica string, stale bool, standing []reconcile.StandingEndpoint, wanted *reconcile.Wanted) {
	serves, first := map[string]bool{}, ""
	for _, e := range standing {
		switch {
		case !e.Ready || e.Foreign:
		case e.Cluster == m.Cluster:
			serves[e.Address] = true
		case first == "":
			first = e.Cluster
		}
	}
	why := "left out"
	switch {
	case m.Drained:
		why = "the member is drained"
	case stale:
		why = "the member is stale"
	case wanted.InTurn && len(serves) == 0 && first != "":
		why = fmt.Sprintf("%s serves, and the member is in reserve", first)
	}
	for i := range m.Services {
		service := &m.Services[i]
		for j := range service.Pods {
			pod, why := &service.Pods[j], why
			if service.Replica != replica || !pod.Ready || slices.ContainsFunc(pod.IPs, func(ip string) bool { return serves[ip] }) {
				continue
			}
			if slices.ContainsFunc(pod.IPs, func(ip string) bool { return wanted.Ready[m.Cluster][ip] }) {
				why = "not written yet"
			}
			pod.Why = strings.TrimSuffix("not served: "+why+"; "+pod.Why, "; ")
		}
	}
}

func explainedMember(m clusters.Explanation, drained bool) ExplainedMember {
	out := ExplainedMember{Cluster: m.Cluster, State: string(m.State), Reason: string(m.Reason), Drained: drained, Synced: m.Synced, Services: []ExplainedService{}}
	for _, s := range m.Services {
		service := ExplainedService{
			Service: s.Service.Key.String(), Excluded: s.Excluded, Held: s.Held, Manual: s.Manual, Ready: s.Ready, NotReady: s.NotReady,
		}
		if s.Placed {
			service.Replica = s.Replica.String()
		}
		for i := range s.Pods {
			p := &s.Pods[i]
			pod := ExplainedPod{Pod: p.Name, Node: p.NodeName, Endpoint: p.Endpoint, Ready: p.Verdict.Ready, Why: p.Why}
			for _, ip := range p.IPs {
				pod.IPs = append(pod.IPs, ip.Addr.String())
			}
			if why := s.Kept[p.Key]; why != "" {
				pod.Why = "kept ready: " + string(why)
			}
			if w, waits := s.Waits[p.Key]; waits {
				pod.Why = fmt.Sprintf("ready for %v, returns after %v", time.Since(w.Since).Round(time.Second), w.For)
			}
			explainRule(p, &pod)
			if p.Held {
				pod.Why = "kept: lists of the member lack it"
			}
			service.Pods = append(service.Pods, pod)
		}
		out.Services = append(out.Services, service)
	}
	return out
}

// explainRule names the rule that decides about a pod, and one that is held and would.
func explainRule(p *store.ExplainedPod, pod *ExplainedPod) {
	is, held := p.Decision, p.Suspended
	switch {
	case is.Rule == "":
	case is.Then == store.NotReady || is.Then == store.Absent || pod.Why == "":
		pod.Why = fmt.Sprintf("rule %s: %s", is.Rule, is.Then)
	default: // no rule makes a pod ready that is being deleted, has finished, or has no address
		pod.Why = fmt.Sprintf("rule %s: %s; %s", is.Rule, is.Then, pod.Why)
	}
	switch {
	case held == is:
	case held.Rule == "":
		pod.Why = fmt.Sprintf("rule %s made it %s; that it does not any more is held: rule_would_empty", is.Rule, is.Then)
	default:
		pod.Why = strings.TrimSuffix(fmt.Sprintf("rule %s would make it %s, and is held: rule_would_empty; %s", held.Rule, held.Then, pod.Why), "; ")
	}
	if is.Rule == "" {
		is = held
	}
	if is.Rule != "" {
		pod.Rule, pod.Then = is.Rule, string(is.Then)
	}
}
