// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

var update = flag.Bool("update", false, "rewrite what the transcripts in testdata/transcripts expect; read every line of the difference")

// TestTranscripts plays the stories in testdata/transcripts: lines that begin with a
// time are what happens, indented lines are what comes of it. README.txt there has the
// words.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "README.txt" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(want, []byte("# ")) {
				t.Error("a transcript begins with a comment: what happens, and which rule it shows")
			}
			got, err := play(string(want))
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("%s: is not what happens (-want +got); rewrite it with -update and read the difference:\n%s", file, difference(string(want), got))
			}
		})
	}
}

// difference shows the lines that two texts do not share, in a story with its line
// before.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	// Longest common subsequence, for texts of a few hundred lines.
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	event := ""
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			if !strings.HasPrefix(a[i], " ") {
				event = "  " + a[i] + "\n"
			}
			i, j = i+1, j+1
			continue
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			fmt.Fprintf(&out, "%s- %s\n", event, a[i])
			i++
		default:
			fmt.Fprintf(&out, "%s+ %s\n", event, b[j])
			j++
		}
		event = ""
	}
	return out.String()
}

// play plays a story, and returns it with what comes of it.
func play(text string) (string, error) {
	r := newReplay()
	var out strings.Builder
	for number, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue // what came of it before
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := r.line(line); err != nil {
			return "", fmt.Errorf("%d: %w", number+1, err)
		}
		for _, o := range r.out {
			fmt.Fprintf(&out, "        %s\n", o)
		}
		r.out = nil
	}
	return out.String(), nil
}

// replay is a story on its way.
type replay struct {
	cfg      Config
	state    *State
	now      time.Time
	probes   bool // time that passes is probed, with success
	reads    []Read
	standing map[syncer.Key]Standing
	shown    map[syncer.Key]string // contributions as they were shown
	touched  map[syncer.Key]syncer.Effect
	records  map[syncer.Key]string // replicas of which it is on record that something is kept
	member   *View                 // that is not told yet
	asked    []string
	said     []string
	// revisions of items as they were spelt.
	revisions map[string]uint64
	latest    uint64 // the revision of the last list
	holds     string
	waits     string
	damping   Damping
	clock     time.Duration // how far the member's is ahead of ours; noClock: it does not say
	noClock   bool
	begun     time.Time // the list under way; zero: it does not say
	others    bool      // other members give ready endpoints to all replicas
	decodes   uint32    // see store.Kept.Since
	rules     string
	synced    bool
	panicAt   time.Time // as the process ended
	out       []string
}

func newReplay() *replay {
	r := &replay{now: start, probes: true, standing: map[syncer.Key]Standing{}, shown: map[syncer.Key]string{}, touched: map[syncer.Key]syncer.Effect{}, records: map[syncer.Key]string{}, revisions: map[string]uint64{}}
	r.cfg = Config{
		Limits: Limits{Lists: true, MinEndpoints: 10, Percent: 15, ConfirmPercent: 50, ConfirmAfter: 3 * time.Second, PanicPercent: 55},
		Placement: func(svc *syncer.Service) (syncer.Key, bool) {
			if as := svc.Annotations["as"]; as != "" {
				return syncer.Key{Namespace: svc.Namespace, Name: as}, true
			}
			return svc.Key, true
		},
	}
	return r
}

var start = time.Unix(0, 0)

// line plays one line: a time and what happens then.
func (r *replay) line(line string) error {
	when, what, _ := strings.Cut(line, " ")
	at, err := time.ParseDuration(when)
	if err != nil {
		return fmt.Errorf("a line begins with a time, a # or a blank: %q", line)
	}
	what = strings.TrimSpace(what)
	if end, ok := strings.CutPrefix(what, "until "); ok {
		d, err := time.ParseDuration(end)
		if err != nil {
			return err
		}
		return r.pass(start.Add(d), true)
	}
	if err := r.pass(start.Add(at), false); err != nil {
		return err
	}
	err = r.happens(what)
	r.tell()
	return err
}

// pass lets time pass, a second at a time. Between two lines nothing may come of that.
func (r *replay) pass(to time.Time, aloud bool) error {
	if to.Before(r.now) {
		return fmt.Errorf("%v is before %v", to.Sub(start), r.now.Sub(start))
	}
	for r.now.Before(to) && r.state != nil {
		r.now = r.now.Add(min(to.Sub(r.now), time.Second))
		before := len(r.out)
		if r.probes {
			r.step(Probed{})
		}
		r.step(Tick{})
		r.tell()
		for i := before; i < len(r.out); i++ {
			r.out[i] = fmt.Sprintf("%v: %s", r.now.Sub(start), r.out[i])
		}
		if !aloud && len(r.out) > 0 {
			return fmt.Errorf("something comes of time that passes: show it by a line \"%v until %v\": %s", r.now.Sub(start)-time.Second, to.Sub(start), r.out[0])
		}
	}
	r.now = to
	return nil
}

// step lets the state take in an event, and writes down what comes of it.
func (r *replay) step(e Event) {
	if r.state == nil {
		r.state = New(r.now, r.cfg, 1)
	}
	for e != nil {
		out := r.state.Step(r.now, e)
		r.effects(out)
		for _, replica := range out.Alone {
			if !r.others {
				r.step(Return{replica})
			}
		}
		if e = out.Next; e == nil && out.Work {
			e = Enforce{}
		}
	}
}

// tell says what came of a line, or of a second that passed: of what changed several
// times the last.
func (r *replay) tell() {
	if r.state == nil {
		return
	}
	r.showMember()
	r.showChanges()
	if len(r.asked) > 0 {
		r.say("ask for %s", strings.Join(few(r.asked), ", "))
	}
	r.showHolds()
	r.showWaits()
	r.showRules()
	r.out = append(r.out, r.said...)
	r.asked, r.said, r.member = nil, nil, nil
}

func (r *replay) say(format string, args ...any) { r.out = append(r.out, fmt.Sprintf(format, args...)) }

func (r *replay) effects(out Effects) {
	if out.View != nil {
		r.member = out.View
	}
	r.note(out)
	for _, k := range out.List {
		r.said = append(r.said, fmt.Sprintf("list %v again", k))
	}
	for _, read := range out.Read {
		r.asked = append(r.asked, strings.TrimSuffix(read.Kind.String(), "s")+" "+short(read.Key))
		r.reads = append(r.reads, read)
	}
	if x := out.Released; x != (Released{}) {
		r.said = append(r.said, fmt.Sprintf("released: %d pods, %d services, %d manual, %d standing, %d not ready%s", x.Pods, x.Services, x.Manual, x.Standing, x.NotReady, ruledText(x.Ruled)))
	}
	for _, f := range out.Facts {
		r.said = append(r.said, fmt.Sprintf("log %s: %s%s", [...]string{"info", "warning", "error"}[f.Severity], f.Message, showArgs(f.Args)))
	}
}

func (r *replay) showMember() {
	v := r.member
	if v == nil {
		return
	}
	text := "member is " + string(v.State)
	if v.Reason != "" {
		text += ": " + string(v.Reason)
	}
	if v.Panicking {
		text += ", in panic"
	}
	if v.Stale {
		text += ", stale"
	}
	if v.Synced && !r.synced {
		text += ", and was read whole"
	}
	r.synced = r.synced || v.Synced
	r.say("%s", text)
}

// note gathers which replicas are touched.
func (r *replay) note(out Effects) {
	for _, c := range out.Changes {
		if c.Cause.Event == "stable" || c.Cause.Event == "keep_one" {
			r.said = append(r.said, fmt.Sprintf("%s returns: %s", short(c.Cause.Key), c.Cause.Event))
		}
		if c.Cause.Rule != "" && c.Cause.Kept == "" {
			r.said = append(r.said, fmt.Sprintf("on record by rule %s: %s %s", c.Cause.Rule, c.Cause.Kind, c.Cause.Event))
		}
		for _, d := range c.Dirty {
			r.touched[d.Replica] = max(r.touched[d.Replica], d.Effect)
			if c.Cause.Kept != "" {
				r.records[d.Replica] = string(c.Cause.Kept)
			}
			if _, known := r.shown[d.Replica]; !known {
				r.shown[d.Replica] = "nothing"
			}
		}
	}
}

// showChanges shows what the replicas get, where that is another thing than before.
func (r *replay) showChanges() {
	for _, key := range slices.SortedFunc(maps.Keys(r.shown), syncer.Key.Compare) {
		text, effect := r.contribution(key), r.touched[key]
		switch {
		case text != r.shown[key]:
			r.shown[key] = text
			r.say("%s%s: %s", short(key), map[syncer.Effect]string{syncer.Removal: " (removal)", syncer.None: " (nobody says so)"}[effect], text)
		case r.records[key] != "":
			r.say("%s stays, on record as held: %s", short(key), r.records[key])
		}
	}
	clear(r.touched)
	clear(r.records)
}

// contribution is what a replica gets; of an endpoint that is not ready with a !.
func (r *replay) contribution(replica syncer.Key) string {
	share := r.state.Share(replica)
	var endpoints []syncer.Endpoint
	pending := false
	for _, c := range store.Peek(share.Inputs) {
		pending = pending || c.Pending
		endpoints = append(endpoints, c.Endpoints...)
	}
	slices.SortFunc(endpoints, func(a, b syncer.Endpoint) int { return a.Addr.Compare(b.Addr) })
	var parts []string
	for i := range endpoints {
		parts = append(parts, showEndpoint(&endpoints[i]))
	}
	if pending {
		parts = append(parts, "(what stands, until it is read)")
	}
	switch {
	case share.Unseen && len(share.Gone) > 0:
		parts = append(parts, fmt.Sprintf("what stands, without %v", share.Gone))
	case share.Unseen:
		parts = append(parts, "what stands")
	case len(parts) == 0:
		return "nothing"
	}
	return strings.Join(few(parts), " ")
}

func showEndpoint(e *syncer.Endpoint) string {
	if e.Ready {
		return e.Addr.String()
	}
	return e.Addr.String() + "!"
}

// few shortens a list of texts.
func few(list []string) []string {
	if len(list) <= 16 {
		return list
	}
	return append(slices.Clone(list[:3]), fmt.Sprintf("… (%d)", len(list)))
}

func (r *replay) showHolds() {
	var lines []string
	for _, h := range r.state.Holds() {
		text := "member"
		if h.Replica != (syncer.Key{}) {
			text = short(h.Replica)
		}
		text += " is held: " + string(h.Reason) + ": " + h.Message
		if h.Confirming {
			text += " (may end by itself)"
		}
		lines = append(lines, text)
	}
	if text := strings.Join(lines, "\n"); text != r.holds {
		r.holds = text
		if text == "" {
			lines = []string{"nothing is held"}
		}
		r.out = append(r.out, lines...)
	}
}

// showWaits shows which endpoints wait, where that has changed.
func (r *replay) showWaits() {
	var waits []string
	for _, service := range r.services() {
		all := r.state.waits(service)
		for _, pod := range slices.SortedFunc(maps.Keys(all), syncer.Key.Compare) {
			w := all[pod]
			waits = append(waits, fmt.Sprintf("%s in %s until %v", short(pod), short(service), w.Since.Add(w.For).Sub(start)))
		}
	}
	if text := strings.Join(few(waits), ", "); text != r.waits {
		r.waits = text
		r.say("waits: %s", cmp.Or(text, "none"))
	}
	if n := r.state.Waiting(); n != len(waits) {
		r.say("counted as waiting: %d", n)
	}
}

func (r *replay) services() (all []syncer.Key) {
	for _, replica := range r.state.store.Replicas() {
		all = append(all, r.state.store.Sources(replica)...)
	}
	return all
}

func showArgs(args []any) string {
	var out strings.Builder
	for i := 0; i+1 < len(args); i += 2 {
		fmt.Fprintf(&out, " %v=%v", args[i], args[i+1])
	}
	return out.String()
}

func short(k syncer.Key) string {
	if k.Namespace == namespace {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// objects that the stories name
type (
	podItem     = store.Versioned[syncer.Pod]
	serviceItem = store.Versioned[syncer.Service]
)
