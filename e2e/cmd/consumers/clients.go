// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// front is a way through a consumer to the pods of one namespace.
type front struct {
	name, address, host string
}

// tally is the outcome of the requests through one front during one event.
type tally struct {
	requests, failed, dead int
	// lastDead is the longest time between a pod's death and a request that reached it.
	lastDead time.Duration
	why      map[string]int
	// by counts answers by pod; first and last are when each answered.
	by          map[string]int
	first, last map[string]time.Time
}

// load sends requests through a front at a fixed rate, whatever the latency.
type load struct {
	front  front
	client *http.Client
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu    sync.Mutex
	tally tally
}

func newTally() tally {
	return tally{why: map[string]int{}, by: map[string]int{}, first: map[string]time.Time{}, last: map[string]time.Time{}}
}

func startLoad(ctx context.Context, f front, rate int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{front: f, cancel: cancel, tally: newTally(), client: newClient()}
	l.group.Go(func() {
		wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
			l.group.Go(func() { l.ask(context.WithoutCancel(ctx)) })
		}, time.Second/time.Duration(rate))
	})
	return l
}

func (l *load) ask(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.front.address+"/", nil)
	if err != nil {
		return
	}
	req.Host = l.front.host
	resp, err := l.client.Do(req)
	why, pod, dead := "", "", false
	switch {
	case err != nil:
		why = "no answer"
	default:
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		pod, dead = resp.Header.Get(podHeader), resp.Header.Get(deadHeader) != ""
		switch {
		case err != nil:
			why = "answer cut"
		case dead:
			why = "dead pod"
		case resp.StatusCode != http.StatusOK:
			why = resp.Status
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.tally
	t.requests++
	if dead {
		t.dead++
	}
	if why != "" {
		t.failed++
		t.why[why]++
		return
	}
	now := time.Now()
	if t.by[pod]++; t.by[pod] == 1 {
		t.first[pod] = now
	}
	t.last[pod] = now
}

// stop ends the requests and waits for their answers.
func (l *load) stop() tally {
	l.cancel()
	l.group.Wait()
	l.client.CloseIdleConnections()
	return l.tally
}

// names resolves a name repeatedly, and records when each address was last in an answer.
type names struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	last   map[string]time.Time
}

func startNames(ctx context.Context, server, name string) *names {
	ctx, cancel := context.WithCancel(ctx)
	n := &names{cancel: cancel, last: map[string]time.Time{}}
	n.group.Go(func() {
		wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
			addresses, _ := lookUp(ctx, server, name) // no record is an answer, too
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, a := range addresses {
				n.last[a] = time.Now()
			}
		}, 10*time.Millisecond)
	})
	return n
}

func lookUp(ctx context.Context, server, name string) ([]string, error) {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server)
	}}
	return r.LookupHost(ctx, name)
}

// stop ends it, and returns how long after its death a dead pod last had a record.
func (n *names) stop(dead []*container) (longest time.Duration) {
	n.cancel()
	n.group.Wait()
	for _, c := range dead {
		if last, found := n.last[c.address]; found {
			longest = max(longest, last.Sub(time.Unix(0, c.died.Load())))
		}
	}
	return longest
}

// String lists the reasons of failures, the most frequent first.
func (t tally) String() string {
	var all []string
	for why, n := range t.why {
		all = append(all, fmt.Sprintf("%s: %d", why, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
