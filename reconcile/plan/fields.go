// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Field is a difference between an object that stands and what an update makes of it. An
// empty From is new, an empty To goes.
type Field struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// Fields are what an update of the plan changes, by path; none of other actions. It is
// worked out for people alone, never on the way to a write.
func (p *Plan) Fields(a *Action) []Field {
	if a.Verb != Update || a.Standing == nil || p.current == nil {
		return nil
	}
	stands := p.current.unchanged(a.Object())
	if s := p.current.Service; a.Service != nil && s != nil {
		stands = &Action{Service: &ServiceSpec{Ports: s.Ports, Labels: a.Standing.Labels, Annotations: a.Standing.Annotations}}
	}
	if stands == nil {
		return nil
	}
	from, to := stands.fields(), a.fields()
	if s := p.current.Service; a.Service != nil {
		if !s.Headless {
			delete(from, "spec.clusterIP")
		}
		for key, value := range s.Selector {
			from["spec.selector["+key+"]"] = value
		}
	}
	return differences(from, to)
}

// fields are what an action writes, by path.
func (a *Action) fields() map[string]string {
	out := map[string]string{}
	var labels, annotations map[string]string
	switch {
	case a.Service != nil:
		labels, annotations = a.Service.Labels, a.Service.Annotations
		out["spec.clusterIP"] = "None"
		for _, p := range a.Service.Ports {
			out["spec.ports["+p.Name+"]"] = strings.TrimPrefix(servicePortText(p), p.Name+":")
		}
	case a.Endpoints != nil:
		labels, annotations = a.Endpoints.Labels, a.Endpoints.Annotations
		for e := range endpointsIn(a.Endpoints.Subsets) {
			for _, p := range e.Ports {
				out[fmt.Sprintf("subsets[%s %s]", e.Addr, p)] = readiness(&e)
			}
		}
	case a.Slice != nil:
		labels, annotations = a.Slice.Labels, a.Slice.Annotations
		for i := range a.Slice.Endpoints {
			out["endpoints["+a.Slice.Endpoints[i].Addr.String()+"]"] = endpointField(&a.Slice.Endpoints[i])
		}
	}
	for key, value := range labels {
		out["metadata.labels["+key+"]"] = quotedValue(value)
	}
	for key, value := range annotations {
		out["metadata.annotations["+key+"]"] = quotedValue(value)
	}
	return out
}

func quotedValue(text string) string { return fmt.Sprintf("%.200q", text) }

func differences(from, to map[string]string) (out []Field) {
	all := maps.Clone(from)
	maps.Copy(all, to)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if from[name] != to[name] {
			out = append(out, Field{name, from[name], to[name]})
		}
	}
	return out
}

func readiness(e *syncer.Endpoint) string {
	if e.Ready {
		return "ready"
	}
	return "not ready"
}

func endpointField(e *syncer.Endpoint) string {
	state := []string{readiness(e)}
	if e.Serving {
		state = append(state, "serving")
	}
	if e.Terminating {
		state = append(state, "terminating")
	}
	for _, of := range []struct{ name, value string }{{"node", e.NodeName}, {"zone", e.Zone}, {"hostname", e.Hostname}} {
		if of.value != "" {
			state = append(state, of.name+" "+of.value)
		}
	}
	return strings.Join(state, ", ")
}
