// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// TestLostSight: when what a member does is not seen, so that another process may have seen
// more. Streams that open for the first time right after their lists miss nothing.
func TestLostSight(t *testing.T) {
	cut := Fault{Unreachable, errCut}
	lists := []Event{Connected{}, Listed[syncer.Service]{Revision: 10}, Listed[syncer.Pod]{Revision: 10}, Listed[store.Node]{Revision: 10}}
	open := append(lists[:4:4], Watched{Services, Following, Fault{}, nil}, Watched{Pods, Following, Fault{}, nil})
	for name, c := range map[string]struct {
		events []Event
		after  time.Duration
		want   bool
	}{
		"nothing was read":                    {events: lists[:1]},
		"read, the streams are not open yet":  {events: lists},
		"read, one stream is open":            {events: open[:5]},
		"read, and the streams do not open":   {events: lists, after: troubleLimit, want: true},
		"read, and a stream is refused":       {events: append(lists[:4:4], Watched{Pods, Denied, Fault{Denial, errCut}, nil}), want: true},
		"read, and a stream failed to open":   {events: append(lists[:4:4], Watched{Pods, Waiting, cut, nil}, Watched{Pods, Listing, Fault{}, nil}), want: true},
		"read, but for a namespace":           {events: append(open[:6:6], Watched{Pods, Following, Fault{Denial, errCut}, []string{"side"}}), want: true},
		"followed":                            {events: open, after: 5 * time.Second},
		"followed, a stream ended":            {events: append(open[:6:6], Watched{Pods, Waiting, cut, nil}), want: true},
		"followed, and listed anew for a gap": {events: append(open[:6:6], Watched{Services, Listing, Fault{}, nil}), want: true},
		"followed, and nobody answers":        {events: append(open[:6:6], Probed{cut}), want: true},
		"followed, nodes are not":             {events: append(open[:6:6], Watched{Nodes, Waiting, cut, nil})},
		"followed, slices are not":            {events: append(open[:6:6], Watched{Slices, Waiting, cut, nil}), want: true},
		"followed, Endpoints may not be read": {events: append(open[:6:6], Watched{Endpoints, Denied, Fault{Denial, errCut}, nil})},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(start, Config{}, 1)
			for _, e := range c.events {
				for e != nil {
					e = s.Step(start, e).Next
				}
			}
			s.Step(start.Add(c.after), Tick{})
			if got := s.LostSight(start.Add(c.after)); got != c.want {
				t.Errorf("lost sight: %t", got)
			}
		})
	}
}
