// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import "tributary.dev/tributary/syncer"

// The law UNSEEN: a Service that gets another selector while pods are out of sight empties no
// replica by that. What its former selector gives may stay until pods were listed.

// noteUnseen notes, before a step, Services that get another selector while pods are out of
// sight.
func (s *shell) noteUnseen(e Event) {
	var shown []serviceVersion
	switch e := e.(type) {
	case *Seen[syncer.Service]:
		shown = []serviceVersion{e.Versioned}
	case Listed[syncer.Service]:
		shown = e.Items
	case Answer:
		if v, is := e.Object.(serviceVersion); is {
			shown = []serviceVersion{v}
		}
	}
	for _, v := range shown {
		if x := s.words.services[v.Object.Name]; x != nil && x.is.Selector["app"] != v.Object.Selector["app"] && s.state.outOfSight(namespace) {
			s.unseenOf[v.Object.Name] = true
		}
	}
}

// judgeUnseen holds what is left after a step against the law.
func (s *shell) judgeUnseen(e Event, replica string, before, after contribution) {
	if _, list := e.(Listed[syncer.Pod]); list && !s.state.quarantine.doubted(Pods) {
		s.unseenOf = map[string]bool{}
	}
	seen, is := e.(*Seen[syncer.Service])
	if is && s.wasSynced && s.unseenOf[seen.Object.Name] && seen.Object.Selector != nil && replicaOf(seen.Object.Name) == replica && before.ready() > 0 && after.ready() == 0 {
		s.breach("UNSEEN", "%s is emptied by a selector whose pods are out of sight", replica)
	}
}
