// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// attempt is a write of a process on its way.
type attempt struct {
	process *Process
	action  plan.Action
	id      ID
	lawful  bool // when it was sent
}

// send reports whether the request may be sent now.
func (a *attempt) send() bool {
	p := a.process
	if !p.leads() {
		return false
	}
	a.lawful = p.world.mayWrite(p)
	return true
}

// write takes effect at the server, under the eyes of the laws.
func (a *attempt) write(s *Server) (after any, err error) {
	var o Object
	before := s.objects[a.id]
	if a.action.Verb == plan.Delete {
		o, err = s.Delete(a.id, Preconditions{UID: a.action.UID, ResourceVersion: a.action.ResourceVersion})
	} else {
		o = write.Render(&a.action, instance).(Object)
		if a.process.world.edits {
			edit(o)
		}
		if a.action.Verb == plan.Create {
			o, err = s.Create(o)
		} else {
			o, err = s.Update(o)
		}
	}
	if err != nil {
		return nil, err
	}
	a.process.world.laws.judge(a, before, s.objects[a.id])
	return o, nil
}

// edit is what a webhook adds to what is written.
func edit(o Object) {
	labels := o.GetLabels()
	labels["webhook"] = "was-here"
	o.SetLabels(labels)
}
