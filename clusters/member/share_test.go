// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// TestKeepAfterwards: what a member shows between Give and Keep removes no endpoint of a live pod.
func TestKeepAfterwards(t *testing.T) {
	pods, services := Scope{Kind: Pods}, Scope{Kind: Services}
	w := newWorld(Config{})
	web, one, two := keyOf("web"), publishedOf("10.0.0.1/web-1"), publishedOf("10.0.0.2/web-2")
	w.published[web], w.services[web] = []syncer.Endpoint{one, two}, true
	pod := func(item string) store.Versioned[syncer.Pod] {
		return store.Versioned[syncer.Pod]{Object: podOf(item), Revision: 5}
	}
	expect := func(when string, share *syncer.Share, e syncer.Endpoint, want bool) {
		t.Helper()
		if _, ok := share.Keep(e); ok != want {
			t.Errorf("%s: %s is retained: %v", when, e.Addr, ok)
		}
	}
	w.state.Step(w.now, Listed[syncer.Pod]{Scope: pods, Revision: 10, Items: []store.Versioned[syncer.Pod]{pod("web-1=10.0.0.1")}})
	w.state.Step(w.now, Listed[syncer.Service]{Scope: services, Revision: 10, Items: []store.Versioned[syncer.Service]{{Object: serviceOf("web"), Revision: 5}}})
	unread := w.state.Give(web)
	asked := w.state.Step(w.now, w.publishedEvent()).Ask
	expect("at a start", &unread, one, true)
	expect("at a start", &unread, two, true)
	open := w.state.Give(web)
	w.state.Step(w.now, Answer{Question: asked[0], Object: pod("web-2=10.0.0.2")})
	expect("with a question", &open, two, true)
	w.state.Step(w.now, gone(pods, keyOf("web-2"), "web-2-a", 20, w.now))
	expect("with a question", &open, two, false)
	expect("at a start", &unread, two, false)
}

// TestWhatAServiceHasLeftIsNotKept: a removal that is not written yet is not taken back by a question about a pod
// whose rules have changed, for the answer would have nothing compared.
func TestWhatAServiceHasLeftIsNotKept(t *testing.T) {
	s := &story{t: t}
	apply := func(lines ...string) {
		for _, line := range lines {
			if err := s.Apply(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply("list pods 10: web-1=10.0.0.1", "list services 10: web", "compare")
	web := keyOf("web")
	before := s.world.published[web]
	apply("list pods 20:", "wait 2s", "at pods 30", "seen services 30: web~other")
	s.world.published[web] = before // the ingress cluster did not take it
	s.world.step(Listed[syncer.Pod]{Scope: Scope{Kind: Pods}, Revision: 40, Rules: &oneRule{syncer.ThenNotReady}})
	if text := s.world.text(web); len(before) != 1 || text != "empty" {
		t.Errorf("published is %s", text)
	}
}
