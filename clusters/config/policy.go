// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Annotations by which a source Service says how its replica is shared.
const (
	// AnnotationMode is a Mode.
	AnnotationMode = "tributary.dev/mode"
	// AnnotationFailover is an order of members, separated by commas. Without
	// AnnotationMode it means mode failover, too.
	AnnotationFailover = "tributary.dev/failover"
	// maxOrder bounds the text of AnnotationFailover; a longer one counts as none,
	// because the replica carries a copy of it.
	maxOrder = 4096
)

// Policy is what the configuration says about how Services share replicas. It is
// immutable and safe for concurrent use.
//
// For one Service the first of these decides that says anything: its annotations,
// its member's mode, the first rule that matches the replica's namespace, and what
// is said for all. Where the Services of one replica are not of one opinion about
// union and failover, the merge follows that of the oldest.
type Policy struct {
	replicas Replicas
	clusters []policyCluster // in the order of the file
}

// policyCluster is the part of a member's fields that the policy needs.
type policyCluster struct {
	name         string
	mode         Mode
	drain, force bool
}

// Policy compiles the policy of a configuration.
func (c *Config) Policy() *Policy {
	r := c.Replicas
	p := &Policy{replicas: Replicas{Mode: r.Mode, SeparateName: r.SeparateName, Failover: r.Failover, Rules: r.Rules}}
	for _, member := range c.Clusters {
		p.clusters = append(p.clusters, policyCluster{member.Name, member.Mode, member.Drain, member.Force})
	}
	return p
}

// differs reports whether two policies say different things about the members that
// are in both.
func (p *Policy) differs(q *Policy) bool {
	both := func(in, other *Policy) []policyCluster {
		return slices.DeleteFunc(slices.Clone(in.clusters), func(c policyCluster) bool { return other.cluster(c.name).name == "" })
	}
	return !reflect.DeepEqual(p.replicas, q.replicas) || !slices.Equal(both(p, q), both(q, p))
}

func (p *Policy) cluster(name string) policyCluster {
	if i := slices.IndexFunc(p.clusters, func(c policyCluster) bool { return c.name == name }); i >= 0 {
		return p.clusters[i]
	}
	return policyCluster{}
}

// opinion is how a Service wants its replica to be shared.
type opinion struct {
	mode     Mode
	template string   // of a separate replica's name
	order    []string // as given, for failover
}

func (p *Policy) opinion(namespace, cluster string, svc *syncer.Service) opinion {
	o := opinion{mode: p.replicas.Mode, template: p.replicas.SeparateName, order: p.replicas.Failover}
	for i := range p.replicas.Rules {
		if r := &p.replicas.Rules[i]; matchesAny(r.Namespaces, namespace) {
			o.apply(r.Mode, r.SeparateName, r.Failover)
			break
		}
	}
	o.apply(p.cluster(cluster).mode, "", nil)
	order, mode := annotatedOrder(svc), Mode("")
	if len(order) > 0 {
		mode = ModeFailover
	}
	o.apply(mode, "", order)
	if mode = Mode(svc.Annotations[AnnotationMode]); slices.Contains(modes, mode) {
		o.mode = mode
	}
	return o
}

// apply takes over what is said.
func (o *opinion) apply(mode Mode, template string, order []string) {
	if mode != "" {
		o.mode = mode
	}
	if template != "" {
		o.template = template
	}
	if len(order) > 0 {
		o.order = order
	}
}

var modes = []Mode{ModeUnion, ModeSeparate, ModeFailover}

func annotatedOrder(svc *syncer.Service) []string {
	text := svc.Annotations[AnnotationFailover]
	if len(text) > maxOrder {
		return nil
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// Order lists the members that serve a replica one at a time, the first choice
// first; nil if all serve together. source is the oldest of the replica's Services.
// Every configured member is in it; a name of the wanted order that is none is not.
func (p *Policy) Order(replica syncer.Key, cluster string, source *syncer.Service) []string {
	o := p.opinion(replica.Namespace, cluster, source)
	if o.mode != ModeFailover {
		return nil
	}
	order := make([]string, 0, len(p.clusters))
	for _, name := range o.order {
		if p.cluster(name).name != "" && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, c := range p.clusters {
		if !slices.Contains(order, c.name) {
			order = append(order, c.name)
		}
	}
	return order
}

// Drain says whether a member's endpoints are to be taken out, and with force also
// the last ready ones of a replica.
func (p *Policy) Drain(cluster string) (drain, force bool) {
	c := p.cluster(cluster)
	return c.drain, c.force
}

// Misread says which annotation of a Service is not understood, and why: whoever
// wrote it believes that it counts. Empty if all are.
func (p *Policy) Misread(source *syncer.Service) string {
	if text, given := source.Annotations[AnnotationMode]; given && !slices.Contains(modes, Mode(text)) {
		return fmt.Sprintf("annotation %s is %.40q and is ignored; use one of %s", AnnotationMode, text, listed(modes))
	}
	if len(source.Annotations[AnnotationFailover]) > maxOrder {
		return fmt.Sprintf("annotation %s is longer than %d characters and is ignored", AnnotationFailover, maxOrder)
	}
	for _, name := range annotatedOrder(source) {
		if p.cluster(name).name == "" {
			return fmt.Sprintf("annotation %s names %.63q, which is no configured cluster; it is passed over", AnnotationFailover, name)
		}
	}
	return misreadDamping(source)
}
