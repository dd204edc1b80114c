// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// shownDifferences is how many Services a failed test describes.
const shownDifferences = 3

// report describes the first Services that differ: the difference, both sides, the
// Service and its pods.
func (w *world) report(s *state) string {
	var b strings.Builder
	w.lagging(&b)
	different := s.differences()
	for i, k := range different {
		if i == shownDifferences {
			fmt.Fprintf(&b, "\nand %d more: %v\n", len(different)-i, different[i:])
			break
		}
		parts := s.unequal(k)
		fmt.Fprintf(&b, "\n=== %s: %s\n", k, strings.Join(parts, ", "))
		ours, theirs := s.ours[k], s.theirs[k]
		for _, part := range parts {
			if ours != nil && theirs != nil {
				fmt.Fprintf(&b, "%s, ours (-) and the member's (+):\n%s", part, lineDiff(ours.parts()[part], theirs.parts()[part]))
			}
		}
		describe(&b, s.member, k)
		w.tell(&b, s.member, k)
	}
	return b.String()
}

// tell lists the edits of a Service and of the pods that it currently selects.
func (w *world) tell(b *strings.Builder, member *objects, k key) {
	names := map[key]bool{k: true}
	if s := member.services[k]; s != nil && s.Spec.Selector != nil {
		for _, p := range member.pods {
			if p.Namespace == k.namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) {
				names[key{p.Namespace, p.Name}] = true
			}
		}
	}
	for _, e := range w.history {
		if names[e.subject] {
			fmt.Fprintf(b, "edit %d of %d, %s: %s\n", e.number, w.total, e.name, e.subject)
		}
	}
}

var laggingFamilies = map[string]bool{"tributary_missing": true, "tributary_conflicts": true, "tributary_sync_lag_seconds": true}

// lagging lists metrics that would explain why something is not written yet.
func (w *world) lagging(b *strings.Builder) {
	metrics, err := w.proc.Get(w.Context(), "/metrics")
	if err != nil {
		fmt.Fprintf(b, "metrics: %v\n", err)
	}
	for line := range strings.Lines(string(metrics)) {
		family, _, _ := strings.Cut(line, "{")
		if laggingFamilies[family] && !strings.HasSuffix(line, "} 0\n") {
			b.WriteString(line)
		}
	}
}

// lineDiff lists what only one side has, or both lists if only their order
// differs.
func lineDiff(ours, theirs []string) string {
	var b strings.Builder
	rest := slices.Clone(theirs)
	var missing []string
	for _, line := range ours {
		if i := slices.Index(rest, line); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			missing = append(missing, line)
		}
	}
	if len(missing)+len(rest) == 0 {
		b.WriteString("  (same lines, other order)\n")
		missing, rest = ours, theirs
	}
	for _, line := range missing {
		fmt.Fprintf(&b, "  - %s\n", line)
	}
	for _, line := range rest {
		fmt.Fprintf(&b, "  + %s\n", line)
	}
	return b.String()
}

func describe(b *strings.Builder, member *objects, k key) {
	s := member.services[k]
	if s == nil {
		b.WriteString("the member has no such Service\n")
		return
	}
	s = s.DeepCopy()
	s.ManagedFields = nil
	text, _ := yaml.Marshal(s)
	fmt.Fprintf(b, "the member's Service:\n%s", text)
	if e := member.endpoints[k]; e != nil {
		fmt.Fprintf(b, "the member's Endpoints: labels %v, annotations %v\n", e.Labels, e.Annotations)
	}
	for _, slice := range member.slices[k] {
		fmt.Fprintf(b, "the member's slice %s: %s, %d endpoints, labels %v, owners %v\n", slice.Name, slicePorts(slice), len(slice.Endpoints), slice.Labels, slice.OwnerReferences)
	}
	if s.Spec.Selector == nil {
		return
	}
	for _, p := range member.pods {
		if p.Namespace == k.namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) {
			describePod(b, p)
		}
	}
}

func describePod(b *strings.Builder, p *corev1.Pod) {
	ready := "missing"
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			ready = string(c.Status)
		}
	}
	var ports []string
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range list {
			for _, port := range c.Ports {
				ports = append(ports, fmt.Sprintf("%s/%s:%d/%s", c.Name, port.Name, port.ContainerPort, port.Protocol))
			}
		}
	}
	fmt.Fprintf(b, "pod %s#%s %v: phase %s, Ready %s, deleted %v, node %s, %v, host %q in %q, ports %v\n", p.Name, p.UID, p.Labels,
		p.Status.Phase, ready, p.DeletionTimestamp, p.Spec.NodeName, p.Status.PodIPs, p.Spec.Hostname, p.Spec.Subdomain, ports)
}
