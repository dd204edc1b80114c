// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// object names an object of a member.
type object struct {
	Kind Kind
	Key  syncer.Key
}

func (o object) compare(p object) int {
	if o.Kind != p.Kind {
		return int(o.Kind) - int(p.Kind)
	}
	return o.Key.Compare(p.Key)
}

// absence is an object that the lists of its kind lack and that is kept.
type absence struct {
	id       object
	uid      string
	service  syncer.Key // of Endpoints and Slices
	replicas []syncer.Key
	addrs    []netip.Addr
	// since is when the first list lacked it, of those in a row; reported once a record
	// says so.
	since    time.Time
	reported bool
	// state is how far it was asked for.
	state askState
	// past is true where the store went back in time: what it says of this object is
	// about another past.
	past     bool
	asked    time.Time // when, or when it is to be asked again
	failures int
	// standing are endpoints that stand of it from before this process, of an object
	// that this process has not seen.
	standing []*standingEndpoint
}

// askState is how far an absent object was asked for.
type askState uint8

const (
	notAsked askState = iota
	asking
	askFailed
	isThere
	mayNotAsk
)

// hold is what is kept for one replica.
type hold struct {
	before  int // the ready endpoints that it had
	since   time.Time
	objects map[object]bool
}

// inquiry is a round of questions about the objects of a kind.
type inquiry struct {
	waiting map[object]bool
	// sampled is true where the answers stand for those that were not asked.
	sampled       bool
	there, mayNot bool
}

const (
	// askAll is how many objects are asked for one by one; of more, a sample of that
	// many, and of each replica that would be emptied at least one.
	askAll = 200
	// askLimit is how long a question may be under way, askFailures how many in a row
	// may fail before lists have to do.
	askLimit    = 30 * time.Second
	askFailures = 3
)

// lacks notes that a list lacks an object.
func (s *State) lacks(now time.Time, id object, uid string, replicas []syncer.Key, addrs []netip.Addr) {
	a := s.absent[id]
	if a == nil {
		a = &absence{id: id, uid: uid, since: now, addrs: addrs, past: s.quarantine.err != nil}
		s.absent[id] = a
		for _, addr := range addrs {
			s.addresses[addr] = append(s.addresses[addr], a)
		}
	}
	for _, former := range a.replicas {
		if !slices.Contains(replicas, former) {
			s.unhold(former, id)
		}
	}
	a.replicas = replicas
	if a.state == isThere || a.state == askFailed {
		a.state = notAsked // this list says again what was denied
	}
}

// reappeared ends an absence: the object is shown, or was seen to go.
func (s *State) reappeared(id object) {
	if a := s.absent[id]; a != nil {
		s.forget(a)
	}
}

// forget takes an absence off the books.
func (s *State) forget(a *absence) {
	delete(s.absent, a.id)
	for _, addr := range a.addrs {
		left := slices.DeleteFunc(s.addresses[addr], func(b *absence) bool { return b == a })
		if s.addresses[addr] = left; len(left) == 0 {
			delete(s.addresses, addr)
		}
	}
	for _, replica := range a.replicas {
		s.unhold(replica, a.id)
	}
	if q := s.inquiries[a.id.Kind]; q != nil {
		delete(q.waiting, a.id)
	}
}

// unhold ends the keeping of an object for a replica.
func (s *State) unhold(replica syncer.Key, id object) {
	if h := s.holds[replica]; h != nil {
		if delete(h.objects, id); len(h.objects) == 0 {
			delete(s.holds, replica)
		}
	}
}

// lacking are the absent objects of a kind, sorted.
func (s *State) lacking(kind Kind) []*absence {
	var all []*absence
	for id, a := range s.absent {
		if id.Kind == kind {
			all = append(all, a)
		}
	}
	return sortAbsences(all)
}

func sortAbsences(all []*absence) []*absence {
	slices.SortFunc(all, func(a, b *absence) int { return a.id.compare(b.id) })
	return all
}

// markHeld has the table count an object as one that lists lack.
func (s *State) markHeld(a *absence) {
	if a.state == isThere {
		return
	}
	switch a.id.Kind {
	case manualStanding:
	case Pods:
		s.store.HoldPod(a.id.Key)
	case Services:
		s.store.HoldService(a.id.Key)
	default:
		s.store.HoldManual(a.manual())
	}
}

func (a *absence) manual() store.ManualObject {
	if a.id.Kind == Endpoints {
		return store.ManualObject{Service: a.id.Key}
	}
	return store.ManualObject{Service: a.service, Slice: a.id.Key.Name}
}

// hold keeps what a replica would lose.
func (s *State) hold(now time.Time, l loss, lacking []*absence) {
	h := s.holds[l.replica]
	if h == nil {
		h = &hold{since: now, objects: map[object]bool{}}
		s.holds[l.replica] = h
	}
	h.before = max(h.before, l.before)
	for _, a := range lacking {
		h.objects[a.id] = true
	}
}

// byReplica sorts absences by the replicas that they matter to.
func byReplica(lacking []*absence) map[syncer.Key][]*absence {
	by := map[syncer.Key][]*absence{}
	for _, a := range lacking {
		for _, replica := range a.replicas {
			by[replica] = append(by[replica], a)
		}
	}
	return by
}

// settle removes an absent object: it is gone.
func (s *State) settle(now time.Time, a *absence, event string, out *Effects) {
	s.settleAll(now, []*absence{a}, event, out)
}

// settleAll removes absent objects. Its removals wait for nothing.
func (s *State) settleAll(now time.Time, gone []*absence, event string, out *Effects) {
	var dirty []store.Dirty
	for _, a := range gone {
		if s.absent[a.id] != a {
			continue
		}
		s.forget(a)
		switch a.id.Kind {
		case Pods:
			dirty = append(dirty, s.store.RemovePod(a.id.Key)...)
			s.readiness.gone(a.id.Key)
		case Services:
			dirty = append(dirty, s.store.RemoveService(a.id.Key)...)
		default:
			if len(a.standing) == 0 {
				dirty = append(dirty, s.store.RemoveManual(a.manual())...)
			}
		}
		for _, e := range a.standing {
			dirty = append(dirty, s.dropStanding(e)...)
		}
	}
	if slices.ContainsFunc(gone, func(a *absence) bool { return a.id.Kind == Services }) {
		defer s.judgeStanding(now, out) // what stood of them waits for nothing any more
	}
	if len(dirty) == 0 {
		return
	}
	cause := Cause{Kind: kindName(gone[0].id.Kind), Event: event}
	if event == "released" {
		cause.Kind = "Cluster"
	} else if len(gone) == 1 {
		cause.Key, cause.UID = gone[0].id.Key, gone[0].uid
	}
	out.Changes = append(out.Changes, Change{Cause: cause, Dirty: merged(dirty)})
}

func kindName(k Kind) string {
	return [...]string{"Service", "Pod", "Node", "Endpoints", "EndpointSlice", "Endpoints"}[k]
}

// reportKept puts on record, once, what is kept.
func (s *State) reportKept(kind Kind, out *Effects) {
	for _, a := range s.lacking(kind) {
		if a.reported {
			continue
		}
		a.reported = true
		cause := Cause{Kind: kindName(kind), Event: "missing", Key: a.id.Key, UID: a.uid, Kept: HoldList}
		if len(a.addrs) > 0 {
			cause.IP = a.addrs[0].String()
		}
		if len(a.standing) > 0 {
			cause.Kept = HoldStart
		}
		s.announce(out, Change{Cause: cause, Dirty: keptDirty(a.replicas), Bulk: true})
	}
}

// inquire asks for the objects of a kind that its lists lack: for all of them if they
// are few or the lists are known to be wrong, else for a sample.
func (s *State) inquire(now time.Time, kind Kind, out *Effects) {
	var open []*absence
	for _, a := range s.lacking(kind) {
		if a.state == notAsked || a.state == mayNotAsk {
			open = append(open, a)
		}
	}
	if len(open) == 0 {
		if len(s.lacking(kind)) == 0 {
			s.contradicted[kind], s.tries[kind] = time.Time{}, 0
		}
		return
	}
	q := &inquiry{waiting: map[object]bool{}}
	if len(open) > askAll && s.contradicted[kind].IsZero() {
		open, q.sampled = s.sample(open), true
	}
	s.inquiries[kind] = q
	for _, a := range open {
		s.ask(now, a, q, out)
	}
	if len(q.waiting) == 0 {
		q.mayNot = true
		s.inquired(now, kind, q, out)
	}
}

func (s *State) ask(now time.Time, a *absence, q *inquiry, out *Effects) {
	if a.id.Kind == manualStanding || a.past {
		a.state = mayNotAsk // nobody knows which object it was, or the answer would be worth nothing
		return
	}
	a.state, a.asked = asking, now
	q.waiting[a.id] = true
	out.Read = append(out.Read, Read{Kind: a.id.Kind, Key: a.id.Key, UID: a.uid})
}

// sample chooses from absent objects, of each replica that would be emptied one.
func (s *State) sample(all []*absence) []*absence {
	s.dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	emptied := map[syncer.Key]bool{}
	var chosen, rest []*absence
	for _, a := range all {
		needed := false
		for _, replica := range a.replicas {
			if _, seen, _ := s.store.ReadyEndpoints(replica); seen == 0 && !emptied[replica] {
				emptied[replica], needed = true, true
			}
		}
		if needed {
			chosen = append(chosen, a)
		} else {
			rest = append(rest, a)
		}
	}
	if room := askAll - len(chosen); room > 0 {
		chosen = append(chosen, rest[:min(room, len(rest))]...)
	}
	return sortAbsences(chosen)
}

// answered takes in what came of a question.
func (s *State) answered(now time.Time, e Answer, out *Effects) {
	a := s.absent[object{e.Kind, e.Key}]
	if a == nil || a.state != asking || a.uid != e.UID {
		return
	}
	q := s.inquiries[e.Kind]
	switch e.Outcome {
	case NotFound:
		s.settle(now, a, "asked", out)
	case There:
		s.isThere(now, a, e.Object, q, out)
	case Refused:
		a.state, a.asked = mayNotAsk, now
		s.mayNot(a, q)
	default:
		s.askedInVain(now, a, q)
	}
	if q != nil && len(q.waiting) == 0 {
		s.inquired(now, e.Kind, q, out)
	}
}

func (s *State) mayNot(a *absence, q *inquiry) {
	if q != nil {
		q.mayNot = true
		delete(q.waiting, a.id)
	}
}

func (s *State) askedInVain(now time.Time, a *absence, q *inquiry) {
	a.failures++
	a.state, a.asked = askFailed, now.Add(time.Second<<min(a.failures-1, 4))
	if a.failures >= askFailures {
		a.state = mayNotAsk
		s.mayNot(a, q)
	}
}

// askAgain asks again where questions have failed, or were lost.
func (s *State) askAgain(now time.Time, out *Effects) {
	for kind := range s.inquiries {
		q := s.inquiries[kind]
		if q == nil {
			continue
		}
		for _, a := range s.lacking(Kind(kind)) {
			switch {
			case a.state == asking && now.Sub(a.asked) >= askLimit:
				s.askedInVain(now, a, q)
			case a.state == askFailed && !now.Before(a.asked):
				s.ask(now, a, q, out)
			}
		}
		if len(q.waiting) == 0 {
			s.inquired(now, Kind(kind), q, out)
		}
	}
}

// isThere takes in an object that is there although lists lack it, unless it is another
// one of its name, or has finished.
func (s *State) isThere(now time.Time, a *absence, o any, q *inquiry, out *Effects) {
	var dirty []store.Dirty
	switch v := o.(type) {
	case store.Versioned[syncer.Pod]:
		if v.Object.Terminal || a.uid != "" && v.Object.UID != a.uid {
			s.settle(now, a, "asked", out)
			return
		}
		dirty, _ = s.takePod(now, v)
		s.meetStanding(now, &v.Object, out)
		s.reclaim(now, &v.Object, out)
	case store.Versioned[syncer.Service]:
		if a.uid != "" && v.Object.UID != a.uid {
			s.settle(now, a, "asked", out)
			return
		}
		dirty = s.store.SetService(v)
		s.serviceShown(now, v.Object.Key, out)
	case store.Versioned[store.Endpoints]:
		dirty = s.store.SetEndpoints(v)
	case store.Versioned[store.Slice]:
		dirty = s.store.SetSlice(v)
	}
	if s.absent[a.id] == a {
		a.state = isThere
	}
	if q != nil {
		q.there = true
		delete(q.waiting, a.id)
	}
	if s.contradicted[a.id.Kind].IsZero() {
		s.contradicted[a.id.Kind] = now
	}
	s.announce(out, Change{Cause: objectCause(kindName(a.id.Kind), a.id.Key, a.uid, 0, "asked"), Dirty: dirty})
}

// inquired ends a round of questions.
func (s *State) inquired(now time.Time, kind Kind, q *inquiry, out *Effects) {
	s.inquiries[kind] = nil
	var open []*absence
	for _, a := range s.lacking(kind) {
		if a.state == notAsked {
			open = append(open, a)
		}
	}
	switch {
	case q.there:
		s.dueBy(kind, now.Add(s.backoff(kind)))
		if len(open) > 0 { // what was not asked for is, one by one
			s.inquire(now, kind, out)
		}
	case q.mayNot:
		for _, a := range open {
			a.state = mayNotAsk
		}
		s.dueBy(kind, now.Add(s.backoff(kind)))
	case q.sampled:
		s.settleAll(now, open, "asked", out)
	}
	if !q.there && !slices.ContainsFunc(s.lacking(kind), func(a *absence) bool { return a.state == isThere }) {
		s.contradicted[kind] = time.Time{}
	}
	if len(s.lacking(kind)) == 0 {
		s.tries[kind] = 0
	}
}

// lookTwice is for objects that may not be asked for: what two lists lack, ConfirmAfter
// apart, goes, unless it is too much of the member.
func (s *State) lookTwice(now time.Time, kind Kind, losses []loss, before map[syncer.Key]int, empty bool, out *Effects) {
	var confirmed []*absence
	waits := false
	for _, a := range s.lacking(kind) {
		if a.state == mayNotAsk {
			waits = true
			if !s.lackedAgain(a, now).Before(a.since.Add(s.cfg.ConfirmAfter)) {
				confirmed = append(confirmed, a)
			}
		}
	}
	if !waits {
		return
	}
	lost, total := 0, 0
	for i := range losses {
		lost += losses[i].lost()
	}
	for _, n := range before {
		total += n
	}
	for _, r := range s.standing.replicas {
		total += r.left
	}
	if kind == manualStanding {
		empty = lost > s.cfg.MinEndpoints && !slices.ContainsFunc(losses, func(l loss) bool { return l.after > 0 })
	}
	if s.cfg.confirms(lost, max(total, lost), empty) {
		s.settleAll(now, confirmed, "relist", out)
	}
	if len(s.lacking(kind)) > 0 {
		s.dueBy(kind, now.Add(s.backoff(kind)))
	}
}

// lackedAgain is when lists last lacked an object: now, or where two kinds of list
// speak of it, when the older of them was read.
func (s *State) lackedAgain(a *absence, now time.Time) time.Time {
	if a.id.Kind != manualStanding {
		return now
	}
	if s.listedAt[Endpoints].Before(s.listedAt[Slices]) {
		return s.listedAt[Endpoints]
	}
	return s.listedAt[Slices]
}
