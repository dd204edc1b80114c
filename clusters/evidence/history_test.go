// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// raceSteps are those with the race detector, enoughSteps meet all effects whatever the dice.
const (
	raceSteps   = 50_000
	enoughSteps = 250_000
)

var stepsFlag = flag.Int64("steps", 0, "steps of TestHistories; 0: 1,000,000, less with the race detector")

// An op is one thing that happens in a history. What its numbers mean depends on the
// cluster it meets, so that any ops can be left out of a history and the rest still make
// sense.
type op struct {
	verb verb
	a, b int
}

type verb uint8

const (
	create verb = iota
	kill
	recreate // the same name, another pod
	terminate
	evict // finished: no list shows it any more
	ready
	move // another address
	relabel
	scaleDown
	rollOut
	toggleService
	reselect
	editManual
	silence
	save
	restore
	noticeRestore
	cut
	relist
	lie
	past
	deliver
	answer
	pass
	work
	muteGets
	deafen
	release
	restart
	forbid // or allow, to list a kind
	lose   // what was asked for is never answered
	ponder // the answer is found, and comes later
	bound  // another maxObjects
	rule   // other rules
	mark   // a pod that rules see in another way
	lead   // another process wrote until now
	widen  // more namespaces are read from now on
	verbs
)

var verbNames = [...]string{"create", "kill", "recreate", "terminate", "evict", "ready", "move", "relabel", "scale-down", "roll-out", "toggle-service",
	"reselect", "edit-manual", "silence", "save", "restore", "notice-restore", "cut", "relist", "lie", "past", "deliver", "answer", "pass", "work", "mute", "deafen",
	"release", "restart", "forbid", "lose", "ponder", "bound", "rule", "mark", "lead", "widen"}

func (o op) String() string { return fmt.Sprintf("%s(%d,%d)", verbNames[o.verb], o.a, o.b) }

// weights say how often a verb comes.
var weights = [verbs]int{create: 12, kill: 7, recreate: 4, terminate: 4, evict: 3, ready: 10, move: 1, relabel: 2, scaleDown: 2, rollOut: 2,
	toggleService: 1, reselect: 1, editManual: 4, silence: 1, save: 1, restore: 1, noticeRestore: 3, cut: 6, relist: 10, lie: 3, past: 1, deliver: 25, answer: 10,
	pass: 14, work: 10, muteGets: 1, deafen: 1, release: 1, restart: 1, forbid: 1, lose: 1, ponder: 2, bound: 1, rule: 2, mark: 2, lead: 1, widen: 1}

var serviceNames = []string{"a", "b", "c", "d", "all", "hand"}

var replicaNames = []string{"a", "b", "c", "all", "hand"}

// replicaOf merges two Services into one replica.
func replicaOf(service string) string {
	if service == "d" {
		return "a"
	}
	return service
}

// history is all that a failure depends on.
type history struct {
	seed uint64
	cfg  Config
	// stableFor is that of all Services.
	stableFor time.Duration
	// ruled is true where rules of the configuration come and go.
	ruled bool
	ops   []op
	met   map[string]bool // effects that came of it
}

func newHistory(seed uint64, length int) history {
	r := dice.From(seed, 21)
	h := history{seed: seed, cfg: Config{
		Limits: Limits{Lists: true, MinEndpoints: one(r, 0, 0, 1, 3, 10), Percent: one(r, 0, 15, 15, 50), ConfirmPercent: 50, ConfirmAfter: 3 * time.Second,
			PanicPercent: one(r, 0, 0, 55), HoldSilent: time.Duration(one(r, 0, 0, 20)) * time.Second},
		Placement: func(svc *syncer.Service) (syncer.Key, bool) {
			return syncer.Key{Namespace: svc.Namespace, Name: replicaOf(svc.Name)}, true
		},
	}}
	h.stableFor = time.Duration(one(dice.From(seed, 23), 0, 0, 2, 5)) * time.Second // other dice, so that histories stay as they are
	h.ruled = dice.From(seed, 25).IntN(3) == 0
	h.cfg.Damping = dampingOf(Damping{StableFor: h.stableFor, KeepOne: true})
	total := 0
	for _, w := range weights {
		total += w
	}
	for range length {
		n, v := r.IntN(total), verb(0)
		for ; n >= weights[v]; v++ {
			n -= weights[v]
		}
		h.ops = append(h.ops, op{v, r.IntN(1 << 16), r.IntN(1 << 16)})
	}
	return h
}

func one(r *rand.Rand, list ...int) int { return list[r.IntN(len(list))] }

// play runs a history from the beginning, and then to its end in peace.
func (h *history) play(log *strings.Builder) (*breach, int) {
	w := &cluster{}
	w.revision = 100
	r := dice.From(h.seed, 22)
	for i, name := range serviceNames {
		app := name
		switch name {
		case "all":
			app = everyPod
		case "hand":
			app = ""
			w.manuals = append(w.manuals, theManual{name, false, []int{5001, 5002}, w.bump(), w.nextMade()}, theManual{name, true, []int{5003}, w.bump(), w.nextMade()})
		}
		if name == "all" && r.IntN(4) > 0 {
			continue
		}
		w.services = append(w.services, theService{name, app, w.bump(), w.nextMade()})
		for range []int{3, 8, 1, 2, 0, 0}[i] {
			w.addPod(r.IntN(1<<16), r.IntN(1<<16), name)
		}
	}
	w.save()
	s := newShell(w, h.cfg, h.seed, log)
	s.stableFor, s.ruled, s.beside = h.stableFor, h.ruled, newBeside(h)
	s.work()
	for _, o := range h.ops {
		if s.broken != nil {
			return s.broken, s.steps
		}
		if log != nil {
			s.note("%v", o)
		}
		s.do(o)
	}
	s.peace()
	h.met = s.met
	return s.broken, s.steps
}

// addPod adds a pod of an app to the cluster.
func (w *cluster) addPod(a, b int, app string) thePod {
	w.uids++
	w.names++
	name := fmt.Sprintf("%s-%d", app, w.names)
	p := thePod{name: name, uid: fmt.Sprintf("%s.%d", name, w.uids), app: app, ip: w.freeIP(0), node: a % nodes, ready: b%4 > 0, host: b%10 == 9, marks: marksOf(b / 10), revision: w.bump()}
	if p.host {
		p.ip = hostIP(p.node)
	}
	w.pods = append(w.pods, p)
	return p
}

func marksOf(n int) string { return []string{"", "", "x", "y", "x+y"}[n%5] }

// rulesOf are some rules: they match few pods, or many, or all.
func rulesOf(n int) store.Decider {
	return deciderNamed([]string{"", "", "x/NotReady", "y/Absent", "x/Ready", "y/Upstream,x/NotReady", "x/Ready,y/NotReady", "all/NotReady", "x/Upstream,all/Absent"}[n%9])
}

// do lets one thing happen.
func (s *shell) do(o op) {
	var p *thePod
	if len(s.pods) > 0 {
		p = &s.pods[o.a%len(s.pods)]
	}
	switch o.verb {
	case create:
		s.showPod(s.addPod(o.a, o.b, serviceNames[o.a%4]), true)
	case scaleDown:
		app := serviceNames[o.a%4]
		for i := len(s.pods) - 1; i >= 0; i-- {
			if s.pods[i].app == app {
				s.kill(&s.pods[i])
			}
		}
	case rollOut:
		app, n := serviceNames[o.a%4], 0
		for i := len(s.pods) - 1; i >= 0; i-- {
			if s.pods[i].app == app {
				s.kill(&s.pods[i])
				n++
			}
		}
		for range n - o.b%2 {
			s.showPod(s.addPod(o.b, 1, app), true)
		}
	case kill, recreate, terminate, evict, ready, move, relabel, mark:
		if p != nil {
			s.changePod(o, p)
		}
	case toggleService, reselect:
		s.changeService(o)
	case editManual:
		s.editManual(o)
	case silence:
		n := o.a % nodes
		s.silent[n] = !s.silent[n]
		s.nodeShows(n)
	case save:
		s.save()
	case restore:
		s.cluster.restore()
		s.unnoticed = true
		for i := range s.reads { // answers on their way break off, as streams do
			s.reads[i].found = nil
		}
		for k := range s.watches {
			s.watches[k].past = true
			s.watches[k].open, s.watches[k].want, s.watches[k].events = false, false, nil
		}
	case noticeRestore:
		if s.unnoticed {
			s.noticeRestore()
		}
	case cut:
		s.cut(Kind(o.a % int(kinds)))
	case relist:
		if k := Kind(o.a % int(kinds)); s.watches[k].want {
			s.list(k, &s.truth, none)
		}
	case lie:
		k := []Kind{Pods, Pods, Pods, Services, Endpoints, Slices}[o.a%6]
		if s.cut(k); s.watches[k].want {
			r := dice.From(uint64(o.b), 23)
			share := one(r, 1, 3, 10) // of ten
			if r.IntN(3) == 0 {
				share = 1 // of the list, alone
				at := r.IntN(20)
				s.list(k, &s.truth, func(i int) bool { return i == at })
				return
			}
			s.list(k, &s.truth, func(int) bool { return r.IntN(10) < share })
		}
	case past:
		if s.snapshot.revision < s.seen && s.seen <= s.revision && !s.watches[Pods].past {
			if s.cut(Pods); s.watches[Pods].want {
				s.list(Pods, &s.snapshot, none)
			}
		}
	case deliver:
		s.deliver(Kind([]int{0, 1, 1, 1, 3, 4}[o.a%6]), 1+o.b%4)
	case answer:
		s.answer(1 + o.a%4)
	case pass:
		s.pass(time.Duration(1+o.a%3000) * time.Millisecond)
	case work:
		s.work()
	case muteGets:
		s.mute = !s.mute
	case deafen:
		if s.deaf = !s.deaf; s.deaf {
			s.step(Probed{Fault{Unreachable, errCut}})
			for k := range kinds {
				s.cut(k)
			}
		}
	case release:
		if o.a%2 == 0 {
			s.step(Release{})
		} else {
			s.step(Release{&syncer.Key{Namespace: namespace, Name: serviceNames[o.b%len(serviceNames)]}})
		}
	case restart:
		s.start()
	case forbid:
		k := []Kind{Services, Pods, Nodes, Endpoints, Slices}[o.a%5]
		s.cut(k)
		s.forbidden[k] = !s.forbidden[k]
	case lose:
		s.reads = s.reads[:len(s.reads)/2]
	case ponder:
		for i := range min(len(s.reads), 1+o.a%4) {
			r := s.reads[i]
			a := s.reply(r.Read)
			s.reads[i].found = &a
		}
	case bound:
		if s.beside != nil { // whose objects count
			return
		}
		s.cfg.MaxObjects = []int{0, 15, 18, 25}[o.a%4]
		s.step(Configured{s.cfg})
	case rule:
		if s.ruled {
			s.setRules(rulesOf(o.a))
		}
	case lead:
		s.lead(o.b%2 == 0)
	case widen:
		s.step(Rescoped{})
		for k := range kinds {
			s.cut(k)
		}
	}
}

// setRules is an edit of the rules. What they need is read anew where there were none: it
// was not kept.
func (s *shell) setRules(rules store.Decider) {
	if s.cfg.Decider == nil && rules != nil {
		s.since++
	}
	if s.cfg.Decider, s.cfg.KeptSince = rules, (store.KeptSince{}); rules != nil {
		s.cfg.KeptSince.Pod = s.since
	}
	s.step(Configured{s.cfg})
}

func (s *shell) noticeRestore() {
	s.seen, s.unnoticed = 0, false
	s.step(Restored{errCut})
	for k := range s.watches {
		s.watches[k] = watch{want: Kind(k) <= Nodes || len(s.followed) > 0, past: true}
	}
}

func (s *shell) showPod(p thePod, created bool) { s.emit(Pods, &Seen[syncer.Pod]{s.shown(p), created}) }

func (s *shell) kill(p *thePod) {
	gone := *p
	gone.revision = s.bump()
	if !p.finished {
		s.emit(Pods, &Gone[syncer.Pod]{s.shown(gone)})
	}
	s.pods = slices.DeleteFunc(s.pods, func(x thePod) bool { return x.name == gone.name })
}

func (s *shell) changePod(o op, p *thePod) {
	switch o.verb {
	case kill:
		s.kill(p)
		return
	case recreate:
		was := *p
		s.kill(p)
		s.uids++
		next := thePod{name: was.name, uid: fmt.Sprintf("%s.%d", was.name, s.uids), app: was.app, ip: s.freeIP(o.b % 2), node: o.b % nodes, ready: o.b%3 > 0, revision: s.bump()}
		s.pods = append(s.pods, next)
		s.showPod(next, true)
		return
	case terminate:
		p.terminating = true
	case evict:
		if !p.finished {
			p.finished, p.ready, p.revision = true, false, s.bump()
			s.emit(Pods, &Gone[syncer.Pod]{s.shown(*p)})
		}
		return
	case ready:
		p.ready = !p.ready
	case move:
		if !p.host {
			p.ip = s.freeIP(o.b % 3)
		}
	case relabel:
		p.app = serviceNames[o.b%4]
	case mark:
		p.marks = marksOf(o.b)
	}
	if !p.finished {
		p.revision = s.bump()
		s.showPod(*p, false)
	}
}

func (s *shell) changeService(o op) {
	name := serviceNames[o.a%len(serviceNames)]
	svc := s.service(name)
	switch {
	case svc == nil:
		app := name
		if name == "all" {
			app = everyPod
		}
		if name == "hand" {
			app = ""
		}
		s.services = append(s.services, theService{name, app, s.bump(), s.nextMade()})
		s.emit(Services, &Seen[syncer.Service]{s.services[len(s.services)-1].shown(), true})
	case o.verb == toggleService:
		gone := *svc
		gone.revision = s.bump()
		s.services = slices.DeleteFunc(s.services, func(x theService) bool { return x.name == name })
		s.emit(Services, &Gone[syncer.Service]{gone.shown()})
	default:
		svc.app = []string{name, "", "a", "b"}[o.b%4]
		svc.revision = s.bump()
		s.emit(Services, &Seen[syncer.Service]{svc.shown(), false})
	}
}

// editManual writes, edits or deletes what is written by hand for a Service.
func (s *shell) editManual(o op) {
	service, slice := []string{"hand", "hand", "a", "b"}[o.a%4], o.a%8 < 4
	r := dice.From(uint64(o.b), 24)
	m := s.manual(service, slice)
	switch {
	case m != nil && r.IntN(4) == 0:
		gone := *m
		gone.revision = s.bump()
		s.manuals = slices.DeleteFunc(s.manuals, func(x theManual) bool { return x.service == service && x.slice == slice })
		s.emitManual(gone, true)
		return
	case m == nil:
		s.manuals = append(s.manuals, theManual{service: service, slice: slice, made: s.nextMade()})
		m = &s.manuals[len(s.manuals)-1]
	}
	m.ips, m.revision = nil, s.bump()
	for _, n := range r.Perm(5)[:1+r.IntN(3)] {
		m.ips = append(m.ips, 5001+n)
	}
	s.emitManual(*m, false)
}

func (s *shell) emitManual(m theManual, gone bool) {
	wide := s.seed%3 == 0 // one watch for all of a namespace
	switch {
	case !wide && !s.follows(m.service):
	case m.slice && gone:
		s.emit(Slices, &Gone[store.Slice]{m.endpointSlice()})
	case m.slice:
		s.emit(Slices, &Seen[store.Slice]{m.endpointSlice(), false})
	case gone:
		s.emit(Endpoints, &Gone[store.Endpoints]{m.endpoints()})
	default:
		s.emit(Endpoints, &Seen[store.Endpoints]{m.endpoints(), false})
	}
}

// nodeShows lets the pods of a node be seen anew.
func (s *shell) nodeShows(n int) {
	for i := range s.pods {
		if p := &s.pods[i]; p.node == n && p.ready && !p.finished {
			p.revision = s.bump()
			s.showPod(*p, false)
		}
	}
}

// peace ends all faults, and gives the state a minute and a half.
func (s *shell) peace() {
	s.note("peace")
	s.beside.grant()
	s.deaf, s.mute, s.forbidden = false, false, [kinds]bool{}
	if s.cfg.MaxObjects > 0 && s.seed%2 == 0 {
		s.cfg.MaxObjects = 0
		s.step(Configured{s.cfg})
	}
	for i := len(s.pods) - 1; s.cfg.MaxObjects > 0 && i >= 0 && len(s.pods) > s.cfg.MaxObjects-s.cfg.MaxObjects/10; i-- {
		s.kill(&s.pods[i])
	}
	if s.unnoticed {
		s.noticeRestore()
	}
	for n := range s.silent {
		if s.silent[n] {
			s.silent[n] = false
			s.nodeShows(n)
		}
	}
	for i := range s.pods {
		if p := &s.pods[i]; s.cfg.PanicPercent > 0 && !p.ready && !p.finished {
			p.ready, p.revision = true, s.bump()
			s.showPod(*p, false)
		}
	}
	for k := range kinds {
		s.cut(k)
	}
	for second := range 90 {
		// A store that went back answers for its past: of what it lacks beyond that which a
		// second list may take, an operator must say that it is gone.
		if second == 60 && (s.doubted || len(s.state.ruling.held) > 0) {
			s.step(Release{})
		}
		s.work()
		s.pass(time.Second)
	}
	if s.broken == nil {
		s.converged()
	}
	s.zero()
}

// zero: what changes nothing is no news.
func (s *shell) zero() {
	s.quiet = true
	for k := range kinds {
		s.cut(k)
	}
	for range 70 {
		s.work()
		s.pass(time.Second)
	}
	s.quiet = false
}

// effects are what histories have to meet, or they show little.
var effects = []string{
	"event added", "event modified", "event deleted", "event relist", "event missing", "event asked", "event reused", "event replaced",
	"event released", "event panic", "event config", "kept list_shrank", "kept rule_would_empty", "kept first_list_shrank", "kept mass_not_ready", "kept node_silent", "let return by another process",
	"reason ChangesHeld", "reason RevisionRegressed", "reason ListIncomplete", "reason MassNotReady", "reason Unreachable", "reason Unusable",
}

func TestHistories(t *testing.T) {
	want := *stepsFlag
	if want == 0 {
		want = defaultSteps
	}
	seed := dice.Seed(t)
	var steps, histories atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	var mu sync.Mutex
	met := map[string]int{}
	for range min(runtime.GOMAXPROCS(0), 4) {
		workers.Go(func() {
			for steps.Load() < want && !failed.Load() {
				h := newHistory(seed+uint64(histories.Add(1))-1, 150)
				broken, n := h.play(nil)
				steps.Add(int64(n))
				mu.Lock()
				for effect := range h.met {
					met[effect]++
				}
				mu.Unlock()
				if broken != nil && failed.CompareAndSwap(false, true) {
					t.Error(h.tell(broken))
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d steps in %d histories met %v", steps.Load(), histories.Load(), met)
	if t.Failed() || steps.Load() < enoughSteps {
		return
	}
	for _, effect := range effects {
		if met[effect] == 0 {
			t.Errorf("no history met %q", effect)
		}
	}
}

// tell makes a failing history short, and plays it once more aloud.
func (h *history) tell(broken *breach) string {
	h.shrink(broken.law)
	var log strings.Builder
	broken, _ = h.play(&log)
	return fmt.Sprintf("history %d breaks %s: %s\n%+v\n%v\n%s", h.seed, broken.law, broken.what, h.cfg.Limits, h.ops, log.String())
}

// shrink leaves out ops, long runs first, as long as the same law is broken.
func (h *history) shrink(law string) {
	for size := len(h.ops); size > 0; size /= 2 {
		for from := 0; from < len(h.ops); {
			shorter := *h
			shorter.ops = slices.Delete(slices.Clone(h.ops), from, min(from+size, len(h.ops)))
			if broken, _ := shorter.play(nil); broken != nil && broken.law == law {
				*h = shorter
			} else {
				from += size
			}
		}
	}
}
