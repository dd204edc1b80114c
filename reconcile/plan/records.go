// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/syncer"
)

// The records are annotations from which a share can be rebuilt after a restart
// while its member cannot be seen. They change only when the sources do.

// source is one entry of AnnotationSources, a JSON list by age.
type source struct {
	Cluster string `json:"cluster"`
	// Service is "namespace/name" in the member.
	Service string    `json:"service"`
	Created time.Time `json:"created"`
	// Ports are the ports of the replica, by name, that this Service has too.
	Ports []string `json:"ports"`
	// Family is the one that the member's Endpoints carry, if only one.
	Family syncer.Family `json:"family,omitempty"`
	// Publishes is true where the Service takes every pod for ready.
	Publishes bool `json:"publishes,omitempty"`
	// HandWritten is true where the Service's endpoints are written by hand.
	HandWritten bool `json:"handWritten,omitempty"`
	// WrittenIn names the objects that they stand in; none is unknown.
	WrittenIn []string `json:"writtenIn,omitempty"`
	// WrittenOf are the addresses of those that name a pod, where other Services of the cluster
	// give endpoints that are computed from pods.
	WrittenOf []netip.Addr `json:"writtenOf,omitempty"`
	// Annotations are those of the Service that say how the replica is shared.
	Annotations map[string]string `json:"annotations,omitempty"`
	// AgedReady are addresses that stand as not ready although the member, when last
	// seen, said otherwise: it has been silent for too long.
	AgedReady []netip.Addr `json:"agedReady,omitempty"`
}

// agedMost bounds what one share adds to the record: an object's annotations have
// 256 KiB together.
const agedMost = 5000

// writtenMost bounds how many objects of one Service are named.
const writtenMost = 100

// Sources is the record of who feeds a replica, by age.
type Sources []source

// Record is what the annotations of a replica Service say of how it was made. It is
// read when the Service enters the cache, and written with it.
type Record struct {
	Sources Sources
	// Passed are the annotations that came from the first source, sorted.
	Passed []string
	// Damaged is true where the text is not what is written for that.
	Damaged bool
}

// ReadRecord reads the record of a replica Service; what makes no sense counts as none.
func ReadRecord(annotations map[string]string) (r Record) {
	if text := annotations[AnnotationSources]; text == "" || json.Unmarshal([]byte(text), &r.Sources) != nil {
		r.Sources = nil
	}
	r.Sources = slices.DeleteFunc(r.Sources, func(s source) bool {
		_, named := syncer.ParseKey(s.Service)
		return !named || !syncer.IsLabel(s.Cluster)
	})
	if text := annotations[AnnotationPassed]; text == "" || json.Unmarshal([]byte(text), &r.Passed) != nil {
		r.Passed = nil
	}
	r.Passed = slices.DeleteFunc(r.Passed, ReservedAnnotation)
	for key, text := range r.texts() {
		r.Damaged = r.Damaged || annotations[key] != text
	}
	return r
}

// texts are the annotations of a record; an empty one is absent.
func (r *Record) texts() map[string]string {
	sources, _ := json.Marshal(r.Sources) // every year in it has four digits
	texts := map[string]string{AnnotationSources: string(sources), AnnotationPassed: ""}
	if len(r.Passed) > 0 {
		passed, _ := json.Marshal(r.Passed) // strings always can be
		texts[AnnotationPassed] = string(passed)
	}
	return texts
}

// annotated returns the annotations to write, over those of a standing Service; nil: there
// is none.
func (s *ServiceSpec) annotated(standing *CurrentService) map[string]string {
	if standing == nil {
		standing = &CurrentService{}
	}
	out := annotated(standing.Annotations, standing.Passed, s.Annotations)
	for key, text := range s.Record.texts() {
		if text != "" {
			out[key] = text
		}
	}
	return out
}

// stands reports whether a standing record says the same.
func (r *Record) stands(standing *Record) bool {
	return !standing.Damaged && slices.Equal(r.Passed, standing.Passed) && slices.EqualFunc(r.Sources, standing.Sources, source.equal)
}

func (s source) equal(o source) bool {
	return s.Cluster == o.Cluster && s.Service == o.Service && s.Created.Equal(o.Created) && slices.Equal(s.Ports, o.Ports) &&
		s.Family == o.Family && s.Publishes == o.Publishes && s.HandWritten == o.HandWritten &&
		slices.Equal(s.WrittenIn, o.WrittenIn) && slices.Equal(s.WrittenOf, o.WrittenOf) && maps.Equal(s.Annotations, o.Annotations) && slices.Equal(s.AgedReady, o.AgedReady)
}

func (s Sources) has(cluster string) bool {
	return slices.ContainsFunc(s, func(one source) bool { return one.Cluster == cluster })
}

// recordOf says who feeds a replica, in an order that does not change when a cluster
// leaves the configuration: that alone is nothing to write.
func recordOf(shares []*share, u union) Sources {
	shares = slices.SortedFunc(slices.Values(shares), byAge)
	sources := make([]source, len(shares))
	for i, s := range shares {
		sources[i] = source{
			Cluster: s.Cluster, Service: s.Source.String(), Created: time.Unix(s.created(), 0).UTC(), Ports: []string{},
			Family: s.EndpointsFamily, Publishes: s.Publishes, HandWritten: s.HandWritten, Annotations: sharing(s.Service.Annotations),
		}
		if len(s.agedReady) <= agedMost {
			sources[i].AgedReady = s.agedReady
		}
		if len(s.WrittenIn) <= writtenMost {
			sources[i].WrittenIn = s.WrittenIn
		}
		computed := func(o *share) bool { return o.Cluster == s.Cluster && !o.HandWritten }
		if len(s.WrittenOf) <= agedMost && slices.ContainsFunc(shares, computed) {
			sources[i].WrittenOf = s.WrittenOf
		}
		for _, p := range u.ports {
			if slices.Contains(p.feeders, s) {
				sources[i].Ports = append(sources[i].Ports, p.Name)
			}
		}
	}
	return sources
}

// onlyEndpoints begins an address record beside slices: addresses that no slice
// has are meant for Endpoints alone.
const onlyEndpoints = "only:"

// addressRecord says which cluster each address of the subsets belongs to, as
// far as the slices do not: "idc-a=*;idc-b=10.1.0.7,10.1.0.9", where * stands
// for all addresses not named; unless one is nobody's. Empty when there is nothing to say.
func addressRecord(shares []*share, subsets []syncer.Subset, only bool) string {
	if len(subsets) == 0 {
		return ""
	}
	written := statesOf(subsets)
	named := map[string][]netip.Addr{}
	for _, s := range shares {
		for i := range s.endpoints {
			if e := &s.endpoints[i]; e.In(syncer.KindEndpoints) && written[e.Addr] != absent {
				named[s.Cluster] = append(named[s.Cluster], e.Addr)
				delete(written, e.Addr)
			}
		}
	}
	// The cluster with the most addresses is the one that needs no list.
	var clusters []string
	rest := ""
	for cluster, addrs := range named {
		clusters = append(clusters, cluster)
		if n := len(named[rest]); rest == "" || len(addrs) > n || len(addrs) == n && cluster < rest {
			rest = cluster
		}
	}
	slices.Sort(clusters)
	if len(written) > 0 { // nobody knows yet whose those are
		rest = ""
	}
	var b strings.Builder
	if only {
		b.WriteString(onlyEndpoints)
	}
	for i, cluster := range clusters {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(cluster + "=")
		if cluster == rest {
			b.WriteByte('*')
			continue
		}
		slices.SortFunc(named[cluster], netip.Addr.Compare)
		for j, addr := range named[cluster] {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(addr.String())
		}
	}
	return b.String()
}

// Owners say which cluster each address of Endpoints belongs to, as far as slices do
// not: see addressRecord.
type Owners struct {
	named map[netip.Addr]string
	rest  string
	// only: addresses that no slice has are meant for Endpoints alone.
	only bool
}

// ReadOwners reads AnnotationAddresses.
func ReadOwners(annotations map[string]string) (o Owners) {
	record, only := strings.CutPrefix(annotations[AnnotationAddresses], onlyEndpoints)
	o.only = only
	for entry := range strings.SplitSeq(record, ";") {
		cluster, list, _ := strings.Cut(entry, "=")
		if !syncer.IsLabel(cluster) {
			continue
		}
		if list == "*" {
			o.rest = cluster
			continue
		}
		for text := range strings.SplitSeq(list, ",") {
			if addr, err := netip.ParseAddr(text); err == nil {
				if o.named == nil {
					o.named = map[netip.Addr]string{}
				}
				o.named[addr] = cluster
			}
		}
	}
	return o
}

// of is the cluster of an address, "" where nothing tells.
func (o *Owners) of(addr netip.Addr) string { return cmp.Or(o.named[addr], o.rest) }
