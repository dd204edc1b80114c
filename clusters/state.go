// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/kube"
)

// State is how a member stands. Whatever it is, what the member contributed last
// stays until better is known.
type State string

// The states of a member.
const (
	// Connecting: nothing has been heard of it yet.
	Connecting State = "connecting"
	// Syncing: it answers, and has not been read whole yet.
	Syncing State = "syncing"
	// Live: it has been read whole and is followed.
	Live State = "live"
	// Silent: it does not answer, or what it answers cannot be used.
	Silent State = "silent"
	// Forbidden: it refuses to be read (401, 403).
	Forbidden State = "forbidden"
	// Suspect: another cluster answers in its place, or it went back in time.
	Suspect State = "suspect"
	// Stopped: the member has ended.
	Stopped State = "stopped"
)

// Up reports whether the member answers and lets itself be read.
func (s State) Up() bool { return s == Syncing || s == Live }

// Reason says more than a state, in one word that users can look up.
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
	// ReasonListsShrank: the first lists after a start lack too much of what
	// stands of the member. They are not used.
	ReasonListsShrank Reason = "ListsShrank"
	// ReasonMassNotReady: too many pods turned not ready at once, and are kept ready.
	ReasonMassNotReady Reason = "MassNotReady"
	// ReasonChangesHeld: lists lack what is served, and it is kept.
	ReasonChangesHeld Reason = "ChangesHeld"
	// ReasonKubeconfigRefused: the kubeconfig as it stands is not accepted. The
	// last one that was goes on being used.
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
)

// The kinds without which nothing can be computed; their index in facts.
const (
	kindServices = iota
	kindPods
	essentialKinds
)

// facts are what a member's state follows from.
type facts struct {
	stopped   bool
	connected bool // a link was proven at least once
	synced    bool
	contact   time.Time
	// probe, connect and access are the errors of the last probe, the first
	// connection, and the connection that is to replace the one in use.
	probe, connect, access error
	answered               time.Time // when the probe succeeded after it had failed
	refused                error     // why the kubeconfig as it stands is not in use
	// shrunk is why the first lists are not believed, overfull that there are too many
	// objects.
	shrunk, overfull error
	// holding is true while something is kept that lists lack, panicking while pods
	// are kept ready that all turned not ready at once.
	holding, panicking bool
	// suspect is why the member is doubted although it can be followed, until all
	// kinds have been listed anew.
	suspect error
	anew    [essentialKinds]bool
	kinds   [essentialKinds]kindFacts
}

// wentBack notes that the member went back in time.
func (f *facts) wentBack(err error) { f.suspect, f.anew = err, [essentialKinds]bool{} }

// listedAnew notes that a kind has been listed since; with the last one the doubt
// is over.
func (f *facts) listedAnew(kind int) {
	f.anew[kind] = true
	if !slices.Contains(f.anew[:], false) {
		f.suspect = nil
	}
}

type kindFacts struct {
	phase kube.Phase
	err   error
	// troubled is since when no stream is open for an error; zero when none.
	troubled time.Time
}

// change takes in a change of a loop's state.
func (k *kindFacts) change(s kube.State, now time.Time) {
	k.phase = s.Phase
	switch s.Phase {
	case kube.Following:
		k.err, k.troubled = nil, time.Time{}
	case kube.Waiting, kube.Forbidden:
		k.err = s.Err
		if k.troubled.IsZero() {
			k.troubled = now
		}
	case kube.Listing:
	}
}

// verdict is a state with its reason.
type verdict struct {
	state  State
	reason Reason
	err    error
}

// judge is pure: the same facts at the same moment have the same verdict.
func (f *facts) judge(now time.Time) verdict {
	if f.stopped {
		return verdict{state: Stopped}
	}
	if err := f.doubt(); err != nil {
		if errors.Is(err, kube.ErrWentBack) {
			return verdict{Suspect, ReasonRevisionRegressed, err}
		}
		return verdict{Suspect, ReasonIdentityMismatch, err}
	}
	if v, bad := f.unusable(now); bad {
		if errors.Is(f.access, kube.ErrOtherCluster) { // which says more
			return verdict{Suspect, ReasonIdentityMismatch, f.access}
		}
		return v
	}
	switch {
	case f.overfull != nil:
		return verdict{Silent, ReasonTooManyObjects, f.overfull}
	case f.shrunk != nil:
		return verdict{Suspect, ReasonListsShrank, f.shrunk}
	}
	v := verdict{state: Live}
	switch {
	case !f.connected:
		v.state = Connecting
	case !f.synced:
		v.state = Syncing
	}
	switch {
	case f.panicking:
		v.reason = ReasonMassNotReady
	case f.holding:
		v.reason = ReasonChangesHeld
	case f.refused != nil:
		v.reason, v.err = ReasonKubeconfigRefused, f.refused
	case errors.Is(f.access, kube.ErrOtherCluster):
		v.reason, v.err = ReasonIdentityMismatch, f.access
	case f.access != nil:
		v.reason, v.err = ReasonNewAccessFails, f.access
	}
	return v
}

// doubt returns why what is seen of the member is suspect; nil when it is not. That
// another connection than the one in use leads elsewhere takes nothing from that.
func (f *facts) doubt() error {
	if f.suspect != nil {
		return f.suspect
	}
	errs := []error{f.probe, f.connect}
	for i := range f.kinds {
		errs = append(errs, f.kinds[i].err)
	}
	for _, err := range errs {
		if errors.Is(err, kube.ErrOtherCluster) {
			return err
		}
	}
	return nil
}

// unusable reports whether the member is silent or forbidden.
func (f *facts) unusable(now time.Time) (verdict, bool) {
	if f.connect != nil {
		if errors.Is(f.connect, errNoKubeconfig) {
			return verdict{Silent, ReasonKubeconfigRefused, f.connect}, true
		}
		return refusedOr(verdict{Silent, ReasonUnreachable, f.connect}), true
	}
	if f.probe != nil {
		return refusedOr(verdict{Silent, ReasonUnreachable, f.probe}), true
	}
	for i := range f.kinds {
		k := &f.kinds[i]
		switch {
		case k.phase == kube.Forbidden:
			return verdict{Forbidden, ReasonForbidden, k.err}, true
		case k.troubled.IsZero() || now.Sub(k.troubled) < troubleLimit || now.Sub(f.answered) < troubleLimit:
		case errors.Is(k.err, kube.ErrTooManyObjects):
			return verdict{Silent, ReasonTooManyObjects, k.err}, true
		case errors.Is(k.err, kube.ErrTooLarge):
			return verdict{Silent, ReasonListTooLarge, k.err}, true
		default:
			return refusedOr(verdict{Silent, ReasonUnusable, k.err}), true
		}
	}
	if f.connected && now.Sub(f.contact) > contactLimit {
		return verdict{Silent, ReasonUnreachable, nil}, true
	}
	return verdict{}, false
}

// refusedOr is the verdict, or that of a refusal when the error is one.
func refusedOr(v verdict) verdict {
	if apierrors.IsUnauthorized(v.err) || apierrors.IsForbidden(v.err) {
		return verdict{Forbidden, ReasonForbidden, v.err}
	}
	return v
}
