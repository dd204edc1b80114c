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
	var from, to map[string]string
	var labels, annotations map[string]string
	switch {
	case a.Service != nil && p.current.Service != nil:
		labels, annotations = a.Service.Labels, a.Service.Annotations
		s := p.current.Service
		from, to = portFields(s.Ports), portFields(a.Service.Ports)
		to["spec.clusterIP"] = "None"
		if s.Headless {
			from["spec.clusterIP"] = "None"
		}
		for key, value := range s.Selector {
			from["spec.selector["+key+"]"] = value
		}
	case a.Endpoints != nil && p.current.Endpoints != nil:
		labels, annotations = a.Endpoints.Labels, a.Endpoints.Annotations
		from, to = subsetFields(p.current.Endpoints.Subsets), subsetFields(a.Endpoints.Subsets)
	case a.Slice != nil:
		labels, annotations = a.Slice.Labels, a.Slice.Annotations
		from, to = map[string]string{}, endpointFields(a.Slice.Endpoints)
		for i := range p.current.Slices {
			if s := &p.current.Slices[i]; s.Meta.Name == a.Name {
				from = endpointFields(s.Endpoints)
			}
		}
	default:
		return nil
	}
	for _, side := range []struct {
		into                map[string]string
		labels, annotations map[string]string
	}{{from, a.Standing.Labels, a.Standing.Annotations}, {to, labels, annotations}} {
		for key, value := range side.labels {
			side.into["metadata.labels["+key+"]"] = quotedValue(value)
		}
		for key, value := range side.annotations {
			side.into["metadata.annotations["+key+"]"] = quotedValue(value)
		}
	}
	return differences(from, to)
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

func portFields(ports []syncer.ServicePort) map[string]string {
	out := map[string]string{}
	for _, p := range ports {
		out["spec.ports["+p.Name+"]"] = strings.TrimPrefix(servicePortText(p), p.Name+":")
	}
	return out
}

func subsetFields(subsets []syncer.Subset) map[string]string {
	out := map[string]string{}
	for _, s := range subsets {
		for _, p := range s.Ports {
			for _, side := range []struct {
				addresses []syncer.Address
				state     string
			}{{s.Ready, "ready"}, {s.NotReady, "not ready"}} {
				for _, a := range side.addresses {
					out[fmt.Sprintf("subsets[%s %s]", a.Addr, p)] = side.state
				}
			}
		}
	}
	return out
}

func endpointFields(endpoints []syncer.Endpoint) map[string]string {
	out := map[string]string{}
	for i := range endpoints {
		e := &endpoints[i]
		state := []string{"not ready"}
		if e.Ready {
			state[0] = "ready"
		}
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
		out["endpoints["+e.Addr.String()+"]"] = strings.Join(state, ", ")
	}
	return out
}
