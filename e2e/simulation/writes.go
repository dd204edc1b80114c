// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// attempt is a write of a process on its way.
type attempt struct {
	process *Process
	action  plan.Action
	id      ID
	sent    time.Duration
	lawful  bool // when it was sent
	knew    map[string]known
	bound   bool // it has a precondition
}

// known is up to which revisions a process was shown a member when it compared a replica, and
// whether it followed its pods then.
type known struct {
	pods, services uint64
	follows        bool
}

// send reports whether the request may be sent now.
func (a *attempt) send() bool {
	p := a.process
	if !p.leads() {
		return false
	}
	a.sent, a.lawful = p.now, p.world.mayWrite(p)
	return true
}

// write takes effect at the server, under the eyes of the laws.
func (a *attempt) write(s *Server) (after any, err error) {
	var o Object
	before := s.objects[a.id]
	if a.action.Verb == plan.Delete {
		options := write.Deletion(&a.action)
		a.bound = options.Preconditions != nil && options.Preconditions.UID != nil && options.Preconditions.ResourceVersion != nil
		o, err = s.Delete(a.id, options.Preconditions)
	} else {
		o = write.Render(&a.action, instance).(Object)
		a.bound = a.action.Verb == plan.Create || o.GetResourceVersion() != "" && o.GetUID() != ""
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
