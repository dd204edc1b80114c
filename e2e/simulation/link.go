// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fault is what is wrong with a link.
type fault uint8

// The faults.
const (
	sound   fault = iota
	cut           // connections are refused, open ones break
	silent        // nothing comes back, nothing breaks
	lossy         // one request in three breaks, before its effect or after
	busy          // one request in two is answered with 429
	broken        // one request in two is answered with 503
	refused       // every request is answered with 401
	jumbled       // a message takes no time, or seconds
	faultCount
)

var faultNames = [faultCount]string{"sound", "cut", "silent", "lossy", "busy", "broken", "refused", "jumbled"}

// link is how a process reaches a cluster.
type link struct {
	*schedule
	rng
	// cluster is that at its end, home that which should be.
	cluster, home *Cluster
	// latency is how long a message takes, give or take a half; fault is what is wrong, and
	// troubled when something last was.
	latency  time.Duration
	fault    fault
	troubled time.Duration
	// late is when the last request arrives that takes long.
	late time.Duration
	// refusing is what the rights were withdrawn to: kinds in namespaces, or in all.
	refusing map[ID]bool
	streams  []*stream
}

// slow is from when on a latency counts as trouble.
const slow = 300 * time.Millisecond

// sick reports whether something is wrong now.
func (l *link) sick() bool {
	return l.cluster != l.home || l.fault != sound || l.latency > slow || len(l.refusing) > 0
}

// healthySince is since when nothing has been wrong.
func (l *link) healthySince() time.Duration {
	if l.sick() {
		l.troubled = l.now
	}
	return l.troubled
}

// set makes a fault the present one.
func (l *link) set(f fault) {
	l.healthySince()
	l.fault = f
	l.troubled = l.now
	for _, st := range slices.Clone(l.streams) {
		switch f {
		case cut:
			st.watch.end(errBroken)
		case silent:
		default:
			st.resume()
		}
	}
}

// delay throws how long the next message takes.
func (l *link) delay() time.Duration {
	if l.fault == jumbled {
		return l.within(time.Millisecond, time.Duration(l.IntN(5))*time.Second+time.Millisecond)
	}
	d := l.latency/2 + time.Duration(l.Int64N(int64(l.latency)+1))
	if l.chance(1) && l.latency <= slow {
		d *= 10
	}
	return d
}

// call sends a request about a kind in a namespace: act takes effect at the server, done is called with the answer, once,
// after timeout at the latest. The function that is returned gives the request up.
func (l *link) call(of ID, timeout time.Duration, act func(*Server) (any, error), done func(any, error)) (giveUp func()) {
	over, deadline := false, l.now+timeout
	end := func(value any, err error) {
		if !over {
			over = true
			done(value, err)
		}
	}
	give := func() { end(nil, context.DeadlineExceeded) }
	d := l.delay()
	if d > time.Second {
		l.late = max(l.late, l.now+d)
	}
	if d > timeout {
		l.after(timeout, give)
	}
	l.after(d, func() {
		value, err := l.arrives(of, act)
		back := l.delay()
		if errors.Is(err, errHangs) || l.now+back > deadline {
			if l.fault == silent {
				l.late = max(l.late, deadline)
			}
			l.after(deadline-l.now, give)
			return
		}
		l.after(back, func() {
			switch l.fault {
			case cut:
				end(nil, errBroken)
			case silent:
				l.late = max(l.late, deadline)
				l.after(deadline-l.now, give)
			default:
				end(value, err)
			}
		})
	})
	return func() { over = true }
}

// arrives has a request arrive, or not.
func (l *link) arrives(of ID, act func(*Server) (any, error)) (any, error) {
	switch {
	case l.fault == cut, l.fault == lossy && l.chance(17):
		return nil, errBroken
	case l.fault == silent:
		return nil, errHangs
	case l.fault == busy && l.chance(50):
		return nil, apierrors.NewTooManyRequests("please try again later", 1+l.IntN(3))
	case l.fault == broken && l.chance(50):
		return nil, apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	case l.fault == refused:
		return nil, apierrors.NewUnauthorized("Unauthorized")
	case l.refusing[ID{Kind: of.Kind, Namespace: of.Namespace}]:
		return nil, apierrors.NewForbidden(of.Kind.resource(), "", fmt.Errorf(`"tributary" cannot list resource in the namespace %q`, of.Namespace))
	}
	value, err := act(l.cluster.Server)
	if !errors.Is(err, errHangs) && l.fault == lossy && l.chance(17) {
		return nil, errBroken
	}
	return value, err
}

// errHangs is an answer that never comes.
var errHangs = errors.New("hangs")

// stream is a watch over a link. Its events arrive in their order.
type stream struct {
	link  *link
	watch *Watch
	last  time.Duration
	held  []Event
	tell  func(Event)
}

func (st *stream) send(e Event) {
	if st.last = max(st.last, st.link.now+st.link.delay()); st.last-st.link.now > time.Second {
		st.link.late = max(st.link.late, st.last)
	}
	if e.Type == "" {
		return
	}
	st.link.after(st.last-st.link.now, func() { st.arrive(e) })
}

func (st *stream) arrive(e Event) {
	if st.link.fault == silent || len(st.held) > 0 {
		st.held = append(st.held, e)
		return
	}
	if st.tell != nil {
		st.tell(e)
	}
}

// resume has arrive what was held up.
func (st *stream) resume() {
	held := st.held
	for st.held = nil; len(held) > 0; held = held[1:] {
		if st.tell != nil {
			st.tell(held[0])
		}
	}
}

// leave ends the stream at the client's side: nothing of it arrives any more.
func (st *stream) leave() {
	st.tell = nil
	st.watch.tell = func(Event) {}
	st.watch.end(nil)
	if i := slices.Index(st.link.streams, st); i >= 0 {
		st.link.streams = slices.Delete(st.link.streams, i, i+1)
	}
}
