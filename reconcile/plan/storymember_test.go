// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tributary.dev/tributary/syncer"
)

// member reads: member NAME created=N PORT… | ADDRESS… | FLAG….
func (s *replicaStory) member(name, line string) error {
	parts := append(strings.Split(line, "|"), "", "")
	words := strings.Fields(parts[0])[2:]
	cluster, _, _ := strings.Cut(name, "/")
	svc := &syncer.Service{Key: shopWeb, UID: name, Created: 100, Selector: map[string]string{"app": "web"},
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}, ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4}}
	c := Contribution{Cluster: cluster, Source: shopWeb}
	for _, word := range words {
		if text, found := strings.CutPrefix(word, "created="); found {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			svc.Created = n
			continue
		}
		text, app, _ := strings.Cut(word, "@")
		p := port(text)
		if app != "" {
			p.AppProtocol = &app
		}
		svc.Ports = append(svc.Ports, p)
	}
	if len(svc.Ports) == 0 {
		svc.ClusterIP = syncer.ClusterIPNone
	}
	uids, written := name, false
	for _, flag := range strings.Fields(parts[2]) {
		key, value, _ := strings.Cut(flag, "=")
		switch key {
		case "uids": // the pods are those that another name has had
			uids = value
		case "written":
			svc.Selector, written = nil, true
		case "headless":
			svc.ClusterIP = syncer.ClusterIPNone
		case "publishes":
			svc.PublishNotReadyAddresses = true
		case "external":
			svc.ExternalName = true
		case "families":
			svc.IPFamilies = nil
			for text := range strings.SplitSeq(value, ",") {
				svc.IPFamilies = append(svc.IPFamilies, syncer.Family(text))
			}
		case "source":
			svc.Key, _ = syncer.ParseKey(value)
			c.Source = svc.Key
		case "label":
			svc.Labels = map[string]string{"app": "web", "team": value}
		case "annotation":
			key, value, _ := strings.Cut(value, ":")
			svc.Annotations[key] = value
		default:
			if err := steered(&c, key, value); err != nil {
				return err
			}
		}
	}
	pods, err := podsOf(uids, strings.Fields(parts[1]))
	if err != nil {
		return err
	}
	if c.Contribution = syncer.Compute(svc, slices.Values(pods), syncer.Options{}); written {
		c.Contribution = syncer.HandWritten(svc, byHand(svc, pods), nil, false, syncer.Options{})
	}
	s.members[name], s.configured[cluster] = c, true
	delete(s.away, cluster)
	return nil
}

// steered sets what the configuration, or the evidence, says of a member.
func steered(c *Contribution, key, value string) (err error) {
	switch key {
	case "drain":
		c.Drain = true
	case "force":
		c.Drain, c.DrainForce = true, true
	case "stale":
		c.Stale = true
	case "panic":
		c.Panicking = true
	case "away":
		c.Away = true
	case "failover":
		c.Failover, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("unknown word %q", key)
	}
	return err
}

// podsOf reads addresses: "10.0.0.1", "10.0.0.1!", "10.0.0.1~", "10.0.0.1+fd00::1" of a pod
// that has two, and "10.0.0.1-10.0.0.9" of nine pods.
func podsOf(uids string, words []string) (out []*syncer.Pod, err error) {
	for _, word := range words {
		text := strings.TrimRight(word, "!~")
		marks := word[len(text):]
		first, last, many := strings.Cut(text, "-")
		if !many {
			last = first
		}
		first, second, _ := strings.Cut(first, "+")
		addr, err := netip.ParseAddr(first)
		if err != nil {
			return nil, err
		}
		end := addr
		if many {
			if end, err = netip.ParseAddr(last); err != nil {
				return nil, err
			}
		}
		for ; addr.Compare(end) <= 0; addr = addr.Next() {
			pod := &syncer.Pod{Key: syncer.Key{Namespace: "shop", Name: "web-" + strings.NewReplacer(":", "-").Replace(addr.String())}, UID: uids + "-" + addr.String(),
				Ready: !strings.Contains(marks, "!"), NodeName: "node", IPs: []syncer.PodIP{{Addr: addr}},
				Ports: []syncer.ContainerPort{{Name: "web", Protocol: syncer.TCP, Port: 8080}}}
			if strings.Contains(marks, "~") {
				pod.Deleted = 1
			}
			if second != "" {
				pod.IPs = append(pod.IPs, syncer.PodIP{Addr: netip.MustParseAddr(second)})
			}
			out = append(out, pod)
		}
	}
	return out, nil
}

// byHand are the Endpoints that somebody wrote: a subset for each address, in the order in
// which they are named.
func byHand(svc *syncer.Service, pods []*syncer.Pod) (out []syncer.Subset) {
	for _, pod := range pods {
		var s syncer.Subset
		for _, p := range svc.Ports {
			s.Ports = append(s.Ports, syncer.Port{Name: p.Name, Protocol: p.Protocol, Number: p.Target.Number})
		}
		a := []syncer.Address{{Addr: pod.IPs[0].Addr}}
		if pod.Ready {
			s.Ready = a
		} else {
			s.NotReady = a
		}
		out = append(out, s)
	}
	return out
}

// contributions are what the members give, those that are away or left as they stand. What
// is not configured decides nothing, unless it is on record, and nobody has its pods now.
func (s *replicaStory) contributions(current *Current) (all []Contribution) {
	uids := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		c := s.members[name]
		if s.away[c.Cluster] || !s.configured[c.Cluster] {
			continue
		}
		all = append(all, c)
		for _, e := range c.Endpoints {
			uids[e.Target.UID] = true
		}
	}
	delete(uids, "")
	for _, name := range current.Clusters() {
		share := WithoutGone(current.Share(name), parsed(s.lost))
		stands := func(is func(syncer.Endpoint) bool) bool {
			return slices.ContainsFunc(share, func(c Contribution) bool { return slices.ContainsFunc(c.Endpoints, is) })
		}
		gone := !stands(func(syncer.Endpoint) bool { return true }) || s.remove && len(s.away) == 0
		switch {
		case s.away[name]:
		case s.configured[name] || gone || !current.Vouched(name) || stands(func(e syncer.Endpoint) bool { return uids[e.Target.UID] }):
			continue
		}
		for _, c := range share {
			c.Expected, c.Orphan = s.away[name], !s.away[name]
			c.Drain = c.Orphan && s.remove
			all = append(all, c)
		}
	}
	return all
}

func parsed(texts []string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// restart begins anew with what can be read of what stands.
func (s *replicaStory) restart() {
	s.former = nil
	for name, is := range s.configured {
		if is {
			s.away[name] = true
		}
	}
	if v := s.current.Service; v != nil {
		v.reread(KindService, s.world)
		v.Record = ReadRecord(v.Annotations)
	}
	if e := s.current.Endpoints; e != nil {
		e.reread(KindEndpoints, s.world)
		e.Owners = ReadOwners(e.Annotations)
	}
	for i := range s.current.Slices {
		s.current.Slices[i].reread(KindEndpointSlice, s.world)
	}
	s.current.Own()
}

// reread reads what labels and annotations say, if they are known.
func (m *Meta) reread(kind Kind, w *world) {
	if m.Labels != nil {
		m.Claim, m.Mutations = ClaimOf(kind, w.current.Key, m.Labels, m.Annotations, w.instance), ReadMutations(m.Annotations)
	}
}

// read is what stands, as it is read when it enters the cache.
func (s *replicaStory) read() Current {
	out := NewCurrent(s.current.Key, s.current.Service, s.current.Endpoints, s.current.Slices)
	out.Namespace, out.Occupied = s.current.Namespace, s.current.Occupied
	return *out
}
