// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// shell stands between the cluster and the state, as the product's does: it lists,
// watches and reads when it is asked to, and writes down in the ingress cluster what
// the state contributes. After each step it holds that against the laws.
type shell struct {
	*cluster
	state *State
	cfg   Config
	// stableFor is that of all Services.
	stableFor time.Duration
	ruled     bool
	beside    *beside // nil: there is no other namespace
	seed      uint64
	now       time.Time
	log       *strings.Builder // nil: nobody reads it

	watches [kinds]watch
	// followed are the Services whose hand-written endpoints are; heardOf those of whom
	// something written by hand counts now, as of the last step.
	followed, heardOf map[syncer.Key]uint64
	// hadManual are the objects written by hand that the state had before this step.
	hadManual map[manualID]bool
	reads     []reading
	// forbidden are kinds that may not be listed.
	forbidden [kinds]bool
	// deaf is a member that does not answer, mute one that refuses `get`.
	deaf, mute bool
	refusedAt  time.Time // when a read was refused last
	// unnoticed is true while the store went back and the state does not know; doubted
	// since it does, or a list showed it.
	unnoticed, doubted bool
	// seen is the revision of the last list or event.
	seen uint64

	words  words
	turns  map[string]turn         // by UID, across restarts
	stands map[string]contribution // by replica
	// sources are the Services on record in a replica.
	sources map[string]map[string]bool
	// hadSources are those of before this step.
	hadSources map[string]map[string]bool
	// stood is what stood at the start.
	stood map[string]contribution
	// byHand are the Services on record whose endpoints are written by hand.
	byHand map[string]bool
	// writtenIn are the objects that these stand in, as they are on record.
	writtenIn map[string][]string
	// gave is the Service that gave an endpoint before this step, from since.
	gave map[string]map[endpoint]string
	// from is the Service that gave an endpoint of a replica last.
	from map[string]map[endpoint]string
	// unseen are replicas of which what stands is kept as it stands.
	unseen map[string]bool
	// synced is true once the state said so, wasSynced if that was before this step.
	synced, wasSynced bool
	// quiet is true while nothing happens that could change anything.
	quiet  bool
	broken *breach
	steps  int
	met    map[string]bool // kinds of effects
	// takenSoft are the ready endpoints that live and were taken by this step, hadReady
	// all that there were.
	takenSoft, hadReady int
	// plainly is true while rules do not say who lives.
	plainly bool
	// sampled are the objects that a sample stood for before this step.
	sampled map[object]bool
	// missing are the pods that lists lack, by UID; holds is what is held after this step,
	// lying is whether lists were known to lack what is there before it.
	missing map[string]bool
	// wasMissing are those of before this step.
	wasMissing map[string]bool
	seenNow    map[string]bool // since the beginning of this step
	holds      []Hold
	lying      bool
	// unseenOf are Services that got another selector while pods were out of sight.
	unseenOf map[string]bool
	open     map[string]bool // replicas of which something stood from before this process
	mixed    bool            // something of other kinds came between two pieces of a list
	// keptOf are the ready endpoints that a replica had when the first pod was kept in it.
	keptOf map[string]int
	// came are the ready endpoints that a replica got by what came between two pieces of a
	// list: it had them, too.
	came map[string]int
	// wasInForce are the rules that were in force before it.
	wasInForce string
}

// reading is a question to the member, and the answer where it was found already.
type reading struct {
	Read
	found *Answer
}

// watch is what flows from the member for one kind.
type watch struct {
	open   bool
	want   bool // a list is due
	past   bool // the store went back since the last list
	events []Event
}

// contribution is what one Service gives, with whether each address takes traffic.
type contribution map[endpoint]bool

// breach is a law that was broken.
type breach struct{ law, what string }

func (s *shell) breach(law, format string, args ...any) {
	if s.broken == nil {
		s.broken = &breach{law, fmt.Sprintf(format, args...)}
	}
}

func (s *shell) note(format string, args ...any) {
	if s.log != nil {
		fmt.Fprintf(s.log, "%8s  "+format+"\n", append([]any{s.now.Sub(time.Unix(0, 0)).Round(time.Millisecond)}, args...)...)
	}
}

func newShell(w *cluster, cfg Config, seed uint64, log *strings.Builder) *shell {
	s := &shell{cluster: w, cfg: cfg, seed: seed, now: time.Unix(0, 0), log: log, stands: map[string]contribution{}, sources: map[string]map[string]bool{}, unseen: map[string]bool{}, stood: map[string]contribution{}, met: map[string]bool{}, turns: map[string]turn{}, from: map[string]map[endpoint]string{}, byHand: map[string]bool{}, writtenIn: map[string][]string{}}
	for _, replica := range replicaNames {
		s.stands[replica], s.sources[replica], s.from[replica] = contribution{}, map[string]bool{}, map[endpoint]string{}
	}
	s.start()
	return s
}

// start is a start of the process: what stands is all that is known.
func (s *shell) start() {
	var panicAt time.Time
	if s.state != nil {
		panicAt = s.state.PanicAt()
	}
	s.state = New(s.now, s.cfg, s.seed)
	s.beside.restart()
	if s.seed%2 == 0 {
		s.state.piece = 1 + int(s.seed/2%4)
	}
	if s.seed%3 == 1 {
		s.state.sampled = 2 + int(s.seed/3%4)
	}
	s.words, s.reads, s.seen, s.synced, s.unnoticed = newWords(), nil, 0, false, false
	s.followed, s.heardOf, s.missing, s.keptOf = nil, nil, nil, map[string]int{}
	s.unseenOf = map[string]bool{}
	for k := range s.watches {
		s.watches[k] = watch{want: Kind(k) <= Nodes}
	}
	s.words.baseline(s.sources)
	for replica, eps := range s.stands {
		s.stood[replica] = maps.Clone(eps)
	}
	s.step(Baseline{Replicas: s.baseline(), PanicAt: panicAt})
	s.step(Connected{})
}

// baseline is what stands.
func (s *shell) baseline() map[syncer.Key]Standing {
	standing := map[syncer.Key]Standing{}
	for replica, eps := range s.stands {
		var x Standing
		for _, source := range slices.Sorted(maps.Keys(s.sources[replica])) {
			key := syncer.Key{Namespace: namespace, Name: source}
			if x.Sources = append(x.Sources, key); source == publishing {
				x.Publishing = append(x.Publishing, key)
			}
			if s.byHand[source] {
				if x.HandWritten == nil {
					x.HandWritten = map[syncer.Key][]string{}
				}
				x.HandWritten[key] = s.writtenIn[source]
			}
		}
		for _, e := range sortedEndpoints(eps) {
			x.Endpoints = append(x.Endpoints, s.standing(e, eps[e]))
		}
		if len(x.Endpoints) > 0 {
			standing[syncer.Key{Namespace: namespace, Name: replica}] = x
		}
	}
	s.beside.stands(standing)
	return standing
}

// lead is the event that another process wrote until now. It may have let return what waits
// here.
func (s *shell) lead(returned bool) {
	if returned {
		s.letReturn()
	}
	e := Leading{Replicas: s.baseline(), Served: map[syncer.Key]bool{}}
	for _, replica := range replicaNames {
		key := syncer.Key{Namespace: namespace, Name: replica}
		of := e.Replicas[key]
		e.Replicas[key], e.Served[key] = of, len(of.Endpoints) > 0
	}
	before := map[string]contribution{}
	maps.Copy(before, s.stands)
	s.step(e)
	for _, replica := range replicaNames {
		if before, after := before[replica], s.stands[replica]; !s.ruled && !maps.Equal(before, after) {
			s.breach("LEAD", "%s changes from %s to %s, where all that is kept stands", replica, show(before), show(after))
		}
	}
}

// letReturn makes stand ready what waits to be stable.
func (s *shell) letReturn() {
	for _, src := range s.state.damping.waiting {
		for _, d := range src.pods {
			for ep, ready := range s.stands[replicaOf(src.key.Name)] {
				if d.waits() && ep.uid == d.uid && !ready {
					s.stands[replicaOf(src.key.Name)][ep] = true
					s.met["let return by another process"] = true
				}
			}
		}
	}
}

func (s *shell) standing(e endpoint, ready bool) syncer.Endpoint {
	out := syncer.Endpoint{Addr: address(e.ip), Ports: manualPort, Ready: ready, Serving: ready}
	if e.uid != "" {
		out.Target = syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: namespace, Name: nameOf(e.uid)}, UID: e.uid}
	}
	return out
}

// nameOf is the name of the pod that has a UID.
func nameOf(uid string) string { return uid[:strings.LastIndexByte(uid, '.')] }

func sortedEndpoints(c contribution) []endpoint {
	return slices.SortedFunc(maps.Keys(c), func(a, b endpoint) int { return a.ip - b.ip + 10_000*strings.Compare(a.uid, b.uid) })
}

// step lets the state take in an event, carries out what comes of it, and holds the
// outcome against the laws.
func (s *shell) step(e Event) {
	if s.broken != nil {
		return
	}
	defer func() {
		if r := recover(); r != nil && s.broken == nil {
			s.breach("NOPANIC", "%T: %v\n%s", e, r, debug.Stack())
		}
	}()
	if watched, is := e.(Watched); is {
		e = s.beside.watched(s.state, watched)
	}
	s.noteUnseen(e)
	s.words.hear(s, e)
	s.notice()
	s.log2(e)
	s.wasSynced, s.sampled, s.lying = s.synced, s.unasked(), !s.state.contradicted[Pods].IsZero()
	s.wasInForce, s.seenNow, s.mixed, s.open = s.inForce(), map[string]bool{}, false, map[string]bool{}
	s.came = map[string]int{}
	for _, replica := range s.state.BaselineReplicas() {
		s.open[replica.Name] = true
	}
	dirty := map[string]syncer.Effect{}
	for next := e; next != nil; {
		out := s.state.Step(s.now, next)
		s.steps++
		s.take(out, dirty)
		for _, replica := range out.Alone {
			s.take(s.state.Step(s.now, Return{replica}), dirty)
		}
		if next = out.Next; next == nil && out.Work {
			next = Enforce{}
		}
		if c, more := next.(Continue); more {
			for _, x := range s.between(c.Kind) {
				s.noteUnseen(x)
				s.words.hear(s, x)
				s.notice()
				s.note("  between two pieces of %v:", c.Kind)
				s.log2(x)
				had := s.counts(c.Kind)
				s.take(s.state.Step(s.now, x), dirty)
				for replica, n := range s.counts(c.Kind) {
					s.came[replica] += max(0, n-had[replica])
				}
				s.steps++
				s.miss(x)
				switch x := x.(type) {
				case Tick, *Seen[syncer.Pod], *Gone[syncer.Pod]:
				case Answer:
					s.mixed = s.mixed || x.Kind != Pods
				default:
					s.mixed = true
				}
				s.lying = s.lying || !s.state.contradicted[Pods].IsZero()
			}
		}
	}
	s.record(e, dirty)
}

// take carries out effects.
func (s *shell) take(out Effects, dirty map[string]syncer.Effect) {
	for _, k := range out.List {
		s.watches[k].want = true
		s.note("    list %v", k)
	}
	for _, r := range out.Read {
		if r.Key.Namespace == besideNamespace && !s.beside.mayAsk(r) {
			s.breach("BESIDE", "%v is asked for, which is shown or refused", r)
		}
		if !slices.ContainsFunc(s.reads, func(q reading) bool { return reflect.DeepEqual(q.Read, r) }) {
			s.reads = append(s.reads, reading{Read: r})
		}
		s.note("    read %v %s", r.Kind, r.Key.Name)
	}
	if out.View != nil {
		s.met["reason "+string(out.View.Reason)] = true
		s.synced = out.View.Synced
		s.note("    %s %s synced=%v panic=%v", out.View.State, out.View.Reason, out.View.Synced, out.View.Panicking)
	}
	for _, c := range out.Changes {
		s.met["event "+c.Cause.Event], s.met["kept "+string(c.Cause.Kept)] = true, true
		for _, d := range c.Dirty {
			if d.Replica == besideKey {
				continue
			}
			dirty[d.Replica.Name] = max(dirty[d.Replica.Name], d.Effect)
		}
	}
}

// record writes down what the state contributes now.
func (s *shell) record(e Event, dirty map[string]syncer.Effect) {
	s.takenSoft, s.hadReady = 0, 0
	s.hadSources, s.gave = map[string]map[string]bool{}, map[string]map[endpoint]string{}
	for replica, names := range s.sources {
		s.hadSources[replica] = maps.Clone(names)
	}
	heardOf := s.state.Store().ManualSources()
	s.words.forgetManual(s.heardOf, heardOf)
	s.heardOf = heardOf
	s.miss(e)
	s.holds = s.state.Holds()
	for _, replica := range replicaNames {
		before := s.stands[replica]
		s.gave[replica] = maps.Clone(s.from[replica])
		after := s.share(replica, before)
		s.stands[replica] = after
		if s.log != nil && !maps.Equal(before, after) {
			s.note("    %s: %s", replica, show(after))
		}
		s.judgeUnseen(e, replica, before, after)
		s.judge(e, replica, before, after, dirty[replica])
	}
	s.lookedTwice()
	s.owners()
	s.beside.judge(s)
	s.hadManual = map[manualID]bool{}
	for id := range s.words.manuals {
		o := store.ManualObject{Service: syncer.Key{Namespace: namespace, Name: id.service}}
		if id.slice {
			o.Slice = id.service + "-1"
		}
		_, s.hadManual[id] = s.state.Store().ManualRevision(o)
	}
	if s.quiet && len(dirty) > 0 {
		s.breach("ZERO", "nothing changes, and %T touches %v", e, dirty)
	}
}

// share is what a replica gets of the member.
func (s *shell) share(replica string, before contribution) contribution {
	share := s.state.Share(syncer.Key{Namespace: namespace, Name: replica})
	after, stays := contribution{}, share.Unseen || !s.synced
	s.unseen[replica] = stays
	gave, from := map[string]bool{}, s.from[replica]
	for _, c := range store.Peek(share.Inputs) {
		gave[c.Source.Name], s.sources[replica][c.Source.Name] = true, true
		if !c.Pending {
			s.byHand[c.Source.Name], s.writtenIn[c.Source.Name] = c.HandWritten, c.WrittenIn
		}
		s.unseen[replica] = s.unseen[replica] || c.Pending
		for i := range c.Endpoints {
			from[after.add(&c.Endpoints[i])] = c.Source.Name
		}
		for ep, ready := range before {
			if _, known := after[ep]; c.Pending && !known && from[ep] == c.Source.Name {
				after[ep] = ready
			}
		}
	}
	if stays {
		for ep, ready := range before {
			if _, known := after[ep]; !known {
				after[ep] = ready
			}
		}
		for _, gone := range share.Gone {
			maps.DeleteFunc(after, func(ep endpoint, _ bool) bool { return address(ep.ip) == gone })
		}
	} else {
		s.sources[replica] = gave
	}
	return after
}

func (c contribution) add(e *syncer.Endpoint) endpoint {
	ip := e.Addr.As4()
	ep := endpoint{int(ip[2])<<8 | int(ip[3]), e.Target.UID}
	c[ep] = e.Ready
	return ep
}

func show(c contribution) string {
	var parts []string
	for _, e := range sortedEndpoints(c) {
		text := fmt.Sprintf("%d/%s", e.ip, e.uid)
		if !c[e] {
			text = "(" + text + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// log2 writes down an event.
func (s *shell) log2(e Event) {
	if s.log == nil {
		return
	}
	switch e := e.(type) {
	case Listed[syncer.Pod]:
		var parts []string
		for _, p := range e.Items {
			parts = append(parts, showPod(p))
		}
		s.note("list pods @%d older=%v: %s", e.Revision, e.Older, strings.Join(parts, ", "))
	case Listed[syncer.Service]:
		var parts []string
		for _, p := range e.Items {
			parts = append(parts, fmt.Sprintf("%s %v", p.Object.Name, p.Object.Selector))
		}
		s.note("list services @%d older=%v: %s", e.Revision, e.Older, strings.Join(parts, ", "))
	case Listed[store.Endpoints], Listed[store.Slice]:
		s.note("%+v", e)
	case *Seen[syncer.Pod]:
		s.note("pod seen: %s", showPod(e.Versioned))
	case *Gone[syncer.Pod]:
		s.note("pod gone: %s", showPod(e.Versioned))
	case Answer:
		what := [...]string{"failed", "not found", "there", "refused"}[e.Outcome]
		if p, ok := e.Object.(store.Versioned[syncer.Pod]); ok {
			what += ": " + showPod(p)
		}
		s.note("answer %v %s: %s", e.Kind, e.Key.Name, what)
	case Tick:
	case Configured:
		s.note("configured: rules %v since %v, at most %d objects", e.Decider, e.KeptSince, e.MaxObjects)
	default:
		s.note("%T %+v", e, e)
	}
}

func showPod(p store.Versioned[syncer.Pod]) string {
	text := fmt.Sprintf("%s@%d %v %s", p.Object.UID, p.RV, p.Object.IPs[0].Addr.As4()[3], p.Object.Labels["app"])
	if marks := p.Object.Labels["marks"]; marks != "" {
		text += " " + marks
	}
	for _, flag := range []struct {
		text string
		on   bool
	}{{"not-ready", !p.Object.Ready}, {"terminating", p.Object.Deleted != 0}, {"finished", p.Object.Terminal}, {"silent", p.Object.NodeSilent}} {
		if flag.on {
			text += " " + flag.text
		}
	}
	return text
}

// emit lets a change flow, if a watch is open.
func (s *shell) emit(k Kind, e Event) {
	if w := &s.watches[k]; w.open {
		w.events = append(w.events, e)
	}
}

// deliver hands over the first n events of a kind.
func (s *shell) deliver(k Kind, n int) {
	for range min(n, len(s.watches[k].events)) {
		w := &s.watches[k]
		if s.deaf || len(w.events) == 0 {
			return
		}
		e := w.events[0]
		w.events = w.events[1:]
		s.seen = max(s.seen, revisionOf(e))
		s.step(e)
	}
}

func revisionOf(e Event) uint64 {
	switch e := e.(type) {
	case *Seen[syncer.Pod]:
		return e.RV
	case *Gone[syncer.Pod]:
		return e.RV
	case *Seen[syncer.Service]:
		return e.RV
	case *Gone[syncer.Service]:
		return e.RV
	case *Seen[store.Endpoints]:
		return e.RV
	case *Gone[store.Endpoints]:
		return e.RV
	case *Seen[store.Slice]:
		return e.RV
	case *Gone[store.Slice]:
		return e.RV
	case Answer:
		switch v := e.Object.(type) {
		case podVersion:
			return v.RV
		case serviceVersion:
			return v.RV
		case endpointsVersion:
			return v.RV
		case sliceVersion:
			return v.RV
		}
	}
	return 0
}

// cut breaks a watch: what happens until the next list is not seen.
func (s *shell) cut(k Kind) {
	if w := &s.watches[k]; w.open {
		w.open, w.want, w.events = false, true, nil
		s.step(Watched{Kind: k, Phase: Waiting, Fault: Fault{Unreachable, errCut}})
	}
}

// list reads a kind whole and opens its watch. What lacks says of an item leaves it out.
func (s *shell) list(k Kind, t *truth, lacks func(i int) bool) {
	if s.deaf {
		return
	}
	if s.forbidden[k] {
		s.step(Watched{Kind: k, Phase: Denied, Fault: Fault{Denial, errCut}})
		return
	}
	if n := map[Kind]int{Pods: len(t.pods), Services: len(t.services)}[k]; s.cfg.MaxObjects > 0 && n > s.cfg.MaxObjects {
		phase := Waiting
		if w := &s.watches[k]; w.open {
			phase, w.want = Following, false // the stream goes on, and the list is not repeated
		}
		s.step(Watched{Kind: k, Phase: phase, Fault: Fault{TooMany, errCut}})
		return
	}
	w := &s.watches[k]
	honest := t == &s.truth
	older := w.past || t.revision < s.seen
	s.doubted = s.doubted || older
	*w = watch{open: honest, want: !honest}
	s.seen = t.revision
	switch k {
	case Services:
		shown, leftOut := s.beside.list(k)
		e := Listed[syncer.Service]{Revision: t.revision, Older: older, LeftOut: leftOut}
		if shown {
			e.Items = append(e.Items, s.beside.service())
		}
		for i, svc := range t.services {
			if !lacks(i) {
				e.Items = append(e.Items, svc.shown())
			}
		}
		s.step(e)
	case Pods:
		shown, leftOut := s.beside.list(k)
		e := Listed[syncer.Pod]{Revision: t.revision, Older: older, LeftOut: leftOut}
		if shown {
			e.Items = append(e.Items, s.beside.pods()...)
		}
		for i, p := range t.pods {
			if !lacks(i) && !p.finished {
				e.Items = append(e.Items, s.shown(p))
			}
		}
		s.step(e)
	case Nodes:
		s.step(Listed[store.Node]{Revision: t.revision, Older: older})
	case Endpoints:
		e := Listed[store.Endpoints]{Revision: t.revision, Older: older, Services: s.manualServices()}
		for i, m := range t.manuals {
			if !lacks(i) && !m.slice && s.follows(m.service) {
				e.Items = append(e.Items, m.endpoints())
			}
		}
		s.step(e)
	case Slices:
		e := Listed[store.Slice]{Revision: t.revision, Older: older, Services: s.manualServices()}
		for i, m := range t.manuals {
			if !lacks(i) && m.slice && s.follows(m.service) {
				e.Items = append(e.Items, m.endpointSlice())
			}
		}
		s.step(e)
	}
	if honest {
		s.step(Watched{Kind: k, Phase: Following})
	} else {
		s.step(Watched{Kind: k, Phase: Waiting, Fault: Fault{Unreachable, errCut}})
	}
}

// answer answers the first n reads.
func (s *shell) answer(n int) {
	for range min(n, len(s.reads)) {
		if len(s.reads) == 0 {
			return
		}
		r := s.reads[0]
		s.reads = s.reads[1:]
		if r.found != nil && !s.deaf {
			s.step(*r.found)
		} else {
			s.step(s.reply(r.Read))
		}
	}
}

func (s *shell) reply(r Read) Answer {
	a := Answer{Read: r, Outcome: NotFound}
	switch {
	case s.deaf, r.Key.Namespace == besideNamespace && s.beside.isDumb():
		a.Outcome = Failed
		return a
	case s.mute, r.Key.Namespace == besideNamespace && s.beside.isRefused():
		a.Outcome, s.refusedAt = Refused, s.now
		return a
	}
	switch r.Kind {
	case Pods:
		if p := s.pod(r.Key.Name); p != nil {
			a.Outcome, a.Object = There, s.shown(*p)
		}
	case Services:
		if svc := s.service(r.Key.Name); svc != nil {
			a.Outcome, a.Object = There, svc.shown()
		}
	case Endpoints:
		if m := s.manual(r.Key.Name, false); m != nil {
			a.Outcome, a.Object = There, m.endpoints()
		}
	case Slices:
		if m := s.manual(strings.TrimSuffix(r.Key.Name, "-1"), true); m != nil {
			a.Outcome, a.Object = There, m.endpointSlice()
		}
	case Manual:
		var w Written
		if m := s.manual(r.Key.Name, false); m != nil {
			v := m.endpoints()
			a.Outcome, w.Endpoints = There, &v
		}
		if m := s.manual(r.Key.Name, true); m != nil {
			a.Outcome, w.Slices = There, []sliceVersion{m.endpointSlice()}
		}
		if a.Outcome == There {
			a.Object = w
		}
	}
	return a
}

// follow follows hand-written endpoints where the state needs them, by and by.
func (s *shell) follow() {
	wanted, fresh := s.state.Store().ManualSources(), false
	for key, n := range wanted {
		fresh = fresh || s.followed[key] != n
	}
	s.followed = wanted
	for _, k := range []Kind{Endpoints, Slices} {
		if len(wanted) == 0 {
			s.watches[k] = watch{past: s.watches[k].past}
		} else if fresh {
			s.watches[k].want = true
		}
	}
}

func (s *shell) follows(service string) bool {
	return s.followed[syncer.Key{Namespace: namespace, Name: service}] > 0
}

func (s *shell) manualServices() []syncer.Key {
	return slices.SortedFunc(maps.Keys(s.followed), syncer.Key.Compare)
}

// pass lets time go by.
func (s *shell) pass(d time.Duration) {
	s.follow()
	for ; d > 0 && s.broken == nil; d -= time.Second {
		s.now = s.now.Add(min(d, time.Second))
		if !s.deaf {
			s.step(Probed{})
		}
		s.step(Tick{})
	}
}

// work does all that is due: lists, events, answers.
func (s *shell) work() {
	s.follow()
	for k := range kinds {
		if s.watches[k].want {
			s.list(k, &s.truth, none)
		}
		s.deliver(k, len(s.watches[k].events))
	}
	s.answer(len(s.reads))
}

func none(int) bool { return false }

// between is what comes between two pieces of a list.
func (s *shell) between(kind Kind) (events []Event) {
	switch s.steps % 4 {
	case 0:
		if len(s.reads) > 0 {
			r := s.reads[0]
			s.reads = s.reads[1:]
			a := s.reply(r.Read)
			if r.found != nil && !s.deaf {
				a = *r.found
			}
			events = append(events, a)
		}
	case 1:
		events = append(events, Tick{})
	case 2:
		other := Kind(s.steps / 4 % int(kinds))
		if w := &s.watches[other]; other != kind && !s.deaf && len(w.events) > 0 {
			e := w.events[0]
			w.events = w.events[1:]
			s.seen = max(s.seen, revisionOf(e))
			events = append(events, e)
		}
	}
	return events
}
