// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// comparison walks over what of an object differs from a wish, but for addresses and their
// state. It is asked about each difference; where it says yes, the field is as wished in
// what is returned.
type comparison func(item string) bool

// field compares one field, "" where it is not set.
func (c comparison) field(path, wish, made string) bool {
	switch {
	case wish == made:
		return false
	case wish == "":
		return c("+" + path)
	}
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%s\x00%s", wish, made)
	return c(fmt.Sprintf("%s:%08x", path, sum.Sum32()))
}

func (c comparison) entries(path string, wish, made map[string]string, counts func(key string) bool) map[string]string {
	if maps.Equal(wish, made) {
		return made
	}
	out := maps.Clone(made)
	text := func(of map[string]string, key string) string {
		if value, set := of[key]; set {
			return fmt.Sprintf("%q", value)
		}
		return ""
	}
	both := maps.Clone(wish)
	maps.Copy(both, made)
	for key := range both {
		if !counts(key) || !c.field(path+"["+key+"]", text(wish, key), text(made, key)) {
			continue
		}
		if delete(out, key); text(wish, key) != "" {
			out[key] = wish[key]
		}
	}
	return out
}

// labels are those of an object; what the endpoints of a slice are of is not compared.
func (c comparison) labels(wish, made map[string]string) map[string]string {
	return c.entries("metadata.labels", wish, made, func(key string) bool { return key != LabelServiceName && key != LabelSourceCluster })
}

func (c comparison) annotations(wish, made map[string]string, passed []string) map[string]string {
	return c.entries("metadata.annotations", wish, made, func(key string) bool {
		return ours[key] && key != AnnotationTrigger && key != AnnotationMutated || slices.Contains(passed, key)
	})
}

func (c comparison) service(wish *ServiceSpec, made CurrentService) CurrentService {
	made.Labels = c.labels(wish.Labels, made.Labels)
	annotations := c.annotations(wish.annotated(nil), made.Annotations, wish.Record.Passed)
	if !maps.Equal(annotations, made.Annotations) {
		made.Annotations, made.Record = annotations, ReadRecord(annotations)
	}
	if !samePorts(made.Ports, wish.Ports) && samePorts(plainPorts(made.Ports), plainPorts(wish.Ports)) && c.field("spec.ports", servicePortListText(wish.Ports), servicePortListText(made.Ports)) {
		made.Ports = wish.Ports
	}
	made.Stray = slices.DeleteFunc(slices.Clone(made.Stray), func(name string) bool { return c("+spec." + name) })
	return made
}

func (c comparison) endpoints(wish *EndpointsSpec, made CurrentEndpoints) CurrentEndpoints {
	made.Labels = c.labels(wish.Labels, made.Labels)
	made.Annotations = c.annotations(wish.Annotations, made.Annotations, nil)
	if sameSubsets(made.Subsets, wish.Subsets) {
		return made
	}
	wished := map[netip.Addr]syncer.Endpoint{}
	for e := range endpointsIn(wish.Subsets) {
		wished[e.Addr] = e
	}
	changed := false
	subsets := slices.Clone(made.Subsets)
	for i := range subsets {
		s := &subsets[i]
		addresses := func(in []syncer.Address) []syncer.Address {
			in = slices.Clone(in)
			for j := range in {
				a := &in[j]
				if w, ok := wished[a.Addr]; ok {
					changed = c.text("subsets.addresses.hostname", w.Hostname, &a.Hostname) || changed
					changed = c.text("subsets.addresses.nodeName", w.NodeName, &a.NodeName) || changed
					changed = c.target("subsets.addresses.targetRef", w.Target, &a.Target) || changed
				}
			}
			return in
		}
		s.Ready, s.NotReady = addresses(s.Ready), addresses(s.NotReady)
		if slices.ContainsFunc(wish.Subsets, func(w syncer.Subset) bool { return slices.Equal(w.Ports, s.Ports) }) {
			continue
		}
		for _, a := range slices.Concat(s.Ready, s.NotReady) {
			if w, ok := wished[a.Addr]; ok && c.ports("subsets.ports", w.Ports, s.Ports) {
				s.Ports, changed = w.Ports, true
				break
			}
		}
	}
	if changed {
		made.Subsets = syncer.Repack(subsets)
	}
	return made
}

func (c comparison) slice(wish *SliceSpec, owner string, made CurrentSlice) CurrentSlice {
	made.Labels = c.labels(wish.Labels, made.Labels)
	made.Annotations = c.annotations(wish.Annotations, made.Annotations, nil)
	if c.field("metadata.ownerReferences", owner, made.OwnerUID) {
		made.OwnerUID = owner
	}
	if c.ports("ports", wish.Ports, made.Ports) {
		made.Ports = wish.Ports
	}
	made.Hinted = made.Hinted && !c("+endpoints.hints")
	if equalEndpoints(made.Endpoints, wish.Endpoints) {
		return made
	}
	wished := make(map[netip.Addr]*syncer.Endpoint, len(wish.Endpoints))
	for i := range wish.Endpoints {
		wished[wish.Endpoints[i].Addr] = &wish.Endpoints[i]
	}
	made.Endpoints = slices.Clone(made.Endpoints)
	for i := range made.Endpoints {
		e := &made.Endpoints[i]
		if w := wished[e.Addr]; w != nil {
			c.text("endpoints.zone", w.Zone, &e.Zone)
			c.text("endpoints.nodeName", w.NodeName, &e.NodeName)
			c.text("endpoints.hostname", w.Hostname, &e.Hostname)
			c.target("endpoints.targetRef", w.Target, &e.Target)
		}
	}
	return made
}

// text compares a field of one of many endpoints.
func (c comparison) text(path, wish string, made *string) bool {
	if wish != *made && (*made == "" && c("-"+path) || *made != "" && c.field(path, wish, *made)) {
		*made = wish
		return true
	}
	return false
}

func (c comparison) target(path string, wish syncer.TargetRef, made *syncer.TargetRef) bool {
	text := func(t syncer.TargetRef) string {
		if t == (syncer.TargetRef{}) {
			return ""
		}
		return fmt.Sprint(t)
	}
	stands := text(*made)
	if c.text(path, text(wish), &stands) {
		*made = wish
		return true
	}
	return false
}

// wishedPorts are the ports that a slice was written with, as far as any of the endpoints has
// them: Pack goes by those.
func (s *CurrentSlice) wishedPorts(endpoints []syncer.Endpoint) []syncer.Port {
	if len(s.Mutations.known) == 0 {
		return s.Ports
	}
	for i := range endpoints {
		ports := slices.SortedFunc(slices.Values(endpoints[i].Ports), syncer.Port.Compare)
		if comparison(s.Mutations.has).ports("ports", ports, s.Ports) {
			return ports
		}
	}
	return s.Ports
}

// ports compares what ports say of what is spoken at them, where nothing else differs.
func (c comparison) ports(path string, wish, made []syncer.Port) bool {
	return slices.EqualFunc(wish, made, func(a, b syncer.Port) bool {
		a.AppProtocol = b.AppProtocol
		return a == b
	}) && c.field(path, portListText(wish), portListText(made))
}

// plainPorts are ports without that.
func plainPorts(ports []syncer.ServicePort) []syncer.ServicePort {
	out := slices.Clone(ports)
	for i := range out {
		out[i].AppProtocol = nil
	}
	return out
}

func portListText(ports []syncer.Port) string {
	var b strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&b, "%s %v;", p, p.AppProtocol)
	}
	return b.String()
}

func servicePortListText(ports []syncer.ServicePort) string {
	var b strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&b, "%s;", servicePortText(p))
		if p.AppProtocol != nil {
			b.WriteString(*p.AppProtocol)
		}
	}
	return b.String()
}
