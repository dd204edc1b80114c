// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

// What a member was seen to lose is not forgotten when it is taken out of the file before
// that was written, until it is put back.
func TestRemovedMemberLeavesWhatItLost(t *testing.T) {
	web := syncer.Key{Namespace: "shop", Name: "web"}
	var standing map[syncer.Key]Standing
	for what, c := range map[string]struct {
		lose func(*fakeAPI)
		want []string
	}{
		"nothing": {func(*fakeAPI) {}, nil},
		"a pod":   {func(a *fakeAPI) { a.remove("pods", "shop", "web-1") }, []string{"10.1.0.1"}},
		"a pod's readiness": {func(a *fakeAPI) { a.put(notReady(newPod("shop", "web", 2))) },
			[]string{"10.1.0.2"}},
		"the Service": {func(a *fakeAPI) { a.remove("services", "shop", "web") }, []string{"10.1.0.1", "10.1.0.2"}},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(o *Options) {
				o.Standing = func(string) map[syncer.Key]Standing { return standing }
			}, func(w *world) {
				standing = nil
				a := w.api("uid-a")
				a.put(newService("shop", "web"), newPod("shop", "web", 1), newPod("shop", "web", 2))
				w.reach("a", a.config(""), "1")
				w.pass(time.Minute)
				shares := w.set.Peek(web).Shares
				standing = map[syncer.Key]Standing{web: {Sources: []syncer.Key{web}, Endpoints: shares[0].Endpoints}}
				c.lose(a)
				w.pass(time.Second)
				if got := w.set.Peek(web).Gone; got != nil {
					t.Errorf("%v are gone of one that is followed", got)
				}
				w.forget("a")
				var want []netip.Addr
				for _, addr := range c.want {
					want = append(want, netip.MustParseAddr(addr))
				}
				if got := w.set.Peek(web).Gone["a"]; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%v are gone, want %v", got, want)
				}
				w.reach("a", a.config(""), "1")
				if got := w.set.Peek(web).Gone; got != nil {
					t.Errorf("%v are gone of one that is back", got)
				}
			})
		})
	}
}
