// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Condition is how a member stands. Whatever it is, what the member contributed last
// stays until better is known.
type Condition string

// The conditions of a member.
const (
	// Connecting: nothing has been heard of it yet.
	Connecting Condition = "connecting"
	// Syncing: it answers, and has not been read whole yet.
	Syncing Condition = "syncing"
	// Live: it has been read whole and is followed.
	Live Condition = "live"
	// Silent: it does not answer, or what it answers cannot be used.
	Silent Condition = "silent"
	// Forbidden: it refuses to be read (401, 403).
	Forbidden Condition = "forbidden"
	// Suspect: another cluster answers in its place, it went back in time, or its
	// lists lack what is there.
	Suspect Condition = "suspect"
	// Ended: the member has ended.
	Ended Condition = "stopped"
)

// Up reports whether the member answers and lets itself be read.
func (c Condition) Up() bool { return c == Syncing || c == Live }

// Reason says more than a condition, in one word that users can look up.
type Reason string

// The reasons. A live member has one only when something is wrong beside it.
const (
	ReasonNone           Reason = ""
	ReasonUnreachable    Reason = "Unreachable"
	ReasonUnusable       Reason = "Unusable"
	ReasonTooManyObjects Reason = "TooManyObjects"
	ReasonListTooLarge   Reason = "ListTooLarge"
	ReasonForbidden      Reason = "Forbidden"
	// ReasonIdentityMismatch: another cluster answers at the member's address. With
	// Live that is the address of a changed kubeconfig, and the former goes on being
	// used.
	ReasonIdentityMismatch  Reason = "IdentityMismatch"
	ReasonRevisionRegressed Reason = "RevisionRegressed"
	// ReasonListIncomplete: objects that were asked for are there, though the
	// member's lists lack them.
	ReasonListIncomplete Reason = "ListIncomplete"
	// ReasonMassNotReady: too many pods turned not ready at once, and are kept ready.
	ReasonMassNotReady Reason = "MassNotReady"
	// ReasonNamespaceRefused: some of the namespaces that are read each by itself may not be
	// read. What is known of these stays; the others are followed.
	ReasonNamespaceRefused Reason = "NamespaceRefused"
	// ReasonNamespaceFails: the same, and requests there fail otherwise.
	ReasonNamespaceFails Reason = "NamespaceFails"
	// ReasonChangesHeld: lists lack what is served, and it is kept.
	ReasonChangesHeld Reason = "ChangesHeld"
	// ReasonKubeconfigRefused: the kubeconfig as it stands, or what the Secret that it
	// is in says beside it, is not accepted. The last one that was goes on being used.
	ReasonKubeconfigRefused Reason = "KubeconfigRefused"
	// ReasonNewAccessFails: the kubeconfig was changed and what it says now does
	// not lead to the member. The former goes on being used.
	ReasonNewAccessFails Reason = "NewAccessFails"
)

// Times after which a member counts as silent. An unreachable one is to be
// reported within 10 s.
const (
	contactLimit = 9 * time.Second
	// troubleLimit is for a member that answers but whose watch is not open: a
	// stream that broke is usually open again at once.
	troubleLimit = 3 * time.Second
	// unfollowedLimit is for a member of which no watch is open though nothing has failed:
	// its list goes on and on. Nothing is believed for longer than 30 s without proof.
	unfollowedLimit = 28 * time.Second
)

// reachability is what is known of the ways to a member.
type reachability struct {
	stopped   bool
	connected bool // at least once
	contact   time.Time
	// probe, connect and access are the faults of the last probe, the first
	// connection, and the connection that is to replace the one in use.
	probe, connect, access Fault
	answered               time.Time // when the probe succeeded after it had failed
	watches                [kinds]watchState
}

type watchState struct {
	phase Phase
	fault Fault
	// troubled is since when no stream is open for a fault; zero when none. left is since
	// when none is open for whatever reason, though there was one.
	troubled, left time.Time
	// leftOut are namespaces that the last stream does not show, cut why.
	leftOut []string
	cut     Fault
}

// change takes in a change of a watch.
func (w *watchState) change(e Watched, now time.Time) {
	if w.phase == Following && e.Phase != Following {
		w.left = now
	}
	w.phase = e.Phase
	switch {
	case e.Phase == Following:
		w.fault, w.troubled, w.left = Fault{}, time.Time{}, time.Time{}
		if w.leftOut, w.cut = e.LeftOut, (Fault{}); len(e.LeftOut) > 0 {
			w.cut = e.Fault
		}
	case e.Fault.Class != Well:
		w.fault = e.Fault
		if w.troubled.IsZero() {
			w.troubled = now
		}
	}
}

// isDown reports whether the watch has not been open for too long; answered is when the
// member was found to be there again.
func (w *watchState) isDown(now, answered time.Time) bool {
	troubled := !w.troubled.IsZero() && now.Sub(w.troubled) >= troubleLimit
	unfollowed := !w.left.IsZero() && now.Sub(w.left) >= unfollowedLimit
	return (troubled || unfollowed) && now.Sub(answered) >= troubleLimit
}

// otherCluster returns the error of a fault that says that another cluster answers.
// That another connection than the one in use leads elsewhere takes nothing from that.
func (r *reachability) otherCluster() (Fault, bool) {
	for _, f := range []Fault{r.probe, r.connect, r.watches[Services].fault, r.watches[Pods].fault} {
		if f.Class == OtherCluster {
			return f, true
		}
	}
	return Fault{}, false
}

// unusable reports whether the member is silent or forbidden.
func (r *reachability) unusable(now time.Time) (v View, is bool) {
	switch {
	case r.connect.Class == NoKubeconfig:
		return View{State: Silent, Reason: ReasonKubeconfigRefused, Err: r.connect.Err}, true
	case r.connect.Class != Well:
		return silentFor(ReasonUnreachable, r.connect), true
	case r.probe.Class != Well:
		return silentFor(ReasonUnreachable, r.probe), true
	}
	for _, kind := range []Kind{Services, Pods} {
		w := &r.watches[kind]
		switch {
		case w.phase == Denied:
			return View{State: Forbidden, Reason: ReasonForbidden, Err: w.fault.Err}, true
		case !w.isDown(now, r.answered):
		case w.fault.Class == TooMany:
			return silentFor(ReasonTooManyObjects, w.fault), true
		case w.fault.Class == TooLarge:
			return silentFor(ReasonListTooLarge, w.fault), true
		default:
			v = silentFor(ReasonUnusable, w.fault)
			v.Err = cmp.Or(v.Err, fmt.Errorf("no watch of %s is open", kind))
			return v, true
		}
	}
	if r.connected && now.Sub(r.contact) > contactLimit {
		return View{State: Silent, Reason: ReasonUnreachable}, true
	}
	return v, false
}

// cut is why namespaces are left out: that one fails says more than that one is refused.
func (r *reachability) cut() (f Fault) {
	for _, kind := range []Kind{Services, Pods} {
		if one := r.watches[kind].cut; one.Class != Well && (f.Class == Well || f.isRefusal() && !one.isRefusal()) {
			f = one
		}
	}
	return f
}

// LostSight reports whether the member was read whole, and what it does since is not seen:
// it does not answer, has not for longer than it takes to ask, or a stream is not open, or
// not of all namespaces. One that is about to be opened for the first
// time misses nothing.
func (s *State) LostSight(now time.Time) bool {
	r := &s.reach
	if !s.synced {
		return false
	}
	for kind := range r.watches {
		w := &r.watches[kind]
		opening := w.phase == Listing && w.left.IsZero() && w.troubled.IsZero() && now.Sub(s.listedAt[kind]) < troubleLimit
		if len(w.leftOut) > 0 || Kind(kind) <= Pods && w.phase != Following && !opening || w.phase == Waiting && Kind(kind) != Nodes {
			return true
		}
	}
	return r.connect.Class != Well || r.probe.Class != Well
}

// silentFor is a member that is silent for a fault, or forbidden where that is a refusal.
func silentFor(why Reason, f Fault) View {
	if f.Class == Denial {
		return View{State: Forbidden, Reason: ReasonForbidden, Err: f.Err}
	}
	return View{State: Silent, Reason: why, Err: f.Err}
}

// probed takes in the outcome of a probe.
func (r *reachability) probed(now time.Time, f Fault) {
	if f.Class == Well {
		r.contact = now
		if r.probe.Class != Well {
			r.answered = now
		}
	}
	r.probe = f
}

// reached takes in what is known of the ways to the member.
func (s *State) reached(now time.Time, e Event, out *Effects) {
	r := &s.reach
	switch e := e.(type) {
	case Contact:
		r.contact = now
	case Connected:
		if r.connect = e.Fault; e.Fault.Class == Well {
			r.connected, r.contact = true, now
			if s.since.IsZero() {
				s.since = now
			}
		}
	case Probed:
		r.probed(now, e.Fault)
	case Reconnected:
		r.access = e.Fault
	case Watched:
		blind := s.blind()
		r.watches[e.Kind].change(e, now)
		s.sighted(blind)
		switch {
		case e.Phase == Following && e.Fault.Class == TooMany:
			s.tooLong(now, e.Kind)
		case e.Phase == Following && e.Kind == Pods:
			s.podsFollowed(now)
		}
		s.followed(now, e.Kind, out)
	case Restored:
		s.quarantine.err, s.quarantine.anew = e.Err, [kinds]bool{}
		s.wentBack(now, Services, Pods, Nodes, Endpoints, Slices, Manual)
	case Stopped:
		r.stopped = true
	}
}

// ErrWentBack is a member whose revisions are lower than they were, as after its
// etcd was restored from a backup.
var ErrWentBack = errors.New("the cluster went back in time")

// errOverfull is a member that has more objects than it may, errIncomplete one whose
// lists lack what is there.
var (
	errOverfull   = errors.New("the cluster has more objects of a kind than maxObjects allows")
	errIncomplete = errors.New("lists of the cluster lack objects that are there")
)

// judge says how the member stands, if that has changed.
func (s *State) judge(now time.Time, out *Effects) {
	s.endQuarantine()
	v := s.verdict(now)
	if v.Err != nil {
		s.lastErr, s.lastErrAt = v.Err, now
	}
	if v.inSight() {
		s.seen = now
	}
	was := s.view
	v.Synced, v.Panicking = s.synced, s.readiness.panics()
	switch v.Stale = s.cfg.StaleAfter > 0 && now.Sub(s.seen) >= s.cfg.StaleAfter; {
	case v.Stale && !was.Stale:
		out.say(Warning, "cluster has been out of sight for too long: other members' endpoints are preferred")
	case was.Stale && !v.Stale:
		out.say(Info, "cluster is in sight again")
	}
	s.logTransitions(out)
	turned := v.State != was.State || v.Reason != was.Reason
	if v.Since = was.Since; turned {
		v.Since = now
		out.Facts = append(out.Facts, transition(was, v))
	}
	if s.view = v; turned || v.Synced != was.Synced || v.Stale != was.Stale || v.Panicking != was.Panicking {
		changed := v // v itself costs no allocation
		out.View = &changed
	}
}

// inSight reports whether what the member does is seen. It is, where its streams are well
// and only its lists are not.
func (v View) inSight() bool {
	return v.State.Up() || errors.Is(v.Err, errIncomplete) || errors.Is(v.Err, errOverfull)
}

func transition(before, after View) Fact {
	f := Fact{Message: "cluster changed state", Args: []any{"from", before.State, "to", after.State}}
	if !after.State.Up() && after.State != Connecting && after.State != Ended || after.Reason != ReasonNone {
		f.Severity = Warning
	}
	if after.Reason != ReasonNone {
		f.Args = append(f.Args, "reason", after.Reason)
	}
	if after.Err != nil {
		f.Args = append(f.Args, "error", after.Err)
	}
	return f
}

// verdict is how the member stands.
func (s *State) verdict(now time.Time) View {
	r := &s.reach
	if r.stopped {
		return View{State: Ended}
	}
	if s.quarantine.err != nil {
		return View{State: Suspect, Reason: ReasonRevisionRegressed, Err: s.quarantine.err}
	}
	if f, other := r.otherCluster(); other {
		return View{State: Suspect, Reason: ReasonIdentityMismatch, Err: f.Err}
	}
	if v, is := r.unusable(now); is {
		if f := r.access; f.Class == OtherCluster { // which says more
			return View{State: Suspect, Reason: ReasonIdentityMismatch, Err: f.Err}
		}
		return v
	}
	switch {
	case s.isCrowded():
		return View{State: Silent, Reason: ReasonTooManyObjects, Err: fmt.Errorf("%w (%d)", errOverfull, s.cfg.MaxObjects)}
	case s.contradicted != [kinds + 1]time.Time{}:
		return View{State: Suspect, Reason: ReasonListIncomplete, Err: errIncomplete}
	}
	v := View{State: Live}
	switch {
	case !r.connected:
		v.State = Connecting
	case !s.synced:
		v.State = Syncing
	}
	v.Reason, v.Err = s.beside()
	return v
}

// beside is what is wrong with a member that is followed.
func (s *State) beside() (Reason, error) {
	cut := s.reach.cut()
	switch f := s.reach.access; {
	case s.inPanic():
		return ReasonMassNotReady, nil
	case cut.isRefusal():
		return ReasonNamespaceRefused, cut.Err
	case cut.Class != Well:
		return ReasonNamespaceFails, cut.Err
	case len(s.holds)+len(s.ruling.held) > 0:
		return ReasonChangesHeld, nil
	case s.cfg.Refused != nil:
		return ReasonKubeconfigRefused, s.cfg.Refused
	case f.Class == OtherCluster:
		return ReasonIdentityMismatch, f.Err
	case f.Class != Well:
		return ReasonNewAccessFails, f.Err
	}
	return ReasonNone, nil
}
