// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/netip"
	"testing"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// TestMadeAgain: an object written by hand that a list lacks, and of which the answer is
// another of its name, is gone. The list was right.
func TestMadeAgain(t *testing.T) {
	db := syncer.Key{Namespace: namespace, Name: "db"}
	content := func(uid string, rv uint64, addr string) endpointsVersion {
		return endpointsVersion{RV: rv, Object: store.Endpoints{Key: db, UID: uid, Subsets: []syncer.Subset{{Ready: []syncer.Address{{Addr: netip.MustParseAddr(addr)}}}}}}
	}
	for name, c := range map[string]struct {
		uid  string
		want bool
	}{"the same": {"first", true}, "another": {"second", false}} {
		t.Run(name, func(t *testing.T) {
			s := New(start, Config{Limits: Limits{Lists: true}, Placement: func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true }}, 1)
			listed := func(rv uint64, items ...endpointsVersion) Event {
				return Listed[store.Endpoints]{Items: items, Revision: rv, Services: []syncer.Key{db}}
			}
			for _, e := range []Event{Connected{}, Listed[store.Node]{Revision: 10}, Listed[syncer.Pod]{Revision: 10},
				Listed[syncer.Service]{Items: []serviceVersion{{RV: 10, Object: syncer.Service{Key: db, UID: "db", ClusterIP: "None"}}}, Revision: 10},
				Listed[store.Slice]{Revision: 10, Services: []syncer.Key{db}}, listed(10, content("first", 10, "10.1.0.1")), listed(20)} {
				for e != nil {
					e = s.Step(start, e).Next
				}
			}
			if len(s.Holds()) != 1 {
				t.Fatalf("holds %v", s.Holds())
			}
			read := Read{Kind: Endpoints, Key: db, UID: s.absent[object{Endpoints, db}].uid}
			s.Step(start, Answer{Read: read, Outcome: There, Object: content(c.uid, 21, "10.1.0.2")})
			if lies := s.View().Reason == ReasonListIncomplete; lies != c.want {
				t.Errorf("the list lies: %t", lies)
			}
			if s.store.ManualAddresses(db)[netip.MustParseAddr("10.1.0.1")] {
				t.Error("the former stays")
			}
		})
	}
}
