// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"math/rand/v2"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// besideNamespace is a namespace beside that of a history, read by itself. Nothing happens in
// it but that it is refused now and then: what it has stays, and nobody is asked for it.
const (
	besideNamespace = "side"
	besidePods      = 3
)

var besideKey = syncer.Key{Namespace: besideNamespace, Name: "side"}

// beside is what a shell knows of it; nil: there is none.
type beside struct {
	dice *rand.Rand
	// refused is what was decided for the last list of a kind, listed is true once one of this
	// process showed it.
	refused, listed [Pods + 1]bool
	// written is true once its endpoints were; granted is peace.
	written, granted bool
}

func newBeside(h *history) *beside {
	r := dice.From(h.seed, 27)
	if r.IntN(3) > 0 || h.ruled || h.cfg.MaxObjects > 0 {
		return nil
	}
	return &beside{dice: r}
}

// list decides whether it is refused by a list.
func (b *beside) list(kind Kind) (shown bool, out LeftOut) {
	if b == nil {
		return false, out
	}
	if b.refused[kind] = !b.granted && b.dice.IntN(2) == 0; b.refused[kind] {
		out.Namespaces = []string{besideNamespace}
		if !b.listed[kind] {
			out.Unlisted = out.Namespaces
		}
		return false, out
	}
	b.listed[kind] = true
	return true, out
}

// watched is a watch that follows, as far as it may.
func (b *beside) watched(e Watched) Watched {
	if b != nil && e.Phase == Following && e.Kind <= Pods && b.refused[e.Kind] {
		e.Fault, e.LeftOut = Fault{Denial, errCut}, []string{besideNamespace}
	}
	return e
}

// restart has another process know nothing of it but what stands.
func (b *beside) restart() {
	if b != nil {
		b.refused, b.listed = [Pods + 1]bool{}, [Pods + 1]bool{}
	}
}

// grant ends all refusals.
func (b *beside) grant() {
	if b != nil {
		b.granted = true
	}
}

// stands adds what stands of it.
func (b *beside) stands(standing map[syncer.Key]Standing) {
	if b == nil || !b.written {
		return
	}
	x := Standing{Sources: []syncer.Key{besideKey}, Publishing: []syncer.Key{besideKey}}
	for _, v := range b.pods() {
		x.Endpoints = append(x.Endpoints, syncer.Endpoint{Addr: v.Object.IPs[0].Addr, Ready: true, Serving: true,
			Target: syncer.TargetRef{Kind: "Pod", Key: v.Object.Key, UID: v.Object.UID}})
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

func (b *beside) pods() (all []podVersion) {
	for n := range besidePods {
		name := fmt.Sprintf("side-%d", n)
		v := new(cluster).shown(thePod{name: name, uid: name + ".1", app: besideKey.Name, ip: 9000 + n, ready: true, revision: 1})
		v.Object.Namespace, v.Object.NodeName = besideNamespace, ""
		all = append(all, v)
	}
	return all
}

// judge holds what is given of it against the law: all of it, or what stands; in peace all.
func (b *beside) judge(s *shell) {
	if b == nil {
		return
	}
	share := s.state.Share(besideKey)
	given := 0
	for _, c := range store.Peek(share.Inputs) {
		for _, e := range c.Endpoints {
			if e.Ready {
				given++
			}
		}
	}
	switch {
	case len(share.Gone) > 0, given > 0 && given < besidePods, b.written && s.synced && given == 0 && !share.Unseen, s.quiet && given == 0:
		s.breach("BESIDE", "of what a refused namespace has %d are given, unseen %v, gone %v", given, share.Unseen, share.Gone)
	case s.synced && given == besidePods:
		b.written = true
	}
}
