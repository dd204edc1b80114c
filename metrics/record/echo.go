// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"sync"
	"time"
)

// Ref names one version of one object of the ingress cluster.
type Ref struct {
	Kind, Namespace, Name, ResourceVersion string
}

// maxEchoes bounds how many versions each side may be ahead of the other.
const maxEchoes = 4096

// echoes matches the writes of a change with what our own watch shows. Either
// may come first: the watch is often a little faster than the answer.
type echoes struct {
	mu sync.Mutex
	// awaited are written versions that the watch has not shown.
	awaited map[Ref]*awaited
	// seen are versions that the watch has shown and no change claimed yet;
	// most are claimed within a millisecond, those that others wrote never.
	seen map[Ref]time.Time
	// order of both maps, for forgetting the oldest.
	awaitedOrder, seenOrder fifo
}

type awaited struct {
	seq   uint64
	start time.Time
	open  int
	last  time.Time
}

// fifo remembers the order in which versions came; a circle of maxEchoes.
type fifo struct {
	refs [maxEchoes]Ref
	next int
}

// push returns the version that is the oldest now, to be forgotten.
func (f *fifo) push(ref Ref) (oldest Ref) {
	oldest, f.refs[f.next] = f.refs[f.next], ref
	f.next = (f.next + 1) % maxEchoes
	return oldest
}

// expect registers the versions that a change wrote. It returns the time from
// start to the last echo if the watch has shown them all already.
func (e *echoes) expect(seq uint64, start time.Time, refs []Ref) (took time.Duration, complete bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := &awaited{seq: seq, start: start}
	for _, ref := range refs {
		if at, early := e.seen[ref]; early {
			delete(e.seen, ref)
			a.saw(at)
			continue
		}
		a.open++
		delete(e.awaited, e.awaitedOrder.push(ref))
		e.awaited[ref] = a
	}
	if a.open > 0 || a.last.IsZero() {
		return 0, false
	}
	return max(0, a.last.Sub(start)), true
}

// echo registers that the watch has shown a version. It returns the change
// that is complete with it.
func (e *echoes) echo(ref Ref, at time.Time) (seq uint64, took time.Duration, complete bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.awaited[ref]
	if !ok {
		delete(e.seen, e.seenOrder.push(ref))
		e.seen[ref] = at
		return 0, 0, false
	}
	delete(e.awaited, ref)
	a.saw(at)
	a.open--
	return a.seq, max(0, a.last.Sub(a.start)), a.open == 0
}

func (a *awaited) saw(at time.Time) {
	if at.After(a.last) {
		a.last = at
	}
}
