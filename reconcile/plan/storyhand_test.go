// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// hand is what somebody does to our objects.
func (s *replicaStory) hand(words []string) error {
	o := &s.current
	switch strings.Join(words[:min(2, len(words))], " ") {
	case "delete service":
		o.Service = nil
	case "delete endpoints":
		o.Endpoints = nil
	case "delete slices":
		o.Slices = slices.DeleteFunc(slices.Clone(o.Slices), func(c CurrentSlice) bool { return len(words) < 3 || c.Cluster == words[2] })
	case "empty endpoints":
		o.Endpoints.Subsets = nil
	case "empty slices":
		for i := range o.Slices {
			o.Slices[i].Endpoints = nil
		}
	case "add address":
		first := &o.Endpoints.Subsets[0]
		first.Ready = append(slices.Clone(first.Ready), syncer.Address{Addr: netip.MustParseAddr(words[2])})
	case "set selector":
		o.Service.Selector = map[string]string{"app": "theirs"}
	case "label endpoints":
		o.Endpoints.Labels = with(o.Endpoints.Labels, words[2], "theirs")
	case "annotate service":
		o.Service.Annotations = with(o.Service.Annotations, words[2], "theirs")
	case "unlabel service":
		o.Service.strip()
	case "unlabel endpoints":
		o.Endpoints.strip()
	case "deleting service":
		o.Service.Deleting = true
	default:
		return fmt.Errorf("unknown deed %q", words)
	}
	return nil
}

// edit changes one of our objects: service, endpoints, or the slices of a cluster.
func (s *replicaStory) edit(object string, deeds []string) error {
	o := &s.current
	var metas []*Meta
	var sliced []*CurrentSlice
	kind := KindEndpointSlice
	switch object {
	case "service":
		kind, metas = KindService, []*Meta{&o.Service.Meta}
	case "endpoints":
		kind, metas = KindEndpoints, []*Meta{&o.Endpoints.Meta}
	default:
		o.Slices = slices.Clone(o.Slices)
		for i := range o.Slices {
			if one := &o.Slices[i]; one.Cluster == object || object == "slices" {
				sliced, metas = append(sliced, one), append(metas, &one.Meta)
			}
		}
	}
	if len(metas) == 0 {
		return fmt.Errorf("no object %q", object)
	}
	for _, deed := range deeds {
		key, value, _ := strings.Cut(deed, "=")
		for _, m := range metas {
			if !m.edit(kind, key, value) && !editService(o.Service, kind, key, value) {
				if len(sliced) == 0 {
					return fmt.Errorf("unknown deed %q", deed)
				}
			}
		}
		for _, one := range sliced {
			one.edit(key, value)
		}
	}
	for _, m := range metas {
		s.rv++
		m.ResourceVersion = fmt.Sprint(s.rv)
		m.Claim = ClaimOf(kind, o.Key, m.Labels, m.Annotations, s.instance)
	}
	if o.Service != nil {
		o.Service.Record = ReadRecord(o.Service.Annotations)
	}
	if o.Endpoints != nil {
		o.Endpoints.Owners = ReadOwners(o.Endpoints.Annotations)
	}
	o.Own()
	return nil
}

func (m *Meta) edit(kind Kind, key, value string) bool {
	mark, set := LabelManagedBy, ManagedBy
	if kind == KindEndpointSlice {
		mark, set = LabelSliceManagedBy, SliceManagedBy
	}
	put := func(in *map[string]string, key, value string) {
		if value == "" {
			*in = without(*in, key)
		} else {
			*in = with(*in, key, value)
		}
	}
	switch key {
	case "unmark":
		put(&m.Labels, mark, "")
	case "mark":
		put(&m.Labels, mark, set)
	case "instance":
		put(&m.Labels, LabelInstance, value)
	case "record", "sources", "addresses", "mutated":
		put(&m.Annotations, map[string]string{"record": AnnotationReplica, "sources": AnnotationSources, "addresses": AnnotationAddresses, "mutated": AnnotationMutated}[key], value)
	case "label":
		name, value, _ := strings.Cut(value, ":")
		put(&m.Labels, name, value)
	case "annotation":
		name, value, _ := strings.Cut(value, ":")
		put(&m.Annotations, name, value)
	case "uid":
		m.UID = value
	case "owner":
		m.OwnerUID = value
	case "deleting":
		m.Deleting = true
	default:
		return false
	}
	return true
}

func editService(s *CurrentService, kind Kind, key, value string) bool {
	if kind != KindService {
		return false
	}
	switch key {
	case "clusterIP":
		s.Headless = value == "None"
	case "ports":
		s.Ports = nil
		for text := range strings.SplitSeq(value, ",") {
			s.Ports = append(s.Ports, port(text))
		}
	case "selector":
		s.Selector = map[string]string{"app": value}
	case "stray":
		s.Stray = []string{value}
	default:
		return false
	}
	return true
}

func (s *CurrentSlice) edit(key, value string) {
	switch key {
	case "cluster":
		s.Cluster = value
		s.Labels = with(s.Labels, LabelSourceCluster, value)
	case "port":
		s.Ports = []syncer.Port{{Name: port(value).Name, Number: port(value).Port, Protocol: syncer.TCP}}
	case "malformed":
		s.Malformed = true
	case "unready":
		s.Endpoints = unreadied(s.Endpoints)
	case "add":
		s.Endpoints = append(slices.Clone(s.Endpoints), syncer.Endpoint{Addr: netip.MustParseAddr(value), Ready: true, Serving: true})
	}
}

// foreign puts an object of somebody else where ours would be.
func (s *replicaStory) foreign(kind string) {
	switch kind {
	case "service":
		s.current.Service = &CurrentService{Meta: Meta{Name: shopWeb.Name, UID: "theirs", ResourceVersion: "1"}}
	case "endpoints":
		s.current.Endpoints = &CurrentEndpoints{Meta: Meta{Name: shopWeb.Name, UID: "theirs", ResourceVersion: "1"}}
	}
}

// forge makes an object that claims what it likes: forge KIND CLAIM… | ADDRESS…. The claims
// are those of edit, and owner=ours: it names our Service as its owner.
func (s *replicaStory) forge(words []string) error {
	at := slices.Index(words, "|")
	if at < 0 {
		at = len(words)
	}
	claims, addresses := words[1:at], words[min(at+1, len(words)):]
	meta := Meta{Name: shopWeb.Name, UID: "forged-" + words[0], ResourceVersion: "1", Labels: map[string]string{}, Annotations: map[string]string{}}
	ports := []syncer.Port{{Name: "http", Number: 8080, Protocol: syncer.TCP}}
	object := words[0]
	switch object {
	case "service":
		s.current.Service = &CurrentService{Meta: meta, Headless: true, Ports: []syncer.ServicePort{port("http:80>8080")}}
	case "endpoints":
		subset := syncer.Subset{Ports: ports}
		for _, addr := range parsed(addresses) {
			subset.Ready = append(subset.Ready, syncer.Address{Addr: addr})
		}
		s.current.Endpoints = &CurrentEndpoints{Meta: meta}
		if len(subset.Ready) > 0 {
			s.current.Endpoints.Subsets = []syncer.Subset{subset}
		}
	case "slice":
		slice := CurrentSlice{Meta: meta, Slice: syncer.Slice{Name: "web-forged", Family: syncer.IPv4, Ports: ports}, Serves: true}
		slice.Meta.Name, object = "web-forged", "-"
		slice.Cluster = "-"
		for _, addr := range parsed(addresses) {
			slice.Endpoints = append(slice.Endpoints, syncer.Endpoint{Addr: addr, Ready: true, Serving: true})
		}
		s.current.Slices = append(slices.Clone(s.current.Slices), slice)
		slices.SortFunc(s.current.Slices, func(a, b CurrentSlice) int { return strings.Compare(a.Meta.Name, b.Meta.Name) })
	default:
		return fmt.Errorf("unknown kind %q", words[0])
	}
	if at := slices.Index(claims, "owner=ours"); at >= 0 {
		claims[at] = "owner=" + s.current.Service.UID
	}
	if err := s.edit(object, claims); err != nil {
		return err
	}
	for i := range s.current.Slices { // as the cache reads it
		one := &s.current.Slices[i]
		one.Serves = one.Meta.UID == "forged-slice" && !one.Owned && len(one.Endpoints) > 0
	}
	return nil
}

// show tells what can be read of what stands.
func (s *replicaStory) show(words []string, say func(string, ...any)) {
	current := s.read()
	objects := func(tell func(kind Kind, m *Meta, n int)) {
		if v := current.Service; v != nil {
			tell(KindService, &v.Meta, len(v.Ports))
		}
		if e := current.Endpoints; e != nil {
			tell(KindEndpoints, &e.Meta, len(statesOf(e.Subsets)))
		}
		for i := range current.Slices {
			tell(KindEndpointSlice, &current.Slices[i].Meta, len(current.Slices[i].Endpoints))
		}
	}
	switch words[0] {
	case "objects":
		objects(func(kind Kind, m *Meta, n int) {
			whose := []string{"nobody's by its labels", "of another installation", "marked, and without a record that fits", "ours by its record"}[m.Claim]
			if m.Owned && m.Claim != ClaimRecorded {
				whose = "ours beside a Service of the version before"
			}
			if kind == KindService {
				say("%s %s: %s", kind, m.Name, whose)
				return
			}
			say("%s %s: %s, %d addresses", kind, m.Name, whose, n)
		})
	case "records":
		objects(func(kind Kind, m *Meta, _ int) {
			for _, key := range []string{AnnotationReplica, AnnotationSources, AnnotationPassed, AnnotationAddresses, AnnotationOverCapacity, AnnotationMutated} {
				if text, set := m.Annotations[key]; set {
					say("%s: %s %s", kind, key, text)
				}
			}
		})
	case "share":
		for _, c := range current.Share(words[1]) {
			var addrs []string
			for _, e := range c.Endpoints {
				addrs = append(addrs, e.Addr.String()+map[bool]string{false: "!"}[e.Ready]+map[syncer.Kinds]string{syncer.KindEndpoints: " in Endpoints alone", syncer.KindEndpointSlices: " in slices alone"}[e.Only])
			}
			say("%s has given, by %s of %d: %s", words[1], c.Source, c.Service.Created, strings.Join(addrs, ", "))
		}
	}
}
