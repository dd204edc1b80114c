// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// The laws, held after every step:
//
//   - ANNOUNCED: what a replica gets changes only when the step says so, and when an
//     address leaves traffic it says that this is a removal.
//   - HARD: no address takes traffic against the last word that was said of it,
//     whatever is held, doubted or waited for. Panic and silent nodes alone may.
//   - RULED: no address takes traffic against a rule that is in force and not held.
//   - OWNER: as soon as a living pod was shown with an address, no dead one has it. One that
//     is going does not count.
//   - NOPHANTOM: an address appears only when its pod was shown, alive, with it.
//   - DAMPED: an endpoint that took traffic, and turned not ready, does so again only when
//     its pod has been ready for as long as the settings say, or none else does. What a
//     panic restores, and what a Service, a list or an answer about it changes, may.
//   - NOWIPE: what merely lacks in lists, and lives, is taken within the limits and
//     never to the last.
//   - UNSEEN: what nobody sees is not taken for nothing; see outofsight_test.go.
//   - NET: what lists lack stands only in replicas that are held, and a replica that has
//     as many ready endpoints in a list as it had when that began is not, whatever others are.
//
// And at the end of a history, when all faults have ended: CONV, ZERO.

// judge holds what a replica gets now against what it had.
func (s *shell) judge(e Event, replica string, before, after contribution, effect syncer.Effect) {
	s.announced(replica, before, after, effect)
	for ep, ready := range after {
		if rule := s.takenBy(replica, ep); ready && rule != "" {
			s.breach("RULED", "%s stands in %s, against rule %s", show1(ep), replica, rule)
		}
		if why := s.words.against(s, replica, ep, ready); why != "" {
			s.breach("HARD", "%s stands in %s (ready: %v): %s", show1(ep), replica, ready, why)
		}
		if _, had := before[ep]; !had && ep.uid != "" && !s.words.alive(ep) {
			s.breach("NOPHANTOM", "%s appears in %s, and nobody showed it alive", show1(ep), replica)
		}
	}
	s.damps(e, replica, before, after)
	switch e := e.(type) {
	case Listed[syncer.Pod], Listed[syncer.Service], Listed[store.Endpoints], Listed[store.Slice]:
		s.soft(replica, before, after)
	case Tick, Configured: // what rules take is judged as well
		s.plainly = true
		s.soft(replica, before, after)
		s.plainly = false
	case Answer:
		if e.Outcome != NotFound || e.Kind < Endpoints { // what else gave an address by hand went before, within the limits
			s.soft(replica, before, after)
		}
	}
	s.net(e, replica, before, after)
}

// miss notes which pods the lists lack, as far as they are believed.
func (s *shell) miss(e Event) {
	s.wasMissing = s.missing
	switch e := e.(type) {
	case Listed[syncer.Pod]:
		if !s.state.quarantine.doubted(Pods) {
			s.missing = map[string]bool{}
			for _, word := range s.words.pods {
				s.missing[word.is.UID] = word.is.UID != ""
			}
			for _, eps := range s.stands {
				for ep := range eps {
					s.missing[ep.uid] = ep.uid != ""
				}
			}
		}
		for i := range e.Items {
			delete(s.missing, e.Items[i].Object.UID)
		}
		for uid := range s.seenNow { // between its pieces
			delete(s.missing, uid)
		}
	case *Seen[syncer.Pod]:
		delete(s.missing, e.Object.UID)
		s.seenNow[e.Object.UID] = true
	case Answer:
		if v, is := e.Object.(podVersion); is {
			delete(s.missing, v.Object.UID)
			s.seenNow[v.Object.UID] = true
		}
	}
}

func (s *shell) net(e Event, replica string, before, after contribution) {
	listed, kept := 0, []endpoint(nil)
	for ep, ready := range after {
		if s.missing[ep.uid] {
			kept = append(kept, ep)
		} else if ready {
			listed++
		}
	}
	key := syncer.Key{Namespace: namespace, Name: replica}
	held := slices.ContainsFunc(s.holds, func(h Hold) bool { return h.Replica == key && (h.Reason == HoldList || h.Reason == HoldStart) })
	doubted := !s.state.quarantine.from().IsZero()
	of, was := s.keptOf[replica]
	if was && (doubted || held && len(kept) == 0) { // what is there, or is shown in doubt, may end a hold, or not
		s.keptOf[replica] = max(of, before.ready(), after.ready())
	}
	if r := s.state.baseline.replicas[key]; !s.synced || s.unseen[replica] || doubted || r != nil && !r.judged {
		return
	}
	if len(kept) == 0 {
		if !held {
			delete(s.keptOf, replica)
		}
		return
	}
	had := s.sizeOf(replica, before, s.came[replica])
	_, list := e.(Listed[syncer.Pod])
	if !was || list {
		s.keptOf[replica] = max(of, had)
	}
	if !held {
		s.breach("NET", "%s of %s stands, lists lack it, and nothing is held", show1(kept[0]), replica)
	}
	if list && listed >= had && !s.lying && s.wasInForce == s.inForce() && !(s.open[replica] && s.lacksService(replica)) {
		s.breach("NET", "%s of %s is kept, and %d of %d ready endpoints are listed", show1(kept[0]), replica, listed, had)
	}
}

// sizeOf is how many ready endpoints a replica had, with some more: where something is kept
// of it, as many as when that began, or as lists show. What came since replaces, and is missed
// when a list lacks it.
func (s *shell) sizeOf(replica string, before contribution, more int) int {
	had := s.hadIn(replica, before) + more
	if of, was := s.keptOf[replica]; was {
		had = min(had, max(of, s.shownOf(before)))
	}
	return had
}

// shownOf counts the ready endpoints that lists did not lack before this step.
func (s *shell) shownOf(c contribution) (n int) {
	for ep, ready := range c {
		if ready && !s.wasMissing[ep.uid] {
			n++
		}
	}
	return n
}

// hadIn counts the ready endpoints that a replica had before this step. As long as something
// stands that is open, it is judged by all that stood.
func (s *shell) hadIn(replica string, before contribution) int {
	had := before.ready()
	if s.open[replica] {
		had = max(had, s.stood[replica].ready())
	}
	return had
}

func (c contribution) ready() (n int) {
	for _, ready := range c {
		if ready {
			n++
		}
	}
	return n
}

// counts are the ready endpoints of all replicas between two pieces of a list of pods.
func (s *shell) counts(kind Kind) map[string]int {
	ready := map[string]int{}
	if kind != Pods {
		return ready
	}
	for _, replica := range replicaNames {
		for _, c := range store.Peek(s.state.Share(syncer.Key{Namespace: namespace, Name: replica}).Inputs) {
			for i := range c.Endpoints {
				if c.Endpoints[i].Ready {
					ready[replica]++
				}
			}
		}
	}
	return ready
}

// lacksService reports whether a Service of a replica is absent. What stands is judged by all
// kinds at once.
func (s *shell) lacksService(replica string) bool {
	return slices.ContainsFunc(serviceNames, func(source string) bool {
		return replicaOf(source) == replica && s.state.absent[object{Services, syncer.Key{Namespace: namespace, Name: source}}] != nil
	})
}

func (s *shell) inForce() string {
	inForce, _ := s.state.Deciders()
	return deciderID(inForce)
}

// takenBy is the rule in force that takes an endpoint away and is not held; "" if none does.
func (s *shell) takenBy(replica string, ep endpoint) string {
	inForce, _ := s.state.Deciders()
	if inForce == nil || ep.uid == "" || s.unseen[replica] || !s.synced {
		return ""
	}
	word := s.words.pod(nameOf(ep.uid))
	held := s.state.Store().Pod(syncer.Key{Namespace: namespace, Name: nameOf(ep.uid)})
	if word == nil || word.gone || word.lacked || held == nil || held.UID != ep.uid || word.is.UID != ep.uid ||
		!slices.Contains(s.state.Store().ReplicasFor(held), syncer.Key{Namespace: namespace, Name: replica}) {
		return ""
	}
	if is := outcome(inForce, word.is.Labels["marks"], s.heldRules(replica)); is == store.NotReady || is == store.Absent {
		return inForce.ID()
	}
	return ""
}

func (s *shell) heldRules(replica string) func(string) bool {
	h := s.state.ruling.held[syncer.Key{Namespace: namespace, Name: replica}]
	return func(rule string) bool { return h != nil && h.has(rule) }
}

// madeReady reports whether a rule makes a pod ready that is not, or did until an edit that
// is held.
func (s *shell) madeReady(replica string, p *syncer.Pod) bool {
	inForce, wanted := s.state.Deciders()
	return s.ruled && (outcome(inForce, p.Labels["marks"], nil) == store.Ready || outcome(wanted, p.Labels["marks"], nil) == store.Ready || s.heldRules(replica)(""))
}

// ruledReady is madeReady for an endpoint: what its pod says does not count then.
func (s *shell) ruledReady(replica string, ep endpoint) bool {
	if ep.uid == "" {
		return false
	}
	word := s.words.pod(nameOf(ep.uid))
	return word != nil && s.madeReady(replica, &word.is)
}

// turn is what is known of the readiness of a pod.
type turn struct {
	ready bool
	since time.Time       // of the last change
	in    map[string]bool // replicas in which it has taken traffic
	// off is when rules last had it not ready in a replica.
	off map[string]time.Time
}

// ruledOff reports whether rules that are in force, or were when an edit is held, have a pod
// not ready for all Services of a replica.
func (s *shell) ruledOff(replica string, ep endpoint) bool {
	held := s.state.Store()
	p := held.Pod(syncer.Key{Namespace: namespace, Name: nameOf(ep.uid)})
	if p == nil || p.UID != ep.uid {
		return false
	}
	services := slices.DeleteFunc(held.Selecting(p), func(service syncer.Key) bool { return replicaOf(service.Name) != replica })
	return len(services) > 0 && !slices.ContainsFunc(services, func(service syncer.Key) bool { return store.IsReady(held.As(service, p)) })
}

// notice looks at what was said last of all pods.
func (s *shell) notice() {
	for _, word := range s.words.pods {
		uid, is := word.is.UID, !word.gone && word.is.Ready
		t, known := s.turns[uid]
		if !known {
			t.in, t.off = map[string]bool{}, map[string]time.Time{}
		}
		if known && word.is.NodeSilent && s.cfg.HoldSilent > 0 {
			is = t.ready // nobody believes that yet
		}
		if !known || t.ready != is {
			t.ready, t.since = is, s.now
		}
		s.turns[uid] = t
	}
}

func (s *shell) damps(e Event, replica string, before, after contribution) {
	if replica == publishing {
		return
	}
	traffic, pods := after.ready(), false
	switch e.(type) {
	case Listed[syncer.Pod], *Seen[syncer.Pod], *Gone[syncer.Pod], Tick:
		pods = !s.doubted && !s.mixed // of a store that went back the words come late
	}
	if !maps.Equal(s.sources[replica], s.hadSources[replica]) { // what another Service gives is new to it
		for ep := range before {
			delete(s.turns[ep.uid].in, replica)
		}
	}
	for ep := range before {
		if s.gave[replica][ep] != s.from[replica][ep] {
			delete(s.turns[ep.uid].in, replica)
		}
	}
	alone, returned := true, 0 // one may return where none takes traffic, between two pieces of a list, too
	for ep, ready := range before {
		alone = alone && !(ready && after[ep])
		if _, stays := after[ep]; !stays || ready && !after[ep] && aboutServices(e) {
			delete(s.turns[ep.uid].in, replica) // should it come back, it is new
		}
	}
	for ep, ready := range after {
		t, known := s.turns[ep.uid]
		if known && s.ruled && ep.uid != "" && s.ruledOff(replica, ep) {
			t.off[replica] = s.now
		}
		if !known || !ready || ep.uid == "" {
			continue
		}
		if word := s.words.pods[nameOf(ep.uid)]; word != nil && !word.is.Ready && s.state.inPanic() {
			continue // which restored it
		}
		was, had := before[ep]
		early := s.now.Sub(t.since) < s.stableFor && !s.ruledReady(replica, ep) || s.now.Sub(t.off[replica]) < s.stableFor
		if pods && had && !was && t.in[replica] && t.ready && traffic > 1 && s.synced && s.wasSynced && early {
			if returned++; alone && returned == 1 {
				continue
			}
			s.breach("DAMPED", "%s of %s is ready for %v, by rules for %v, and takes traffic again", show1(ep), replica, s.now.Sub(t.since), s.now.Sub(t.off[replica]))
		}
		t.in[replica] = true
	}
}

func aboutServices(e Event) bool {
	switch e := e.(type) {
	case Listed[syncer.Service], *Seen[syncer.Service]:
		return true
	case Answer:
		return e.Kind == Services
	}
	return false
}

func show1(ep endpoint) string { return show(contribution{ep: true}) }

func (s *shell) announced(replica string, before, after contribution, effect syncer.Effect) {
	if maps.Equal(before, after) {
		return
	}
	if effect == syncer.None && s.wasSynced {
		s.breach("ANNOUNCED", "%s changes from %s to %s, and nobody says so", replica, show(before), show(after))
	}
	for ep, ready := range before {
		if ready && !after.serves(ep.ip) && effect != syncer.Removal {
			s.breach("ANNOUNCED", "%s of %s leaves traffic by a change of effect %v", show1(ep), replica, effect)
		}
	}
}

// serves reports whether an address takes traffic.
func (c contribution) serves(ip int) bool {
	for ep, ready := range c {
		if ready && ep.ip == ip {
			return true
		}
	}
	return false
}

// alive reports whether the last word of an endpoint's pod is that it lives there.
func (w *words) alive(ep endpoint) bool {
	word := w.pod(nameOf(ep.uid))
	if word == nil {
		return w.lived[livedAt{ep.uid, address(ep.ip)}]
	}
	return !word.gone && word.is.UID == ep.uid && word.is.IPs[0].Addr == address(ep.ip)
}

// against says what word an endpoint stands against; "" for none. One Service of the
// replica that may have it is enough.
func (w *words) against(s *shell, replica string, ep endpoint, ready bool) (why string) {
	if !s.synced {
		return w.againstPod(s, replica, ep, ready)
	}
	if !ready && s.unseen[replica] {
		return ""
	}
	why = "no Service of the replica is there"
	for _, source := range serviceNames {
		if replicaOf(source) != replica {
			continue
		}
		if valid(w.services[source]) == nil && !w.fed[replica][source] {
			continue
		}
		if why = w.againstIn(s, replica, source, ep, ready); why == "" {
			return ""
		}
	}
	return why
}

// againstIn is against for one Service.
func (w *words) againstIn(s *shell, replica, source string, ep endpoint, ready bool) string {
	svc := valid(w.services[source])
	heard := svc != nil
	switch {
	case heard && svc.gone:
		return "its Service is gone"
	case heard && svc.is.Selector == nil:
		if s.state.quarantine.unsure[syncer.Key{Namespace: namespace, Name: source}] && ep.uid != "" {
			return "" // that it has no selector may be of a time that was lost
		}
		if s.stood[replica][ep] && !w.whole[source] {
			return "" // which object gave it, nobody knows before all were asked for
		}
		return w.againstManual(source, ep)
	case heard && ep.uid == "" && s.stood[replica][ep] && s.state.isUnread(syncer.Key{Namespace: namespace, Name: source}):
		return "" // it came into view, and gives nothing before its pods were listed
	case heard && ep.uid == "" && !s.unseenOf[source]:
		return "its Service has a selector"
	case ep.uid == "":
		return ""
	}
	if word := w.pod(nameOf(ep.uid)); heard && word != nil && !word.gone && !s.stood[replica][ep] {
		if app, selects := svc.is.Selector["app"]; selects && word.is.Labels["app"] != app && !s.unseenOf[source] {
			return "its pod has other labels"
		}
	}
	return w.againstPod(s, replica, ep, ready)
}

// againstPod is what the last word of an endpoint's pod says against it. Before the
// member was read whole, and while it is in quarantine, it is all that counts, and only
// where traffic goes.
func (w *words) againstPod(s *shell, replica string, ep endpoint, ready bool) string {
	if ep.uid == "" || !ready && s.unseen[replica] {
		return ""
	}
	word := w.pod(nameOf(ep.uid))
	if word == nil || (!s.synced || s.unseen[replica]) && s.twice(replica, ep) {
		return ""
	}
	switch p := &word.is; {
	case p.UID != ep.uid && word.gone:
		return "" // the word is of another pod that went; it says nothing of this one
	case p.UID != ep.uid && !s.synced && p.Ready && p.IPs[0].Addr == address(ep.ip):
		return "" // the address stays, and changes its name with the first share
	case p.UID != ep.uid:
		return "its pod was replaced"
	case word.gone:
		return "its pod is gone"
	case p.IPs[0].Addr != address(ep.ip):
		return "its pod has another address"
	case replica == publishing:
		return ""
	case ready && p.Deleted != 0:
		return "its pod is terminating"
	case ready && !p.Ready && s.madeReady(replica, p):
		return ""
	case ready && !p.Ready && !s.state.View().Panicking && !(p.NodeSilent && s.cfg.HoldSilent > 0):
		return "its pod is not ready"
	}
	return ""
}

// twice reports whether another pod of the replica stands with the same address: before
// the member was read whole what goes is told by address.
func (s *shell) twice(replica string, ep endpoint) bool {
	for other := range s.stands[replica] {
		if other.ip == ep.ip && other.uid != ep.uid {
			return true
		}
	}
	return false
}

// unnamed reports whether nothing that is written by hand names an endpoint any more, by
// the last words, be they of before the store went back: then its objects themselves took
// it away.
func (w *words) unnamed(s *shell, replica string, ep endpoint) bool {
	for _, source := range serviceNames {
		for _, slice := range []bool{false, true} {
			id := manualID{source, slice}
			x := w.manuals[id]
			if x != nil && x.lacked && !s.hadManual[id] {
				continue // a list lacked it before, which took nothing then
			}
			if x != nil && x.maybe != nil {
				x = x.maybe
			}
			if replicaOf(source) == replica && s.hears(source) && (x == nil || x.absent && s.stood[replica][ep] && !w.readWhole(source) || slices.Contains(x.is, ep.ip)) {
				return false
			}
		}
	}
	return true
}

func (w *words) againstManual(source string, ep endpoint) string {
	if !w.manualKnown(source) {
		return ""
	}
	a, b := w.manuals[manualID{source, false}], w.manuals[manualID{source, true}]
	if a.absent || b.absent || slices.Contains(a.is, ep.ip) || slices.Contains(b.is, ep.ip) {
		return ""
	}
	return "nothing written by hand names it"
}

// soft counts what was taken though it lives and no word says otherwise.
func (s *shell) soft(replica string, before, after contribution) {
	had, has, wrong := 0, after.ready(), 0
	for ep, ready := range before {
		if !ready {
			continue
		}
		had++
		if ep.uid == "" && s.words.unnamed(s, replica, ep) {
			continue
		}
		if !after[ep] && s.lives(replica, ep) && !s.spokenFor(replica, ep) && s.words.against(s, replica, ep, true) == "" && !s.words.fell(ep) && !s.words.unselected(replica, ep) {
			wrong++
			s.note("    %s of %s is taken, and lives", show1(ep), replica)
		}
	}
	s.takenSoft += min(wrong, max(0, had-has)) // what is replaced is none
	s.hadReady += had
	if wrong == 0 || s.mayNotAsk() {
		return // see lookedTwice
	}
	had = s.sizeOf(replica, before, 0)
	if has == 0 {
		s.breach("NOWIPE", "%s is emptied: %d of %d ready endpoints are taken that live", replica, wrong, had)
	}
	if limit := s.cfg.MinEndpoints + had*s.cfg.Percent/100; min(wrong, had-has) > limit {
		s.breach("NOWIPE", "%s loses %d of %d ready endpoints, %d of them live, %d are allowed", replica, had-has, had, wrong, limit)
	}
}

// unasked are the objects that are not asked for, because a sample stands for them.
func (s *shell) unasked() map[object]bool {
	all := map[object]bool{}
	for id, a := range s.state.absent {
		if q := s.state.inquiries[id.Kind]; q != nil && q.sampled && a.state == notAsked {
			all[id] = true
		}
	}
	return all
}

// spokenFor reports whether an endpoint went with an object that a sample stood for: it
// may live.
func (s *shell) spokenFor(replica string, ep endpoint) bool {
	if ep.uid != "" && s.sampled[object{Pods, syncer.Key{Namespace: namespace, Name: nameOf(ep.uid)}}] {
		return true
	}
	return slices.ContainsFunc(serviceNames, func(source string) bool {
		key := syncer.Key{Namespace: namespace, Name: source}
		slice := syncer.Key{Namespace: namespace, Name: source + "-1"}
		return replicaOf(source) == replica && (s.sampled[object{Services, key}] ||
			ep.uid == "" && (s.sampled[object{Endpoints, key}] || s.sampled[object{Slices, slice}] || s.sampled[object{Manual, key}]))
	})
}

// fell reports whether the last word of a pod, be it of before the store went back, is that
// it is not ready: a panic or a silent node keeps it, and what ends that is hard.
func (w *words) fell(ep endpoint) bool {
	if ep.uid == "" {
		return false
	}
	x := w.pods[nameOf(ep.uid)]
	return x != nil && x.is.UID == ep.uid && !x.is.Ready && x.is.Labels["app"] != publishing
}

// selects reports whether a Service may give a pod. One that lost its selector does until all
// that is written for it was read.
func (w *words) selects(source string, svc *syncer.Service, p *syncer.Pod) bool {
	switch {
	case svc.Selector == nil:
		return !w.readWhole(source)
	case len(svc.Selector) == 0:
		return true
	}
	return svc.Selector["app"] == p.Labels["app"]
}

// unselected reports whether the Services of a replica, as they were shown last, select
// other labels than the pod of an endpoint was shown with, be it before the store went back.
func (w *words) unselected(replica string, ep endpoint) bool {
	if ep.uid == "" {
		return false
	}
	word := w.pods[nameOf(ep.uid)]
	if word == nil || word.gone {
		return false
	}
	if word.maybe != nil {
		word = word.maybe
	}
	for _, source := range serviceNames {
		if replicaOf(source) != replica {
			continue
		}
		svc := w.services[source]
		if svc == nil && w.fed[replica][source] || svc != nil && !svc.gone && w.selects(source, &svc.is, &word.is) {
			return false
		}
	}
	return true
}

// mayNotAsk reports whether reads are refused, or were a while ago. Then a second list may
// be believed: nobody can ask whether it lies.
func (s *shell) mayNotAsk() bool {
	return s.mute || !s.refusedAt.IsZero() && s.now.Sub(s.refusedAt) < 2*time.Minute
}

// lookedTwice holds what a second list took where nobody may ask: no more of the member
// than may be confirmed, beside what replicas may lose anyway.
func (s *shell) lookedTwice() {
	if limit := s.cfg.MinEndpoints + (s.hadReady+s.beside.ready())*(s.cfg.ConfirmPercent+s.cfg.Percent)/100; s.mayNotAsk() && s.takenSoft > limit {
		s.breach("NOWIPE", "%d of %d ready endpoints are taken that live, and may not be asked for; %d are allowed", s.takenSoft, s.hadReady, limit)
	}
}

// lives reports whether the truth demands an endpoint, ready: by the rules in force, and by
// those that are to be.
func (s *shell) lives(replica string, ep endpoint) bool {
	inForce, wanted := s.state.Deciders()
	if s.plainly {
		inForce, wanted = nil, nil
	}
	return slices.ContainsFunc(s.services, func(svc theService) bool {
		return replicaOf(svc.name) == replica && s.demanded(&svc, inForce)[ep] && s.demanded(&svc, wanted)[ep]
	})
}

// owners holds the addresses of the whole member against who lives there.
func (s *shell) owners() {
	for name, word := range s.words.pods {
		p := s.pod(name)
		if word.stale || word.past || word.gone || word.is.Terminating() || word.asked || word.is.HostNetwork || p == nil || p.finished || p.uid != word.is.UID || address(p.ip) != word.is.IPs[0].Addr {
			continue
		}
		own := endpoint{p.ip, p.uid}
		for replica, eps := range s.stands {
			if _, there := eps[own]; s.unseen[replica] && (there || s.lives(replica, own)) {
				continue // the address stays, and changes its name with the first share
			}
			for ep, ready := range eps {
				if ep.ip != p.ip || ep.uid == "" || ep.uid == p.uid || !ready && s.unseen[replica] {
					continue
				}
				if later := s.words.pod(nameOf(ep.uid)); later != nil && later.rv > word.rv && s.words.alive(ep) {
					continue // it was shown there since
				}
				if other := s.pod(nameOf(ep.uid)); other == nil || other.uid != ep.uid || other.finished || other.ip != ep.ip {
					s.breach("OWNER", "%s of %s stands, and %s was shown alive with that address", show1(ep), replica, p.uid)
				}
			}
		}
	}
}

// converged holds what stands against the truth.
func (s *shell) converged() {
	for _, replica := range replicaNames {
		want := contribution{}
		for i := range s.services {
			if svc := &s.services[i]; replicaOf(svc.name) == replica {
				maps.Copy(want, s.demanded(svc, s.cfg.Decider))
			}
		}
		if got := s.stands[replica]; !maps.Equal(got, want) {
			s.breach("CONV", "%s has %s, want %s", replica, show(got), show(want))
		}
	}
	if v := s.state.View(); v.State != Live || v.Reason != ReasonNone && !(v.Reason == ReasonNamespaceRefused && s.beside.refuses()) || v.Panicking {
		s.breach("CONV", "the member is %s %s, panicking: %v", v.State, v.Reason, v.Panicking)
	}
	if h := s.state.Holds(); len(h) > 0 {
		s.breach("CONV", "%+v is still held", h)
	}
}
