// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// service reads "1 2! 3t 4p": the last numbers of addresses, with ! for not ready, t for one
// that terminates and still serves, and p for one of another protocol; "-" is a Service that
// does not exist.
func service(text string) *Service {
	if text == "-" {
		return nil
	}
	var endpoints []Endpoint
	for _, word := range strings.Fields(text) {
		number := strings.TrimRight(word, "!tp")
		mark := strings.TrimPrefix(word, number)
		endpoints = append(endpoints, Endpoint{
			Addr: netip.MustParseAddr("10.0.0." + number), Cluster: "a",
			Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 80, AppProtocol: syncer.AppProtocol{Value: "h2c", Set: mark == "p"}}},
			Ready: mark == "" || mark == "p", Serving: mark != "!", Terminating: mark == "t",
		})
	}
	return NewService(endpoints)
}

func text(s *Service) string {
	if s == nil {
		return "-"
	}
	var words []string
	for _, e := range s.Endpoints {
		word := strings.TrimPrefix(e.Addr.String(), "10.0.0.")
		switch {
		case e.Terminating:
			word += "t"
		case !e.Ready:
			word += "!"
		case e.Ports[0].AppProtocol.Set:
			word += "p"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// told writes a batch as "web=1 2 (+2 -3)".
func told(changes []Change) string {
	var out []string
	for _, c := range changes {
		word := c.Key.Name + "=" + text(c.Service)
		for _, part := range []struct {
			sign  string
			spots []string
		}{{"+", c.Delta.Added}, {"-", c.Delta.Removed}, {"^", c.Delta.Readied}, {"v", c.Delta.Unreadied}} {
			for _, at := range part.spots {
				word += " " + part.sign + strings.TrimSuffix(strings.TrimPrefix(at, "10.0.0."), ":80")
			}
		}
		out = append(out, word)
	}
	return strings.Join(out, "; ")
}

func key(name string) syncer.Key { return syncer.Key{Namespace: "shop", Name: name} }

func options(changes, removals time.Duration) Options {
	return Options{Windows: Windows{Changes: changes, Removals: removals}, MaxServices: 8, MaxBytes: 1 << 20}
}

// TestStories plays one story a row: each step is "seconds command", and what it must give.
// Commands: NAME=STATE tells what is; take gives what is told; ok, fail and refuse say how
// that went; next gives when the next is due, late how long ago the oldest pending was; begin
// has what a former leader left, and suspect since when that may lack something.
func TestStories(t *testing.T) {
	for _, test := range []struct {
		name              string
		changes, removals time.Duration
		steps             string
	}{
		{"a new Service is gathered", 2 * time.Second, 0, `
			0 web=1
			1 web=1 2
			1 next: 2
			1.9 take:
			2 take: web=1 2 +1 +2
			2 ok
			2 next: none`},
		{"a removal is told at once, and nothing else before its window", 2 * time.Second, 0, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1 2 3
			4 web=1 3
			4 take: web=1 -2
			4 ok
			4 next: 5
			5 take: web=1 3 +3
			5 ok
			9 take:`},
		{"what comes and goes within the window is not told beside a removal, either", 2 * time.Second, 0, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1 2 3
			3.5 web=1 3
			3.5 take: web=1 -2
			3.5 ok
			4 web=1
			9 take:`},
		{"an address that returns, and goes again while others go, is told to go once", 2 * time.Second, 0, `
			0 web=1 2 3 4 5
			2 take: web=1 2 3 4 5 +1 +2 +3 +4 +5
			2 ok
			3 web=1! 2 3 4 5
			3 take: web=1! 2 3 4 5 v1
			3 ok
			3.5 web=1 2 3 4 5
			4 web=1 2! 3 4 5
			4 take: web=1! 2! 3 4 5 v2
			4.2 web=1! 2! 3 4 5
			4.2 ok
			5 web=1 2 3 4 5
			6.9 take:
			7 take: web=1 2 3 4 5 ^1 ^2
			7 ok`},
		{"what came is told with a removal that would leave less than half", 2 * time.Second, 0, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1 2 3 4
			4 web=1 3 4
			4 take: web=1 3 4 +3 +4 -2
			4 ok
			5 web=1 3 4 5
			5 web=5
			5 take: web=5 +5 -1 -3 -4
			5 ok`},
		{"an address whose ports change is never away", 2 * time.Second, 0, `
			0 web=1 2 3 4
			2 take: web=1 2 3 4 +1 +2 +3 +4
			2 ok
			3 web=1 2 3 4 5
			4 web=1 2 3 4p 5
			4 take: web=1 2 3 4p 5 +5`},
		{"a new Service waits for its window, whatever goes of it", 2 * time.Second, 0, `
			0 web=1 2
			1 web=1
			1 next: 2
			2 take: web=1 +1
			2 ok`},
		{"what comes and goes within the window is not told", 2 * time.Second, 0, `
			0 web=1
			2 take: web=1 +1
			2 ok
			3 web=1 2
			4 web=1
			9 take:`},
		{"what goes and returns within its window is not told", 2 * time.Second, 3 * time.Second, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1
			5 web=1 2
			9 take:`},
		{"an address in its window is told as it was, whatever else is told", 2 * time.Second, 3 * time.Second, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1 3
			5 take: web=1 2 3 +3
			5 ok
			5.5 web=1 2 3
			9 take:`},
		{"an address is not told before its window, and then it is", 2 * time.Second, 3 * time.Second, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1
			4 web=
			5.9 take:
			6 take: web=1 -2
			6 ok
			7 take: web= -1
			7 ok`},
		{"after a failure what was told to come is told again at once, beside what goes", 2 * time.Second, 0, `
			0 web=1 2 3
			2 take: web=1 2 3 +1 +2 +3
			2 ok
			3 web=1 2 3 4
			5 take: web=1 2 3 4 +4
			5.5 web=1 2 4
			6 fail
			6 take: web=1 2 4 +4 -3
			6 ok
			9 take:`},
		{"not ready is a removal, ready again is not", 2 * time.Second, 0, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1 2!
			3 take: web=1 2! v2
			3 ok
			4 web=1 2
			4 next: 6
			6 take: web=1 2 ^2
			6 ok`},
		{"terminating is told at once, and so is the end of serving", 2 * time.Second, 0, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1 2t
			3 take: web=1 2t v2
			3 ok
			4 web=1
			4 take: web=1 -2
			4 ok`},
		{"a Service that is deleted", 2 * time.Second, 0, `
			0 web=1
			2 take: web=1 +1
			2 ok
			3 web=-
			3 take: web=- -1
			3 ok
			3 next: none`},
		{"a Service that is deleted and made again within the window", 2 * time.Second, 3 * time.Second, `
			0 web=1
			2 take: web=1 +1
			2 ok
			3 web=-
			4 web=1
			9 take:`},
		{"an empty Service differs from none", 2 * time.Second, 0, `
			0 web=
			2 take: web=
			2 ok
			3 web=-
			3 take: web=-
			3 ok`},
		{"after a failure the newest is told, and no backlog", 2 * time.Second, 0, `
			0 web=1
			2 take: web=1 +1
			3 web=1 2
			3 web=2
			3 next: none
			4 fail
			4 take: web=2 +2
			4 ok
			9 take:`},
		{"after a failure what is back as it was is told: nobody knows what was taken", 2 * time.Second, 0, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1
			3 take: web=1 -2
			3.5 web=1 2
			4 fail
			4 take: web=1 2
			4 ok
			9 take:`},
		{"after a failure a removal that was told is not held back again", 2 * time.Second, 3 * time.Second, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			2 ok
			3 web=1
			6 take: web=1 -2
			7 fail
			7 take: web=1 -2
			7 ok`},
		{"a removal while a request is in flight", 2 * time.Second, 0, `
			0 web=1 2
			2 take: web=1 2 +1 +2
			3 web=1
			5 ok
			5 take: web=1 -2
			5 ok`},
		{"what arrives in flight is gathered from when it came", 2 * time.Second, 0, `
			0 web=1
			2 take: web=1 +1
			3 web=1 2
			4 ok
			4 next: 5
			5 take: web=1 2 +2
			5 ok`},
		{"a window is no lag, a failure and what follows are", 10 * time.Second, 20 * time.Second, `
			0 web=1
			1 late: -9
			12 late: 2
			12 take: web=1 +1
			13 late: 3
			13 fail
			14 web=1 2
			15 late: 5
			15 take: web=1 +1
			15 ok
			16 late: -8
			24 take: web=1 2 +2
			24 ok
			25 web=1
			26 late: -19
			27 web=1 3
			28 late: -9
			37 take: web=1 2 3 +3
			37 ok
			38 late: -7`},
		{"after a failure, what comes and goes within its window is not told", 10 * time.Second, 0, `
			0 web=1 2 3 4
			10 take: web=1 2 3 4 +1 +2 +3 +4
			10 ok
			20 web=1 2 3
			20 take: web=1 2 3 -4
			20.1 fail
			20.2 web=1 2 3 5
			20.5 take: web=1 2 3 -4
			20.6 fail
			21 take: web=1 2 3 -4
			21 ok
			22 web=1 2 3
			90 take:`},
		{"after a failure, what came waits for the rest of its window", 10 * time.Second, 0, `
			0 web=1 2 3 4
			10 take: web=1 2 3 4 +1 +2 +3 +4
			10 ok
			20 web=1 2 3
			20 take: web=1 2 3 -4
			21 web=1 2 3 5
			22 fail
			22 take: web=1 2 3 -4
			23 fail
			30.9 take: web=1 2 3 -4
			30.9 fail
			31 take: web=1 2 3 5 +5 -4
			31 ok
			90 take:`},
		{"after a failure, what goes and returns within its window is not told", 0, 10 * time.Second, `
			0 web=1 2
			0 take: web=1 2 +1 +2
			0 ok
			1 web=1 2 3
			1 take: web=1 2 3 +3
			2 fail
			3 web=1 2
			4 web=1 3
			4 take: web=1 2 3 +3
			5 fail
			6 web=1 2 3
			6 take: web=1 2 3 +3
			6 ok
			90 take:`},
		{"an address that came in a request that failed goes by its window", 0, 5 * time.Second, `
			0 web=1 2
			0 take: web=1 2 +1 +2
			0 ok
			1 web=1 2 3
			1 take: web=1 2 3 +3
			2 fail
			3 web=1 2
			7.9 take: web=1 2 3 +3
			7.9 fail
			8 take: web=1 2
			8 ok
			90 take:`},
		{"a Service that went in a request that failed, and is back", 10 * time.Second, 0, `
			0 web=1 2
			10 take: web=1 2 +1 +2
			10 ok
			20 web=-
			20 take: web=- -1 -2
			20.5 fail
			21 web=1 2 3
			21 take: web=1 2
			21 ok
			30.9 take:
			31 take: web=1 2 3 +3`},
		{"a Service that is refused stands in nobody's way", 0, 0, `
			0 a=1
			0 b=1
			0 c=1
			0 d=1
			0 take: a=1 +1; b=1 +1; c=1 +1; d=1 +1
			0 refuse
			0 take: a=1 +1; b=1 +1
			0 refuse
			0 take: a=1 +1
			0 refuse
			0 take: b=1 +1
			0 ok
			0 take: c=1 +1; d=1 +1
			0 ok
			0 next: 5
			1 e=1
			1 take: e=1 +1
			1 ok
			5 take: a=1 +1
			5 refuse
			5 next: 15
			6 a=2
			6 take: a=2 +2
			6 ok
			6 next: none`},
		{"what a former leader may have told is not told again to be there, whatever the windows are", 10 * time.Second, 10 * time.Second, `
			0 begin 0: doubtful?=1 2; certain=1 2
			0 doubtful=2 3
			0 certain=2 3
			0 take: doubtful=2 3 +3 -1
			0 fail
			0 doubtful=1 2 4
			0 take: doubtful=1 2 3 +3
			0 ok
			10 take: certain=2 3 +3 -1; doubtful=1 2 4 +4 -3`},
		{"a Service of which nothing is acknowledged, but which may have been told, is told to be gone", 0, 0, `
			0 begin 0: web?=-
			0 take:
			0 web=-
			0 take: web=-
			0 ok
			0 keys: []`},
		{"what was heard to go while another told is told anew, though it is back; what was gone before, or only came, is not", 0, 0, `
			0 back=1 2
			0 early=1 2
			0 grown=1
			0 early=1
			0 early=1 2
			2 back=1 2!
			3 back=1 2
			3 grown=1 2
			3 new=1 2
			4 begin 10: back=1 2; early=1 2; grown=1 2; new=1 2
			4 suspect 1
			4 take: back=1 2`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &story{Ledger: New(options(test.changes, test.removals))}
			if !strings.Contains(test.steps, " begin ") {
				s.Begin(nil, 0, start)
			}
			for line := range strings.Lines(strings.TrimSpace(test.steps)) {
				s.play(t, strings.TrimSpace(line))
			}
		})
	}
}

// story is a Ledger whose generations are greater than one that was given before.
type story struct {
	*Ledger
	given int64
}

func seconds(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Second))) }

// begin reads "GENERATION: NAME=STATE; NAME?=STATE": the latter are in doubt.
func (s *story) begin(t *testing.T, text string, at time.Time) {
	generation, list, _ := strings.Cut(text, ": ")
	if _, err := fmt.Sscan(generation, &s.given); err != nil {
		t.Fatal(text, err)
	}
	var records []Record
	for one := range strings.SplitSeq(list, "; ") {
		name, state, _ := strings.Cut(one, "=")
		name, doubt := strings.CutSuffix(name, "?")
		records = append(records, Record{Key: key(name), Service: service(state), Doubt: doubt})
	}
	s.Begin(records, s.given, at)
}

func (s *story) play(t *testing.T, line string) {
	t.Helper()
	var after float64
	if _, err := fmt.Sscan(line, &after); err != nil {
		t.Fatal(line, err)
	}
	_, command, _ := strings.Cut(line, " ")
	at := seconds(after)
	expect := func(got string) {
		_, want, _ := strings.Cut(command, ":")
		if got != strings.TrimSpace(want) {
			t.Fatalf("%s: got %q", line, got)
		}
	}
	if records, begins := strings.CutPrefix(command, "begin "); begins {
		s.begin(t, records, at)
		return
	}
	if name, state, found := strings.Cut(command, "="); found && !strings.Contains(name, ":") {
		s.Tell(key(name), service(strings.TrimSpace(state)), at)
		return
	}
	switch word, _, _ := strings.Cut(command, ":"); word {
	case "take":
		changes := s.Take(at)
		expect(told(changes))
		for _, c := range changes {
			if c.Generation <= s.given {
				t.Fatalf("%s: %s has generation %d, which may have been given", line, c.Key, c.Generation)
			}
		}
	case "ok":
		s.Acknowledged(at)
	case "fail":
		s.Failed(at)
	case "refuse":
		s.Refused(at)
	case "keys":
		expect(fmt.Sprint(s.Keys()))
	case "late":
		expect(fmt.Sprint(at.Sub(s.State().Oldest).Seconds()))
	case "next":
		if next := s.Next(); next.IsZero() {
			expect("none")
		} else {
			expect(fmt.Sprint(next.Sub(start).Seconds()))
		}
	default:
		var since float64
		if _, err := fmt.Sscanf(word, "suspect %f", &since); err != nil {
			t.Fatal("what is", line)
		}
		s.Suspect(seconds(since), at)
	}
}

// TestRestart: only what differs from what was acknowledged is told, what was deleted
// meanwhile, and what was in doubt.
func TestRestart(t *testing.T) {
	former := New(options(0, 0))
	former.Begin(nil, 0, start)
	for _, name := range []string{"same", "other", "deleted", "doubtful", "late"} {
		former.Tell(key(name), service("1"), start)
	}
	former.Take(start)
	former.Acknowledged(start)
	former.Tell(key("doubtful"), service("2"), start)
	former.Take(start)
	records := former.Records()

	l := New(options(0, 0))
	l.Tell(key("same"), service("1"), start) // as a standby hears it
	l.Tell(key("new"), service("1"), start)
	l.Begin(records, former.generation+1000, start)
	if got := fmt.Sprint(l.Unknown()); got != "[shop/deleted shop/doubtful shop/late shop/other]" {
		t.Error("unknown:", got)
	}
	if got := told(l.Take(start)); got != "new=1 +1" {
		t.Errorf("before anything of the others is known: %q", got)
	}
	l.Acknowledged(start)
	l.Tell(key("other"), service("1 2"), start)
	l.Tell(key("deleted"), nil, start)
	l.Tell(key("doubtful"), service("1"), start)
	l.Tell(key("late"), service("1"), start)
	changes := l.Take(start)
	if got := told(changes); got != "deleted=- -1; doubtful=1; other=1 2 +2" {
		t.Errorf("got %q", got)
	}
	for _, c := range changes {
		if c.Generation <= former.generation+1000 {
			t.Errorf("%s has generation %d, which may have been given", c.Key, c.Generation)
		}
	}
	l.Acknowledged(start)
	if got := told(l.Take(start.Add(time.Hour))); got != "" {
		t.Errorf("then %q", got)
	}
}

// TestLearning: what can only be read when things were told already, by lesser generations
// even, ends with the receiver knowing what is; and what does not exist is asked for.
func TestLearning(t *testing.T) {
	l := New(options(0, 0))
	l.Begin(nil, 0, start)
	for _, name := range []string{"lesser", "greater", "tried"} {
		l.Tell(key(name), service("2"), start)
	}
	l.opts.MaxServices, l.limit = 2, 2
	first := l.Take(start)
	if got := told(first); got != "greater=2 +2; lesser=2 +2" {
		t.Fatal(got)
	}
	l.Acknowledged(start)
	l.Take(start) // tried is in flight
	past := first[0].Generation - 1
	ahead := first[1].Generation + 1000
	l.Learn([]Record{
		{Key: key("lesser"), Service: service("1"), Generation: ahead}, {Key: key("greater"), Service: service("1"), Generation: past},
		{Key: key("tried"), Service: service("1"), Generation: ahead}, {Key: key("gone"), Service: service("1"), Generation: past},
	}, ahead+5, start)
	l.Acknowledged(start)
	if got := fmt.Sprint(l.Unknown()); got != "[shop/gone]" {
		t.Error("unknown:", got)
	}
	l.Tell(key("gone"), nil, start)
	l.limit = 8
	again := l.Take(start)
	if got := told(again); got != "gone=- -1; lesser=2 +2 -1; tried=2" {
		t.Errorf("got %q", got)
	}
	for _, c := range again {
		if c.Generation <= ahead+5 {
			t.Errorf("%s has generation %d", c.Key, c.Generation)
		}
	}
	l.Acknowledged(start)
	if n := len(l.Pending()); n > 0 {
		t.Error(n, "pending")
	}
}

func TestResync(t *testing.T) {
	l := New(options(time.Second, 0))
	l.Begin(nil, 0, start)
	l.Tell(key("web"), service("1"), start)
	first := l.Take(start.Add(time.Second))
	l.Acknowledged(start)
	if n := l.Resync(start.Add(2 * time.Second)); n != 1 {
		t.Error(n, "Services")
	}
	again := l.Take(start.Add(2 * time.Second))
	if told(again) != "web=1" || again[0].Generation <= first[0].Generation {
		t.Errorf("first %+v, then %+v", first, again)
	}
	l.Resync(start.Add(2 * time.Second)) // what is in flight may come before the receiver lost what it had
	l.Acknowledged(start.Add(3 * time.Second))
	if third := l.Take(start.Add(3 * time.Second)); told(third) != "web=1" || third[0].Generation <= again[0].Generation {
		t.Errorf("then %+v", third)
	}
	l.Tell(key("web"), service("1 2"), start.Add(3*time.Second))
	l.Tell(key("new"), service("1"), start.Add(3*time.Second))
	l.Failed(start.Add(3 * time.Second))
	l.Resync(start.Add(3 * time.Second))
	if got := told(l.Take(start.Add(3 * time.Second))); got != "web=1" {
		t.Errorf("what came lately does not wait for its window: %q", got)
	}
}

func TestBytesFollowPorts(t *testing.T) {
	var ports []syncer.Port
	for n := range 20 {
		ports = append(ports, syncer.Port{Name: fmt.Sprint("port-", n), Protocol: syncer.TCP, Number: int32(10000 + n)})
	}
	s := service("1 2 3 4 5 6 7 8")
	for i := range s.Endpoints {
		s.Endpoints[i].Ports = ports
	}
	if is := size(s); is < 8*20*50 {
		t.Errorf("%d B for 160 ports", is)
	}
}

// TestWidespreadRefusals: a receiver that refuses all is not asked about each Service, and
// when it is well again, all are told at once.
func TestWidespreadRefusals(t *testing.T) {
	l := New(options(0, 0))
	l.Begin(nil, 0, start)
	for i := range 40 {
		l.Tell(key(fmt.Sprint("s", i)), service("1"), start)
	}
	requests := 0
	for ; len(l.Take(start)) > 0; requests++ {
		if _, widespread := l.Refused(start); widespread {
			break
		}
	}
	if requests > 6 {
		t.Error(requests, "requests until it is known that all are refused")
	}
	for i := 0; len(l.Pending()) > 0; i++ {
		if len(l.Take(start)) == 0 || i > 12 {
			t.Fatalf("after %d requests %d are pending", i, len(l.Pending()))
		}
		l.Acknowledged(start)
	}
}

// TestRefusedAgainAndAgain: Services that were refused before say nothing of the receiver,
// nor do they count as lag.
func TestRefusedAgainAndAgain(t *testing.T) {
	l := New(options(0, 0))
	l.Begin(nil, 0, start)
	for _, name := range []string{"a", "b"} {
		l.Tell(key(name), service("1"), start)
	}
	at := start
	for range 20 {
		if len(l.Take(at)) > 0 {
			if _, widespread := l.Refused(at); widespread {
				t.Fatal("it is the receiver")
			}
		}
		if next := l.Next(); next.After(at) {
			at = next
		}
	}
	if s := l.State(); s.Refused != 2 || !s.Oldest.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	o := options(0, 0)
	o.MaxBytes = 5000
	l := New(o)
	l.Begin(nil, 0, start)
	large := strings.Repeat("1 2 3 4 5 6 7 8 9 ", 1)
	for i := range 20 {
		l.Tell(key(fmt.Sprintf("s%02d", i)), service(large), start)
	}
	l.Tell(key("a-giant"), service("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32"), start)
	for i := 0; len(l.Pending()) > 0; i++ {
		changes := l.Take(start)
		if n := len(changes); n == 0 || n > 2 || changes[0].Key.Name == "a-giant" && n > 1 {
			t.Fatalf("batch of %d", n)
		}
		l.Acknowledged(start)
	}
}

// TestOneEndpointOfAnAddress: what two Services of a member give alike is one; on one address
// with other ports is another program.
func TestOneEndpointOfAnAddress(t *testing.T) {
	port := func(n int32) []syncer.Port { return []syncer.Port{{Protocol: syncer.TCP, Number: n}} }
	addr := netip.MustParseAddr("10.0.0.1")
	got := NewService([]Endpoint{
		{Addr: addr, Cluster: "b", Ports: port(1)},
		{Addr: addr, Cluster: "a", Ports: port(2), Terminating: true},
		{Addr: addr, Cluster: "a", Ports: port(1), Ready: true, Serving: true},
		{Addr: addr, Cluster: "a", Ports: port(1), Terminating: true},
	})
	want := &Service{Endpoints: []Endpoint{
		{Addr: addr, Cluster: "a", Ports: port(1), Ready: true, Serving: true},
		{Addr: addr, Cluster: "a", Ports: port(2), Terminating: true},
		{Addr: addr, Cluster: "b", Ports: port(1)},
	}}
	if !got.Equal(want) {
		t.Errorf("%+v", got)
	}
	d := DeltaOf(&Service{Endpoints: want.Endpoints[:1]}, &Service{Endpoints: want.Endpoints[1:2]})
	if fmt.Sprint(d) != "{[10.0.0.1:2] [10.0.0.1:1] [] []}" {
		t.Errorf("%+v", d)
	}
}

// TestRemovalsGoFirst: before any bulk, in doubt or not; and what was refused goes last.
func TestRemovalsGoFirst(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		l := New(options(2*time.Second, 0))
		l.Begin(nil, 0, start)
		for i := range 40 {
			l.Tell(key(fmt.Sprintf("s%02d", i)), service("1 2"), start)
		}
		l.Tell(key("a-refused"), service("7"), start)
		at := start.Add(2 * time.Second)
		for len(l.Pending()) > 1 {
			changes := l.Take(at)
			switch {
			case len(changes) == 0:
				t.Fatal("nothing is told")
			case changes[0].Key == key("a-refused"):
				l.Refused(at)
			default:
				l.Acknowledged(at)
			}
		}
		at = at.Add(time.Hour) // it is due, and the longest
		if restarted {
			records := l.Records()
			for i := range records {
				records[i].Doubt = true
			}
			l.Begin(records, 0, at)
		} else {
			l.Resync(at)
		}
		at = at.Add(time.Second)
		l.Tell(key("s33"), service("1"), at)
		l.Tell(key("s34"), service("1 2!"), at)
		got := told(l.Take(at))
		if !strings.HasPrefix(got, "s33=1 -2; s34=1 2! v2") || strings.Contains(got, "refused") {
			t.Errorf("restarted %t: %q", restarted, got)
		}
	}
}
