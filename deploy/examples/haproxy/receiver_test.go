// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// balancer plays HAProxy's socket for the backend shop_web.
type balancer struct {
	states   map[string]string
	sessions map[string]int
	log      []string
	down     bool
	// looks are how often it was asked which servers it has.
	looks int
	// fails is what commands that begin so do.
	fails string
}

func (b *balancer) run(command string) (string, error) {
	if b.down {
		return "", errors.New("connection refused")
	}
	if command == "show stat -1 6 -1" {
		b.looks++
		out := "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,\n"
		line := func(backend, name string, sessions int, state string) {
			out += fmt.Sprintf("%s,%s,0,0,%d,,,,,,,,,,,,,%s,\n", backend, name, sessions, state)
		}
		line("shop_web", "BACKEND", 0, "UP")
		line("empty", "BACKEND", 0, "UP")
		for name, state := range b.states {
			line("shop_web", name, b.sessions[name], state)
		}
		return out, nil
	}
	if b.fails != "" && strings.HasPrefix(command, b.fails) {
		return "", errors.New("resource temporarily unavailable")
	}
	b.log = append(b.log, command)
	fields := strings.Fields(command)
	_, name, _ := strings.Cut(fields[2], "/")
	switch fields[0] + " " + fields[len(fields)-1] {
	case "set ready":
		b.states[name] = "no check"
	case "set drain":
		b.states[name] = "DRAIN"
	case "set maint":
		b.states[name] = "MAINT"
	default:
		if fields[0] == "add" {
			b.states[name] = "MAINT"
			return "New server registered.\n", nil
		}
		if b.sessions[name] > 0 {
			return "Server still has connections attached to it, cannot remove it.\n", nil
		}
		delete(b.states, name)
		return "Server deleted.\n", nil
	}
	return "\n", nil
}

func (b *balancer) said() string {
	out := strings.Join(b.log, "; ")
	b.log = nil
	return strings.ReplaceAll(strings.ReplaceAll(out, "shop_web/", ""), "server ", "")
}

func eventOf(generation int64, addresses ...string) []event {
	var e event
	e.Data.Namespace, e.Data.Name, e.Data.Generation = "shop", "web", generation
	for _, a := range addresses {
		e.Data.Endpoints = append(e.Data.Endpoints, endpoint{Address: a, Cluster: "a", Ready: true, Ports: []port{{80}}})
	}
	return []event{e}
}

func TestReceiver(t *testing.T) {
	b := &balancer{states: map[string]string{}, sessions: map[string]int{}}
	r := newReceiver(b.run)
	expect := func(want string, err error) {
		t.Helper()
		if got := b.said(); err != nil || got != want {
			t.Errorf("said %q, %v; want %q", got, err, want)
		}
	}
	expect("add a_10.0.0.1_80 10.0.0.1:80; set a_10.0.0.1_80 state ready", r.take(eventOf(1, "10.0.0.1")))
	expect("", r.take(eventOf(1, "10.0.0.1")))
	expect("add a_fd00--2_80 [fd00::2]:80; set a_fd00--2_80 state ready; set a_10.0.0.1_80 state drain", r.take(eventOf(2, "fd00::2")))
	expect("", r.take(eventOf(1, "10.0.0.1"))) // late
	b.sessions["a_10.0.0.1_80"] = 1
	expect("", r.lockedApply(true))
	expect("set a_10.0.0.1_80 state ready", r.take(eventOf(3, "10.0.0.1", "fd00::2"))) // it returns
	expect("set a_10.0.0.1_80 state drain", r.take(eventOf(4, "fd00::2")))
	b.sessions["a_10.0.0.1_80"] = 0
	expect("set a_10.0.0.1_80 state maint; del a_10.0.0.1_80", r.lockedApply(true))
	clear(b.states) // HAProxy was started anew
	expect("add a_fd00--2_80 [fd00::2]:80; set a_fd00--2_80 state ready", r.lockedApply(true))
	inventory := func(generation int64, services ...string) []event {
		e := event{Type: typeInventory}
		e.Data.Generation, e.Data.Services = generation, services
		return []event{e}
	}
	expect("", r.take(inventory(6, "shop/web", "shop/api")))
	expect("", r.take(inventory(3))) // late
	expect("set a_fd00--2_80 state drain", r.take(inventory(7, "shop/api")))
	expect("set a_fd00--2_80 state ready", r.take(eventOf(8, "fd00::2")))
	b.down = true
	if err := r.take(eventOf(9)); err == nil {
		t.Error("what could not be done is acknowledged")
	}
}

// TestWhatIsStored: a Service without a backend is forgotten, and so is one that was deleted as
// soon as it has no server left; and one look at HAProxy is enough for all.
func TestWhatIsStored(t *testing.T) {
	b := &balancer{states: map[string]string{}, sessions: map[string]int{}}
	r := newReceiver(b.run)
	expect := func(stored int, said string, err error) {
		t.Helper()
		if got := b.said(); err != nil || got != said || len(r.told) != stored || b.looks > 1 {
			t.Errorf("%d stored, said %q by %d looks, %v; want %d, %q by one", len(r.told), got, b.looks, err, stored, said)
		}
		b.looks = 0
	}
	batch := eventOf(1, "10.0.0.1")
	for i := range 100 {
		other := eventOf(1, "10.0.0.1")[0]
		other.Data.Name = fmt.Sprint("other-", i)
		batch = append(batch, other)
	}
	expect(1, "add a_10.0.0.1_80 10.0.0.1:80; set a_10.0.0.1_80 state ready", r.take(batch))
	deleted := eventOf(2)
	expect(1, "set a_10.0.0.1_80 state drain", r.take(deleted))
	expect(1, "set a_10.0.0.1_80 state maint; del a_10.0.0.1_80", r.lockedApply(true))
	expect(0, "", r.lockedApply(true))
	expect(0, "", r.take(deleted)) // told again
}

// TestDrainIsCarriedOut: what HAProxy did not do is not acknowledged when it is sent again,
// until it is done; and it is done again where HAProxy was started anew.
func TestDrainIsCarriedOut(t *testing.T) {
	b := &balancer{states: map[string]string{"a_10.0.0.1_80": "no check"}, sessions: map[string]int{"a_10.0.0.1_80": 1}}
	r := newReceiver(b.run)
	b.fails = "set server"
	for range 2 {
		if err := r.take(eventOf(1)); err == nil || b.said() != "" {
			t.Error("a server that takes requests is acknowledged as one that drains")
		}
	}
	b.fails = ""
	for range 2 {
		if err := r.take(eventOf(1)); err != nil || b.said() != "set a_10.0.0.1_80 state drain" {
			t.Errorf("a server takes requests: %v", err)
		}
		if err := r.take(eventOf(1)); err != nil || b.said() != "" {
			t.Errorf("one that drains is told so again: %v", err)
		}
		b.states["a_10.0.0.1_80"] = "no check"
	}
}

func TestRequests(t *testing.T) {
	b := &balancer{states: map[string]string{}, sessions: map[string]int{}}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := handler(newReceiver(b.run), token)
	const batch = `[{"type":"x","data":{"generation":1,"namespace":"shop","name":"web","endpoints":[{"address":"10.0.0.1","ports":[{"port":80}],"cluster":"a","ready":true}]}}]`
	var got []int
	for _, c := range []struct {
		token, kind, body string
		down              bool
	}{
		{"wrong", "application/cloudevents-batch+json", batch, false}, {"secret", "text/plain", batch, false},
		{"secret", "application/cloudevents-batch+json", "[{", false}, {"secret", "application/cloudevents-batch+json; charset=utf-8", batch, true},
		{"secret", "application/cloudevents-batch+json", batch, false},
	} {
		b.down = c.down
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
		req.Header.Set("Authorization", "Bearer "+c.token)
		req.Header.Set("Content-Type", c.kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		got = append(got, w.Code)
	}
	if want := []int{401, 415, 400, 503, 204}; !slices.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	for header, text := range map[string]string{"Bearer ": "\n", "": "\n", "secret": "secret"} { // not filled yet; and no bearer
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(batch))
		req.Header.Set("Authorization", header)
		req.Header.Set("Content-Type", "application/cloudevents-batch+json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, req); w.Code != 401 {
			t.Errorf("authorization %q, token %q: %d", header, text, w.Code)
		}
	}
}

// TestNothingElseInACommand: what an event says begins no other command of the socket.
func TestNothingElseInACommand(t *testing.T) {
	b := &balancer{states: map[string]string{}, sessions: map[string]int{}}
	r := newReceiver(b.run)
	for i, spoil := range []func(e *event){
		func(e *event) { e.Data.Endpoints[0].Cluster = "x;disable frontend web;" },
		func(e *event) { e.Data.Endpoints[0].Address = "10.0.0.1 ;shutdown" },
		func(e *event) { e.Data.Endpoints[0].Address = "fe80::1%a;b" },
		func(e *event) { e.Data.Name = "web;x" },
		func(e *event) { e.Data.Namespace = "shop\nx" },
	} {
		events := eventOf(int64(i+1), "10.0.0.1")
		spoil(&events[0])
		if err := r.take(events); err != nil || len(b.log) > 0 {
			t.Errorf("%d: %v, %q", i, err, b.log)
		}
	}
	if got := serversOf(eventOf(1, "fd00::1")[0].Data.Endpoints); got["a_fd00--1_80"] != "[fd00::1]:80" {
		t.Errorf("%v", got)
	}
}
