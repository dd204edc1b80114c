// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
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
	// Annotations are those of the Service that say how the replica is shared.
	Annotations map[string]string `json:"annotations,omitempty"`
	// AgedReady are addresses that stand as not ready although the member, when last
	// seen, said otherwise: it has been silent for too long.
	AgedReady []netip.Addr `json:"agedReady,omitempty"`
}

// agedMost bounds what one share adds to the record: an object's annotations have
// 256 KiB together.
const agedMost = 5000

// Sources is the record of who feeds a replica, by age.
type Sources []source

// ReadSources reads AnnotationSources; what makes no sense counts as no record.
func ReadSources(annotations map[string]string) Sources {
	var sources []source
	record := annotations[AnnotationSources]
	if record == "" || json.Unmarshal([]byte(record), &sources) != nil {
		return nil
	}
	return slices.DeleteFunc(sources, func(s source) bool {
		_, named := syncer.ParseKey(s.Service)
		return !named || !syncer.IsLabel(s.Cluster)
	})
}

func (s Sources) has(cluster string) bool {
	return slices.ContainsFunc(s, func(one source) bool { return one.Cluster == cluster })
}

// sourceRecord says who feeds a replica, in an order that does not change when a cluster
// leaves the configuration: that alone is nothing to write.
func sourceRecord(shares []*share, u union) string {
	shares = slices.SortedFunc(slices.Values(shares), byAge)
	sources := make([]source, len(shares))
	for i, s := range shares {
		sources[i] = source{
			Cluster: s.Cluster, Service: s.Source.String(), Created: time.Unix(s.created(), 0).UTC(), Ports: []string{},
			Family: s.EndpointsFamily, Annotations: sharing(s.Service.Annotations),
		}
		if len(s.agedReady) <= agedMost {
			sources[i].AgedReady = s.agedReady
		}
		for _, p := range u.ports {
			if slices.Contains(p.feeders, s) {
				sources[i].Ports = append(sources[i].Ports, p.Name)
			}
		}
	}
	text, _ := json.Marshal(sources) // every year in it has four digits
	return string(text)
}

// onlyEndpoints begins an address record beside slices: addresses that no slice
// has are meant for Endpoints alone.
const onlyEndpoints = "only:"

// addressRecord says which cluster each address of the subsets belongs to, as
// far as the slices do not: "idc-a=*;idc-b=10.1.0.7,10.1.0.9", where * stands
// for all addresses not named. Empty when there is nothing to say.
func addressRecord(shares []*share, subsets []syncer.Subset, only bool) string {
	if len(subsets) == 0 {
		return ""
	}
	written := addressesOf(subsets)
	named := map[string][]netip.Addr{}
	for _, s := range shares {
		for i := range s.endpoints {
			if e := &s.endpoints[i]; e.In(syncer.KindEndpoints) && written[e.Addr] {
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

// parseAddresses reads AnnotationAddresses: the cluster of each address named,
// and that of all others.
func parseAddresses(record string) (named map[netip.Addr]string, rest string) {
	named = map[netip.Addr]string{}
	record = strings.TrimPrefix(record, onlyEndpoints)
	for entry := range strings.SplitSeq(record, ";") {
		cluster, list, _ := strings.Cut(entry, "=")
		if !syncer.IsLabel(cluster) {
			continue
		}
		if list == "*" {
			rest = cluster
			continue
		}
		for text := range strings.SplitSeq(list, ",") {
			if addr, err := netip.ParseAddr(text); err == nil {
				named[addr] = cluster
			}
		}
	}
	return named, rest
}

func addressesOf(subsets []syncer.Subset) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for i := range subsets {
		for _, a := range subsets[i].Ready {
			all[a.Addr] = true
		}
		for _, a := range subsets[i].NotReady {
			all[a.Addr] = true
		}
	}
	return all
}
