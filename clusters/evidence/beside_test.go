// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// besideNamespace is a namespace beside that of a history, read by itself. It is refused, or fails, now and
// then. Pods of it die, at most all but one, where only a list may tell: in a gap, or while nobody
// runs. The others stay.
const (
	besideNamespace = "side"
	besidePods      = 4
)

var besideKey = syncer.Key{Namespace: besideNamespace, Name: "side"}

// beside is what a shell knows of it; nil: there is none.
type beside struct {
	dice *rand.Rand
	end  besideEnd
	// refused is what was decided for the last list of a kind, unseen that for the last stream;
	// listed is true once one of this process showed it, sure where the last that did is believed.
	refused, unseen, listed, sure [Pods + 1]bool
	// lists counts those that came in peace.
	lists [Pods + 1]int
	// dead pods are the first ones. stood are those that stand, nil before any did.
	dead  int
	stood map[int]bool
	// restarted is true since the first restart, granted is peace.
	restarted, granted bool
}

// besideEnd is how it is read when all faults have ended; 0: as everything is.
type besideEnd int

const (
	// streamsResume: when lists have shown it once more, they leave it out, and streams show it. So
	// does the second list, also where the first is in doubt.
	streamsResume besideEnd = iota + 1
	// servicesAreRefused: since the first restart its Services are refused, for good.
	servicesAreRefused
	besideEnds
)

func newBeside(h *history) *beside {
	r := dice.From(h.seed, 27)
	if r.IntN(3) > 0 || h.ruled || h.cfg.MaxObjects > 0 {
		return nil
	}
	return &beside{dice: r, end: besideEnd(r.IntN(int(besideEnds)))}
}

// list decides whether it is refused by a list.
func (b *beside) list(kind Kind) (shown bool, out LeftOut) {
	if b == nil {
		return false, out
	}
	switch refused := b.dice.IntN(2) == 0; {
	case b.neverAgain(kind):
		b.refused[kind] = true
	case !b.granted:
		b.refused[kind] = refused
	default:
		b.refused[kind] = b.end == streamsResume && (b.sure[kind] || b.lists[kind] == 1)
		b.lists[kind]++
	}
	if b.refused[kind] {
		out.Namespaces = []string{besideNamespace}
		if !b.listed[kind] {
			out.Unlisted = out.Namespaces
		}
		return false, out
	}
	if b.listed[kind] = true; kind == Pods {
		b.die(6)
	}
	return true, out
}

// neverAgain reports whether it is refused for good.
func (b *beside) neverAgain(kind Kind) bool {
	return b.end == servicesAreRefused && b.restarted && kind == Services
}

// die has a pod die, now and then.
func (b *beside) die(often int) {
	if !b.granted && b.dead < besidePods-1 && b.dice.IntN(often) == 0 {
		b.dead++
	}
}

// watched is a watch that follows, as far as it may: where a list showed it, and be that in doubt, it
// goes on from there, be it left out by later ones.
func (b *beside) watched(s *State, e Watched) Watched {
	if b == nil || e.Phase != Following || e.Kind > Pods {
		return e
	}
	if !b.refused[e.Kind] {
		b.sure[e.Kind] = !s.quarantine.doubted(e.Kind)
	}
	resumes := b.listed[e.Kind] && (b.granted || b.dice.IntN(3) == 0) && !b.neverAgain(e.Kind)
	if b.unseen[e.Kind] = b.refused[e.Kind] && !resumes; b.unseen[e.Kind] {
		e.Fault, e.LeftOut = Fault{Denial, errCut}, []string{besideNamespace}
		if e.Kind == Pods {
			e.Fault.Class = Unreachable
		}
	}
	return e
}

// mayAsk reports whether there is reason to ask for an object: a pod that died, where lists or
// streams show any.
func (b *beside) mayAsk(r Read) bool {
	return r.Kind == Pods && slices.IndexFunc(b.all(), func(v podVersion) bool { return v.Object.Key == r.Key }) < b.dead && !b.isRefused()
}

// isDumb reports whether a question about it fails: what a list lacks of it is open when streams
// alone show it.
func (b *beside) isDumb() bool {
	if b.granted {
		return b.end == streamsResume && !b.refused[Pods]
	}
	return b.dice.IntN(4) == 0
}

// isRefused reports whether nothing shows its pods, nor may any be asked for.
func (b *beside) isRefused() bool { return b.refused[Pods] && b.unseen[Pods] }

// restart has another process know nothing of it but what stands.
func (b *beside) restart() {
	if b != nil {
		b.refused, b.unseen, b.listed, b.sure, b.restarted = [Pods + 1]bool{}, [Pods + 1]bool{}, [Pods + 1]bool{}, [Pods + 1]bool{}, true
		b.die(2)
	}
}

// grant ends all refusals, once one more has died.
func (b *beside) grant() {
	if b != nil {
		b.die(1)
		b.granted, b.sure = true, [Pods + 1]bool{}
	}
}

// stands adds what stands of it.
func (b *beside) stands(standing map[syncer.Key]Standing) {
	if b == nil || b.stood == nil {
		return
	}
	x := Standing{Sources: []syncer.Key{besideKey}, Publishing: []syncer.Key{besideKey}}
	for n, v := range b.all() {
		if b.stood[n] {
			x.Endpoints = append(x.Endpoints, syncer.Endpoint{Addr: v.Object.IPs[0].Addr, Ready: true, Serving: true,
				Target: syncer.TargetRef{Kind: "Pod", Key: v.Object.Key, UID: v.Object.UID}})
		}
	}
	standing[besideKey] = x
}

// service takes every pod for ready, so that none of them counts in a panic.
func (b *beside) service() serviceVersion {
	of := theService{name: besideKey.Name, app: besideKey.Name, revision: 1}
	svc := of.shown()
	svc.Object.Namespace, svc.Object.PublishNotReadyAddresses = besideNamespace, true
	return svc
}

// pods are those that live.
func (b *beside) pods() []podVersion { return b.all()[b.dead:] }

func (b *beside) all() (all []podVersion) {
	for n := range besidePods {
		name := fmt.Sprintf("side-%d", n)
		v := new(cluster).shown(thePod{name: name, uid: name + ".1", app: besideKey.Name, ip: 9000 + n, ready: true, revision: 1})
		v.Object.Namespace, v.Object.NodeName = besideNamespace, ""
		all = append(all, v)
	}
	return all
}

// judge holds what stands of it against the law: who lives stays, whatever is refused. In peace
// nobody else does.
func (b *beside) judge(s *shell) {
	if b == nil {
		return
	}
	share := s.state.Share(besideKey)
	given := map[netip.Addr]bool{}
	for _, c := range store.Peek(share.Inputs) {
		for _, e := range c.Endpoints {
			given[e.Addr] = e.Ready
		}
	}
	if len(given) == 0 && !share.Unseen && b.stood == nil {
		return
	}
	stands := map[int]bool{}
	for n, v := range b.all() {
		addr := v.Object.IPs[0].Addr
		if given[addr] || share.Unseen && b.stood[n] && !slices.Contains(share.Gone, addr) {
			stands[n] = true
		}
		if n >= b.dead && (b.stood == nil || b.stood[n]) && !stands[n] || s.quiet && stands[n] != (n >= b.dead) {
			s.breach("BESIDE", "%s stands: %v, and %d of side are dead; given %v, unseen %v, gone %v", v.Object.Name, stands[n], b.dead, given, share.Unseen, share.Gone)
		}
	}
	b.stood = stands
}

// ready is how many of it stand.
func (b *beside) ready() int {
	if b == nil {
		return 0
	}
	return len(b.stood)
}

// refuses reports whether some of it is refused though all faults have ended.
func (b *beside) refuses() bool { return b != nil && b.neverAgain(Services) }
