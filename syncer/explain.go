// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"strings"
)

// Verdict says what became of a pod of a Service.
type Verdict struct {
	*Pod
	// Endpoint is whether it is one, Grade how far it is trusted.
	Endpoint bool
	Grade    Grade
	// Rule is the place of the configuration's rule that decided about the pod; -1: none did.
	Rule int
	// Why says what keeps it from being a ready endpoint; empty for one that is.
	Why string
}

// Explain says what Compute makes of one pod that the Service selects, and why it is no
// ready endpoint. It asks Compute itself, so that the two cannot differ.
func Explain(svc *Service, pod *Pod, opts Options) Verdict {
	c := Compute(svc, func(yield func(*Pod) bool) { yield(pod) }, opts)
	then, rule := opts.Rules.Decide(pod)
	v := Verdict{Pod: pod, Rule: rule}
	switch {
	case len(c.Endpoints) > 0:
		v.Endpoint, v.Grade = true, c.Endpoints[0].Grade
		v.Why = string(judge(pod, svc.PublishNotReadyAddresses, &opts).doubt)
		if pod.Terminating && c.Endpoints[0].Serving {
			v.Why += ", and still serves"
		}
	case then == ThenAbsent && !pod.Terminal:
		v.Why = "a rule says that it is absent"
	default:
		v.Why = absentBecause(svc, pod, &c)
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
