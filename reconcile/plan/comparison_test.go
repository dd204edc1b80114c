// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/syncer"
)

// Whatever a record says of what the server makes of a wish, forged or outdated: no address, no
// port and no state stands otherwise than it is wished without being written.
func TestRecordOfMutationsHidesNoTraffic(t *testing.T) {
	eachSlice := func(edit func(*CurrentSlice)) func(*Current) {
		return func(o *Current) {
			for i := range o.Slices {
				edit(&o.Slices[i])
			}
		}
	}
	eachEndpoint := func(edit func(*syncer.Endpoint)) func(*Current) {
		return eachSlice(func(s *CurrentSlice) {
			s.Endpoints = slices.Clone(s.Endpoints)
			edit(&s.Endpoints[0])
		})
	}
	eachSubset := func(edit func(*syncer.Subset)) func(*Current) {
		return func(o *Current) {
			o.Endpoints.Subsets = slices.Clone(o.Endpoints.Subsets)
			for i := range o.Endpoints.Subsets {
				s := &o.Endpoints.Subsets[i]
				s.Ready, s.Ports = slices.Clone(s.Ready), slices.Clone(s.Ports)
				edit(s)
			}
		}
	}
	ports := func(edit func(*syncer.Port)) (inSlices, inEndpoints func(*Current)) {
		return eachSlice(func(s *CurrentSlice) { s.Ports = slices.Clone(s.Ports); edit(&s.Ports[0]) }),
			eachSubset(func(s *syncer.Subset) { edit(&s.Ports[0]) })
	}
	elsewhere := netip.MustParseAddr("203.0.113.7")
	edits := map[string]func(*Current){
		"": func(o *Current) { // nothing of that: it is believed
			eachSlice(func(s *CurrentSlice) { s.Hinted = true })(o)
			eachEndpoint(func(e *syncer.Endpoint) { e.Zone = "z" })(o)
		},
		"another address in a slice": eachEndpoint(func(e *syncer.Endpoint) { e.Addr = elsewhere }),
		"one more address in a slice": eachSlice(func(s *CurrentSlice) {
			s.Endpoints = append(slices.Clone(s.Endpoints), syncer.Endpoint{Addr: elsewhere, Ready: true, Serving: true})
		}),
		"an address less in a slice":    eachSlice(func(s *CurrentSlice) { s.Endpoints = s.Endpoints[1:] }),
		"not ready in a slice":          eachEndpoint(func(e *syncer.Endpoint) { e.Ready = false }),
		"not serving in a slice":        eachEndpoint(func(e *syncer.Endpoint) { e.Serving = false }),
		"terminating in a slice":        eachEndpoint(func(e *syncer.Endpoint) { e.Terminating = true }),
		"what has no value in a slice":  eachSlice(func(s *CurrentSlice) { s.Malformed = true }),
		"a slice of another Service":    eachSlice(func(s *CurrentSlice) { s.Labels = map[string]string{LabelServiceName: "other"} }),
		"another address in Endpoints":  eachSubset(func(s *syncer.Subset) { s.Ready[0].Addr = elsewhere }),
		"one more address in Endpoints": eachSubset(func(s *syncer.Subset) { s.Ready = append(s.Ready, syncer.Address{Addr: elsewhere}) }),
		"an address less in Endpoints":  eachSubset(func(s *syncer.Subset) { s.Ready = s.Ready[1:] }),
		"not ready in Endpoints":        eachSubset(func(s *syncer.Subset) { s.NotReady, s.Ready = append(s.NotReady, s.Ready[0]), s.Ready[1:] }),
		"another port of the Service": func(o *Current) {
			o.Service.Ports = slices.Clone(o.Service.Ports)
			o.Service.Ports[0].Port = 9
		},
		"another target of the Service": func(o *Current) {
			o.Service.Ports = slices.Clone(o.Service.Ports)
			o.Service.Ports[0].Target = syncer.TargetPort{Number: 9}
		},
	}
	edits["another port in a slice"], edits["another port in Endpoints"] = ports(func(p *syncer.Port) { p.Number = 9 })
	edits["another port name in a slice"], edits["another port name in Endpoints"] = ports(func(p *syncer.Port) { p.Name = "other" })
	edits["another protocol in a slice"], edits["another protocol in Endpoints"] = ports(func(p *syncer.Port) { p.Protocol = syncer.UDP })
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			w, contributions := stand(t)
			desired := Merge(shopWeb, contributions, w.current, bothKinds)
			if p := Diff(w.current, &desired, bothKinds); !p.Empty() {
				t.Fatalf("it does not stand: %s", textOf(t, p))
			}
			edit(&w.current)
			forge(&w.current, &desired)
			if p := Diff(w.current, &desired, bothKinds); p.Empty() != (name == "") {
				t.Errorf("it is met by %s", textOf(t, p))
			}
		})
	}
}

// forge has each object record all that could be said of what differs from a wish.
func forge(o *Current, desired *Desired) {
	var items []string
	all := comparison(func(item string) bool { items = append(items, item); return true })
	all.service(&desired.Service, *o.Service)
	all.endpoints(&desired.Endpoints, *o.Endpoints)
	for i := range o.Slices {
		for j := range desired.Slices {
			all.slice(&desired.Slices[j], o.Slices[i].OwnerUID, o.Slices[i])
		}
	}
	slices.Sort(items)
	for _, m := range o.objects {
		m.Mutations = Mutations{known: append(slices.Compact(items), "+endpoints.hints")}
		m.Annotations = with(m.Annotations, AnnotationMutated, strings.Join(m.Mutations.known, ","))
	}
}
