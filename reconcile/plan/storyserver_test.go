// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tributary.dev/tributary/syncer"
)

// refuse has the server say no: refuse [CODE] WHAT …, more of that after "and". A CODE is that
// of HTTP, "timeout" (no answer, and nothing was done) or "lost" (done, and no answer). WHAT is
// address, endpoints or slices with addresses, a verb or "write" with a kind and perhaps a
// cluster, more with a number of addresses, any with a cluster, or everything.
func (s *replicaStory) refuse(words []string) error {
	var all []func(*Action) answer
	for len(words) > 0 {
		end := slices.Index(words, "and")
		if end < 0 {
			end = len(words)
		}
		one, err := refusal(words[:end])
		if err != nil {
			return err
		}
		all, words = append(all, one), words[min(end+1, len(words)):]
	}
	s.answer = func(a *Action) answer {
		for _, one := range all {
			if r := one(a); !r.taken() {
				return r
			}
		}
		return answer{}
	}
	return nil
}

func refusal(words []string) (func(*Action) answer, error) {
	no := answer{code: 403}
	switch n, err := strconv.Atoi(words[0]); {
	case err == nil:
		no.code, words = n, words[1:]
	case words[0] == "timeout":
		no.code, words = unanswered, words[1:]
	case words[0] == "lost":
		no.code, no.done, words = unanswered, true, words[1:]
	}
	what, rest := words[0], words[1:]
	var hits func(*Action) bool
	switch what {
	case "nothing":
		return func(*Action) answer { return answer{} }, nil
	case "address":
		hits = refuseAddresses(rest...)
	case "endpoints":
		hits = func(a *Action) bool { return a.Kind == KindEndpoints && refuseAddresses(rest...)(a) }
	case "slices":
		hits = func(a *Action) bool { return a.Kind == KindEndpointSlice && refuseAddresses(rest...)(a) }
	case "create", "update", "delete", "write":
		hits = func(a *Action) bool {
			verb := string(a.Verb) == what || what == "write" && a.Verb != Delete
			return verb && strings.EqualFold(string(a.Kind), rest[0]) && (len(rest) < 2 || a.Slice != nil && a.Slice.Cluster == rest[1])
		}
	case "more":
		n, err := strconv.Atoi(rest[0])
		if err != nil {
			return nil, err
		}
		hits = func(a *Action) bool { return len(a.states()) > n }
	case "any":
		hits = func(a *Action) bool { return a.Slice != nil && a.Slice.Cluster == rest[0] }
	case "everything":
		hits = func(*Action) bool { return true }
	default:
		return nil, fmt.Errorf("unknown refusal %q", words)
	}
	return func(a *Action) answer {
		if !hits(a) {
			return answer{}
		}
		r := no
		if no.code == 422 && (what == "address" || what == "endpoints" || what == "slices") {
			r.causes = a.causes(parsed(rest))
		}
		return r
	}, nil
}

// causes name the fields of addresses as an API server does.
func (a *Action) causes(bad []netip.Addr) (out []Cause) {
	if a.Slice != nil {
		for i, e := range a.Slice.Endpoints {
			if slices.Contains(bad, e.Addr) {
				out = append(out, Cause{Field: fmt.Sprintf("endpoints[%d].addresses[0]", i), Message: "Invalid value"})
			}
		}
		return out
	}
	for i, s := range a.Endpoints.Subsets {
		for field, list := range map[string][]syncer.Address{"addresses": s.Ready, "notReadyAddresses": s.NotReady} {
			for j, addr := range list {
				if slices.Contains(bad, addr.Addr) {
					out = append(out, Cause{Field: fmt.Sprintf("subsets[%d].%s[%d].ip", i, field, j), Message: "Invalid value"})
				}
			}
		}
	}
	return out
}

// search carries a plan out as far as the server takes it, and says what was left out. It
// returns the objects of which the last write was not taken.
func (s *replicaStory) search(contributions []Contribution, say func(string, ...any)) map[Object]bool {
	p := &policy{answers: s.answer, settings: s.settings}
	search := p.pass(s.t, s.world, contributions, nil, s.former)
	s.former = search.LeftOut()
	if p.failed > 0 {
		say("%d refused, %d failed, %d written", p.refused, p.failed, p.written)
	} else {
		say("%d refused, %d written", p.refused, p.written)
	}
	for _, r := range s.former {
		say("left out: %s", r.String())
	}
	if rest := planOf(s.read(), contributions, s.former, s.settings); p.refused+p.failed == 0 && !rest.Empty() {
		s.t.Errorf("not settled: %s", textOf(s.t, rest))
	}
	return p.last
}

// webhook has a webhook of the ingress cluster edit what is written: webhook KIND FIELD=VALUE,
// or webhook off.
func (s *replicaStory) webhook(words []string) error {
	if words[0] == "off" {
		s.answered = func(a *Action) { s.note(a) }
		return nil
	}
	field, value, _ := strings.Cut(words[1], "=")
	former := s.answered
	s.answered = func(a *Action) {
		if former != nil {
			former(a)
		}
		if strings.EqualFold(string(a.Kind), words[0]) && a.Verb != Delete {
			s.mutate(a, field, value)
		}
		s.note(a)
	}
	return nil
}

// mutate edits what an action has written.
func (s *replicaStory) mutate(a *Action, field, value string) {
	name, set, _ := strings.Cut(value, ":")
	put := func(in *map[string]string) {
		if set == "" {
			*in = without(*in, name)
		} else {
			*in = with(*in, name, set)
		}
	}
	meta, slice := s.metaOf(a), s.sliceOf(a)
	switch field {
	case "label":
		put(&meta.Labels)
	case "annotation":
		put(&meta.Annotations)
		s.current.Service.Record = ReadRecord(s.current.Service.Annotations)
	case "stray":
		s.current.Service.Stray = []string{value}
	case "appProtocol":
		if slice == nil {
			s.current.Service.Ports = slices.Clone(s.current.Service.Ports)
			s.current.Service.Ports[0].AppProtocol = &value
			return
		}
		slice.Ports = slices.Clone(slice.Ports)
		slice.Ports[0].AppProtocol = syncer.AppProtocol{Set: true, Value: value}
	case "owner":
		slice.OwnerUID = value
	case "hints":
		slice.Hinted = true
	case "zone", "node", "hostname":
		slice.Endpoints = slices.Clone(slice.Endpoints)
		for i := range slice.Endpoints {
			*map[string]*string{"zone": &slice.Endpoints[i].Zone, "node": &slice.Endpoints[i].NodeName, "hostname": &slice.Endpoints[i].Hostname}[field] = value
		}
	}
}

func (s *replicaStory) sliceOf(a *Action) *CurrentSlice {
	at := slices.IndexFunc(s.current.Slices, func(c CurrentSlice) bool { return a.Kind == KindEndpointSlice && c.Meta.Name == a.Name })
	if at < 0 {
		return nil
	}
	return &s.current.Slices[at]
}

func (s *replicaStory) metaOf(a *Action) *Meta {
	switch {
	case a.Kind == KindService:
		return &s.current.Service.Meta
	case a.Kind == KindEndpoints:
		return &s.current.Endpoints.Meta
	}
	return &s.sliceOf(a).Meta
}

// note has the answer to a write tell what the server made of it.
func (s *replicaStory) note(a *Action) {
	if a.Verb == Delete || a.Kind == KindNamespace {
		return
	}
	m := s.metaOf(a)
	m.Claim, m.Mutations = ClaimOf(a.Kind, s.current.Key, m.Labels, m.Annotations, s.instance), ReadMutations(m.Annotations)
	owner := ""
	if s.current.Service != nil {
		owner = s.current.Service.UID
	}
	switch a.Kind {
	case KindService:
		a.Answered(s.current.Service, nil, nil, owner)
	case KindEndpoints:
		a.Answered(nil, s.current.Endpoints, nil, owner)
	default:
		a.Answered(nil, nil, s.sliceOf(a), owner)
	}
	s.current.Own()
}
