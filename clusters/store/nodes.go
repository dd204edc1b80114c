// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"

	"tributary.dev/tributary/syncer"
)

// SetNode takes in the zone of a node, "" when it has none, and returns the replicas with
// pods there if the zone is another one than before. It costs a walk over all pods if it is,
// and nothing otherwise.
func (s *Store) SetNode(n Node) []Dirty {
	was, known := s.zones[n.Name]
	if known && was == n.Zone {
		return nil
	}
	zones := maps.Clone(s.zones)
	if zones == nil {
		zones = map[string]string{}
	}
	zones[n.Name] = n.Zone
	s.zones = zones
	return s.rezoned(map[string]bool{n.Name: was != n.Zone}, true)
}

// GuessZones takes in zones of nodes that hold until the nodes themselves are shown.
func (s *Store) GuessZones(zones map[string]string) {
	maps.Copy(zones, s.zones)
	s.zones = zones
}

// ReplaceNodes takes in a complete list of nodes. The zone of one that it lacks stays
// for as long as pods are said to run there, or may, as they are not listed yet: an empty
// list, or a node that went before its pods, is no reason to write their slices anew.
//
// What rules over zones make of that is left to an edit: rules is true where they must decide
// anew. A list may tell of all nodes at once, and that late, which is no change of theirs.
func (s *Store) ReplaceNodes(nodes []Versioned[Node], podsListed bool) (dirty []Dirty, rules bool) {
	zones := make(map[string]string, len(nodes))
	listed := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		listed[n.Object.Name] = true
		zones[n.Object.Name] = n.Object.Zone
	}
	for name, zone := range s.zones {
		if !listed[name] && (!podsListed || s.nodes[name] != nil) {
			zones[name] = zone
		}
	}
	changed := map[string]bool{}
	for name, zone := range zones {
		if was, known := s.zones[name]; !known || was != zone {
			changed[name] = was != zone
		}
	}
	s.zones = zones
	dirty = s.rezoned(changed, false)
	return dirty, len(changed) > 0 && s.rulesReadNodes()
}

// rulesReadNodes reports whether the rules in force read the zones of nodes.
func (s *Store) rulesReadNodes() bool { return s.rules.decider != nil && s.rules.decider.ReadsNode() }

// rezoned returns the replicas with pods on nodes of which the zone has become known or, true,
// is another one. decide has rules decide anew about these pods.
func (s *Store) rezoned(changed map[string]bool, decide bool) []Dirty {
	ruled := s.rulesReadNodes()
	maps.DeleteFunc(changed, func(name string, another bool) bool { return s.nodes[name] == nil || !another && !ruled })
	if len(changed) == 0 {
		return nil
	}
	var d dirtyList
	for _, ns := range s.namespaces {
		for _, rec := range ns.pods {
			another, is := changed[rec.NodeName]
			if !is {
				continue
			}
			for _, svc := range rec.group.services {
				if another {
					d.add(svc, syncer.Addition)
				}
				if by := svc.rules.decider; decide && by != nil && by.ReadsNode() {
					s.rerule(svc, rec, &d)
				}
			}
		}
	}
	return d.sorted()
}
