// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"strings"
)

// Verdict says what became of a pod of a Service.
type Verdict struct {
	// Endpoint is whether it is one, Ready whether it takes traffic.
	Endpoint, Ready bool
	// Why says in words what keeps it from being a ready endpoint; empty for one that is.
	Why string
}

// Explain says what Compute makes of one pod that the Service selects, and why it is no
// ready endpoint. It asks Compute itself, so that the two cannot part.
func Explain(svc *Service, pod *Pod, opts Options) Verdict {
	c := Compute(svc, func(yield func(*Pod) bool) { yield(pod) }, opts)
	if len(c.Endpoints) == 0 {
		return Verdict{Why: absentBecause(svc, pod, &c)}
	}
	e := &c.Endpoints[0]
	v := Verdict{Endpoint: true, Ready: e.Ready}
	switch {
	case e.Ready:
	case e.Terminating && e.Serving:
		v.Why = "is being deleted, and still serves"
	case e.Terminating:
		v.Why = "is being deleted"
	case pod.NodeSilent:
		v.Why = "not ready: its node stopped reporting"
	default:
		v.Why = "not ready: its condition Ready is not True"
	}
	return v
}

// absentBecause says why a pod is no endpoint at all.
func absentBecause(svc *Service, pod *Pod, c *Contribution) string {
	switch {
	case svc.ExternalName:
		return "the Service is of type ExternalName"
	case svc.Selector == nil:
		return "the Service has no selector"
	case pod.Terminal:
		return "has finished"
	case len(pod.IPs) == 0:
		return "has no address yet"
	}
	var refused, ports []string
	for _, r := range c.Rejected {
		switch {
		case r.Reason == RejectPort:
			ports = append(ports, r.Address)
		case r.Address != "":
			refused = append(refused, fmt.Sprintf("%s (%s)", r.Address, r.Reason))
		}
	}
	if len(refused) > 0 {
		return "its address is rejected: " + strings.Join(refused, ", ")
	}
	if _, ok := newPortResolver(svc).resolve(pod); !ok {
		if len(ports) > 0 {
			return "no valid port: rejected are " + strings.Join(ports, ", ")
		}
		return "no such port: none of the Service's target ports is one of its containers'"
	}
	return "has no address of the Service's IP families"
}
