// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/syncer"

// Document renders plans for programs: one object with the summary and, for each
// replica with something to do or to report, the actions in order. Its JSON is part of
// the contract.
func Document(plans []Plan, rules []RuleEffect) any {
	doc := document{APIVersion: "tributary.dev/v1alpha1", Kind: "Plan", Summary: Summarise(plans), Rules: rules, Replicas: []replicaDoc{}}
	for i := range plans {
		if p := &plans[i]; !p.silent() {
			doc.Replicas = append(doc.Replicas, documentOf(p))
		}
	}
	return doc
}

type document struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Summary    Summary      `json:"summary"`
	Rules      []RuleEffect `json:"rules,omitempty"`
	Replicas   []replicaDoc `json:"replicas"`
}

// RuleEffect is what a rule of the configuration does in one member.
type RuleEffect struct {
	Cluster string `json:"cluster"`
	Rule    string `json:"rule"`
	Then    string `json:"then"`
	// Matches are the pods of Services that it decides. Takes are the ready endpoints that
	// stand and that it takes away; Held are those of them that are held, as too many.
	Matches int `json:"matches"`
	Takes   int `json:"takes"`
	Held    int `json:"held"`
	// Errors counts the pods on which it fails, and does not match; LastError is why.
	Errors    uint64 `json:"errors,omitempty"`
	LastError string `json:"lastError,omitempty"`
}

type replicaDoc struct {
	Namespace string      `json:"namespace"`
	Service   string      `json:"service"`
	Actions   []actionDoc `json:"actions"`
	Added     []string    `json:"added,omitempty"`
	Removed   []string    `json:"removed,omitempty"`
	Readied   []string    `json:"readied,omitempty"`
	Unreadied []string    `json:"unreadied,omitempty"`
	Conflicts []Conflict  `json:"conflicts,omitempty"`
	Held      []Held      `json:"held,omitempty"`
	Kept      []Kept      `json:"kept,omitempty"`
	Waiting   WaitReason  `json:"waiting,omitempty"`
}

type actionDoc struct {
	// Stage counts from 1; actions of one stage run side by side.
	Stage  int    `json:"stage"`
	Action Verb   `json:"action"`
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Why    string `json:"why"`
	// Changes are what an update makes different, field by field.
	Changes []Field `json:"changes,omitempty"`

	Cluster     string            `json:"cluster,omitempty"`
	AddressType syncer.Family     `json:"addressType,omitempty"`
	Ports       []portDoc         `json:"ports,omitempty"`
	Endpoints   []endpointDoc     `json:"endpoints,omitempty"`
	Subsets     []subsetDoc       `json:"subsets,omitempty"`
	Truncated   bool              `json:"truncated,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type portDoc struct {
	Name        string  `json:"name,omitempty"`
	Protocol    string  `json:"protocol"`
	Port        int32   `json:"port"`
	TargetPort  any     `json:"targetPort,omitempty"`
	AppProtocol *string `json:"appProtocol,omitempty"`
}

type endpointDoc struct {
	Address     string `json:"address"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
	Hostname    string `json:"hostname,omitempty"`
	NodeName    string `json:"nodeName,omitempty"`
	Zone        string `json:"zone,omitempty"`
}

type subsetDoc struct {
	Addresses         []string  `json:"addresses,omitempty"`
	NotReadyAddresses []string  `json:"notReadyAddresses,omitempty"`
	Ports             []portDoc `json:"ports,omitempty"`
}

func documentOf(p *Plan) replicaDoc {
	doc := replicaDoc{
		Namespace: p.Replica.Namespace, Service: p.Replica.Name, Actions: []actionDoc{}, Waiting: p.Waiting,
		Added: p.Delta.Added, Removed: p.Delta.Removed, Readied: p.Delta.Readied, Unreadied: p.Delta.Unreadied,
		Conflicts: p.Conflicts, Held: p.Held, Kept: p.Kept,
	}
	for i, stage := range p.Sequence() {
		for j := range stage {
			doc.Actions = append(doc.Actions, actionDocOf(i+1, &stage[j], p.Fields(&stage[j])))
		}
	}
	return doc
}

func actionDocOf(stage int, a *Action, changes []Field) actionDoc {
	doc := actionDoc{Stage: stage, Action: a.Verb, Kind: a.Kind, Name: a.Name, Why: a.Why, Changes: changes}
	switch {
	case a.Service != nil:
		doc.Labels, doc.Annotations = a.Service.Labels, a.Service.Annotations
		for _, p := range a.Service.Ports {
			var target any = p.Target.Number
			if p.Target.Name != "" {
				target = p.Target.Name
			}
			doc.Ports = append(doc.Ports, portDoc{p.Name, p.Protocol, p.Port, target, p.AppProtocol})
		}
	case a.Endpoints != nil:
		doc.Labels, doc.Annotations, doc.Truncated = a.Endpoints.Labels, a.Endpoints.Annotations, a.Endpoints.Truncated
		for _, s := range a.Endpoints.Subsets {
			doc.Subsets = append(doc.Subsets, subsetDoc{addressDocs(s.Ready), addressDocs(s.NotReady), portDocs(s.Ports)})
		}
	case a.Slice != nil:
		doc.Labels, doc.Annotations = a.Slice.Labels, a.Slice.Annotations
		doc.Cluster, doc.AddressType, doc.Ports = a.Slice.Cluster, a.Slice.Family, portDocs(a.Slice.Ports)
		for i := range a.Slice.Endpoints {
			e := &a.Slice.Endpoints[i]
			doc.Endpoints = append(doc.Endpoints, endpointDoc{e.Addr.String(), e.Ready, e.Serving, e.Terminating, e.Hostname, e.NodeName, e.Zone})
		}
	}
	return doc
}

func addressDocs(addresses []syncer.Address) []string {
	var out []string
	for i := range addresses {
		out = append(out, addresses[i].Addr.String())
	}
	return out
}

func portDocs(ports []syncer.Port) []portDoc {
	var out []portDoc
	for _, p := range ports {
		doc := portDoc{Name: p.Name, Protocol: p.Protocol, Port: p.Number}
		if p.AppProtocol.Set {
			doc.AppProtocol = new(p.AppProtocol.Value)
		}
		out = append(out, doc)
	}
	return out
}
