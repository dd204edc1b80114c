// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	pod := func(change func(*Pod)) *Pod {
		p := &Pod{
			Key: Key{"shop", "web-1"}, UID: "u", Ready: true, IPs: []PodIP{{Addr: netip.MustParseAddr("10.0.0.1")}},
			Ports: []ContainerPort{{Name: "http", Port: 8080, Protocol: "TCP"}},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	named := []ServicePort{{Name: "http", Port: 80, Protocol: "TCP", Target: TargetPort{Name: "http"}}}
	for name, test := range map[string]struct {
		svc  func(*Service)
		pod  func(*Pod)
		opts Options
		want Verdict // Why: a part of it; Rule: its place from 1 on
	}{
		"a ready pod":              {nil, nil, Options{}, Verdict{Endpoint: true, Grade: Ready}},
		"not ready":                {nil, func(p *Pod) { p.Ready = false }, Options{}, Verdict{Endpoint: true, Why: "condition Ready is not True"}},
		"not ready, and published": {func(s *Service) { s.PublishNotReadyAddresses = true }, func(p *Pod) { p.Ready = false }, Options{}, Verdict{Endpoint: true, Grade: Ready}},
		"matched by a rule":        {nil, matching(1), Options{Rules: Rules{1, []Then{ThenNotReady}}}, Verdict{Endpoint: true, Grade: Reserve, Rule: 1, Why: "a rule says"}},
		"absent by a rule":         {nil, matching(1), Options{Rules: Rules{1, []Then{ThenAbsent}}}, Verdict{Rule: 1, Why: "absent"}},
		"ready by a rule":          {nil, func(p *Pod) { p.Ready, p.Matches = false, 2 }, Options{Rules: Rules{3, []Then{ThenAbsent, ThenReady}}}, Verdict{Endpoint: true, Grade: Ready, Rule: 2}},
		"back a moment ago":        {nil, func(p *Pod) { p.WasReady, p.ReadySince = true, 100 }, Options{StableFor: time.Minute, Now: time.Unix(159, 0)}, Verdict{Endpoint: true, Grade: Reserve, Why: "stableFor"}},
		"back a while ago":         {nil, func(p *Pod) { p.WasReady, p.ReadySince = true, 100 }, Options{StableFor: time.Minute, Now: time.Unix(160, 0)}, Verdict{Endpoint: true, Grade: Ready}},
		"a silent node, held":      {nil, func(p *Pod) { p.Ready, p.NodeSilent, p.ReadySince = false, true, 100 }, Options{HoldSilentNodes: time.Minute, Now: time.Unix(159, 0)}, Verdict{Endpoint: true, Grade: Ready}},
		"a silent node":            {nil, func(p *Pod) { p.Ready, p.NodeSilent = false, true }, Options{}, Verdict{Endpoint: true, Grade: Reserve, Why: "node stopped reporting"}},
		"terminating":              {nil, func(p *Pod) { p.Terminating = true }, Options{}, Verdict{Endpoint: true, Why: "still serves"}},
		"terminating, not ready":   {nil, func(p *Pod) { p.Terminating, p.Ready = true, false }, Options{}, Verdict{Endpoint: true, Why: "is being deleted"}},
		"finished":                 {nil, func(p *Pod) { p.Terminal = true }, Options{}, Verdict{Why: "has finished"}},
		"no address":               {nil, func(p *Pod) { p.IPs = nil }, Options{}, Verdict{Why: "no address yet"}},
		"no such port":             {func(s *Service) { s.Ports = named }, func(p *Pod) { p.Ports = nil }, Options{}, Verdict{Why: "no such port"}},
		"outside the ranges":       {nil, nil, Options{AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}, Verdict{Why: "10.0.0.1 (not_allowed)"}},
		"another family":           {func(s *Service) { s.IPFamilies = []Family{IPv6} }, nil, Options{}, Verdict{Why: "IP families"}},
		"no selector":              {func(s *Service) { s.Selector = nil }, nil, Options{}, Verdict{Why: "no selector"}},
		"ExternalName":             {func(s *Service) { s.ExternalName = true }, nil, Options{}, Verdict{Why: "ExternalName"}},
	} {
		svc := &Service{Key: Key{"shop", "web"}, Selector: map[string]string{"app": "web"}, ClusterIP: "None",
			Ports: []ServicePort{{Name: "http", Port: 80, Protocol: "TCP", Target: TargetPort{Number: 8080}}}}
		if test.svc != nil {
			test.svc(svc)
		}
		got := Explain(svc, pod(test.pod), test.opts)
		if got.Endpoint != test.want.Endpoint || got.Grade != test.want.Grade || got.Rule != test.want.Rule-1 || !strings.Contains(got.Why, test.want.Why) || (got.Why == "") != (test.want.Why == "") {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}
