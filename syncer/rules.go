// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// podKind is the kind of every TargetRef that Compute makes.
const podKind = "Pod"

// Compute returns the contribution of a Service that has a selector: one
// Endpoint for each selected pod and IP family that the Service has. The pods
// are those of the Service's namespace whose labels match its selector, in any
// order; neither labels nor the order are looked at again. A Service without a
// selector or of type ExternalName yields nothing.
//
// Rule sources: syncService in pkg/controller/endpoint and podToEndpoint in
// k8s.io/endpointslice, both 1.36; docs/semantics.md lists the differences. Grades are
// those of judge (grade.go). Trigger is left zero: see Trigger.
func Compute(svc *Service, pods iter.Seq[*Pod], opts Options) Contribution {
	c := Contribution{Service: svc}
	if svc.ExternalName || svc.Selector == nil {
		return c
	}
	var byPod bool
	c.Families, byPod = serviceFamilies(svc)
	r := computation{opts: opts, svc: svc, families: c.Families, byPod: byPod, ports: newPortResolver(svc)}
	for pod := range pods {
		r.add(pod)
	}
	c.Endpoints = r.endpoints()
	c.Next = r.next
	c.Rejected = sortRejections(append(r.ports.rejected, r.rejected...))
	return c
}

// serviceFamilies returns the families of the Service's slices, the one of its
// Endpoints first. byPod is true when nothing says which family Endpoints carry,
// so that each pod's first address decides (kubernetes#138735).
func serviceFamilies(svc *Service) (families []Family, byPod bool) {
	for _, family := range svc.IPFamilies {
		if (family == IPv4 || family == IPv6) && !slices.Contains(families, family) {
			families = append(families, family)
		}
	}
	if len(families) > 0 {
		return families, false
	}
	if svc.ClusterIP == "" || svc.Headless() {
		return []Family{IPv4, IPv6}, true
	}
	if addr, ok := ParseAddr(svc.ClusterIP); ok && addr.Is6() {
		return []Family{IPv6}, false
	}
	return []Family{IPv4}, false
}

// computation is one run of Compute. Pods are gathered as small candidates and
// sorted as such, because an Endpoint is large to move.
type computation struct {
	opts       Options
	svc        *Service
	families   []Family
	byPod      bool
	ports      *portResolver
	candidates []candidate
	rejected   []Rejection
	next       time.Time
}

type candidate struct {
	rank addrRank
	addr netip.Addr
	pod  *Pod
	only Kinds
}

// add gathers a pod's addresses unless the pod is out of every endpoint list.
func (r *computation) add(pod *Pod) {
	if ok, _ := listed(pod, r.opts.Rules); !ok {
		return
	}
	if _, ok := r.ports.resolve(pod); !ok {
		return
	}
	first := r.families[0]
	if r.byPod && pod.IPs[0].Addr.Unmap().Is6() {
		first = IPv6
	}
	var found [2]bool
	for i := range pod.IPs {
		addr := pod.IPs[i].Addr.Unmap()
		if reason := refuse(addr, r.opts.AllowedCIDRs); reason != "" {
			r.reject(pod, cmp.Or(pod.IPs[i].Raw, addr.String()), reason)
			continue
		}
		family := familyOf(addr)
		seen := &found[boolRank(addr.Is6())]
		if *seen || !slices.Contains(r.families, family) {
			continue
		}
		*seen = true
		only := Kinds(0)
		if family != first {
			only = KindEndpointSlices
		}
		r.candidates = append(r.candidates, candidate{rankAddr(addr), addr, pod, only})
	}
}

// endpoints converts the candidates to Endpoints in canonical order.
func (r *computation) endpoints() []Endpoint {
	slices.SortFunc(r.candidates, func(a, b candidate) int {
		if c := compareRanked(a.rank, a.addr, b.rank, b.addr); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.pod.UID, b.pod.UID), strings.Compare(a.pod.Name, b.pod.Name))
	})
	if len(r.candidates) == 0 {
		return nil
	}
	endpoints := make([]Endpoint, len(r.candidates))
	for i := range r.candidates {
		r.fill(&endpoints[i], &r.candidates[i])
	}
	return endpoints
}

func (r *computation) fill(e *Endpoint, c *candidate) {
	pod := c.pod
	ports, _ := r.ports.resolve(pod)
	j := judge(pod, r.svc.PublishNotReadyAddresses, &r.opts)
	if !j.next.IsZero() && (r.next.IsZero() || j.next.Before(r.next)) {
		r.next = j.next
	}
	*e = Endpoint{
		Addr: c.addr, Ports: ports, Only: c.only,
		Grade: j.grade, Ready: j.ready, Serving: j.serving, Terminating: pod.Terminating,
		Target: TargetRef{Kind: podKind, Key: pod.Key, UID: pod.UID},
	}
	if pod.NodeName != "" {
		if isSubdomain(pod.NodeName) {
			e.NodeName, e.Zone = pod.NodeName, pod.Zone()
		} else {
			r.reject(pod, c.addr.String(), RejectNodeName)
		}
	}
	if pod.Hostname != "" && pod.Subdomain == r.svc.Name && pod.Namespace == r.svc.Namespace {
		if IsLabel(pod.Hostname) {
			e.Hostname = pod.Hostname
		} else {
			r.reject(pod, c.addr.String(), RejectHostname)
		}
	}
}

func (r *computation) reject(pod *Pod, address string, reason RejectReason) {
	object := TargetRef{Kind: podKind, Key: pod.Key, UID: pod.UID}
	r.rejected = append(r.rejected, Rejection{Object: object, Address: address, Reason: reason})
}

// sortRejections orders rejections and drops repetitions.
func sortRejections(rejected []Rejection) []Rejection {
	slices.SortFunc(rejected, func(a, b Rejection) int {
		return cmp.Or(strings.Compare(a.Object.Kind, b.Object.Kind), a.Object.Key.Compare(b.Object.Key),
			strings.Compare(a.Object.UID, b.Object.UID), strings.Compare(a.Address, b.Address),
			strings.Compare(string(a.Reason), string(b.Reason)))
	})
	return slices.Compact(rejected)
}
