// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/reconcile/leader"
)

// fault is what is wrong with a link: the percentage of requests that get an error before they
// have an effect.
type fault struct {
	name    string
	percent int
	err     error
}

// The faults.
var (
	sound   = &fault{}
	cut     = &fault{"cut", 100, model.ErrBroken}  // open connections break too
	silent  = &fault{"silent", 100, errHangs}      // connections stay open
	lossy   = &fault{"lossy", 17, model.ErrBroken} // as many break after their effect
	busy    = &fault{"busy", 50, apierrors.NewTooManyRequests("please try again later", 2)}
	broken  = &fault{"broken", 50, apierrors.NewInternalError(errors.New("etcdserver: leader changed"))}
	refused = &fault{"refused", 100, apierrors.NewUnauthorized("Unauthorized")}
	jumbled = &fault{name: "jumbled"} // a message takes no time, or seconds
)

// link is how a process reaches a cluster. It outlives the process.
type link struct {
	*schedule
	rng
	name string
	// cluster answers at its end, home is the one that should.
	cluster, home *Cluster
	// latency is how long a message takes, plus or minus a half. refuses tells to what the rights
	// were withdrawn; nil if to nothing.
	latency time.Duration
	fault   *fault
	refuses func(model.ID) bool
	streams []*stream
	// troubled is until when something was last wrong, or a message was in flight for long.
	troubled time.Duration
}

// slow is the latency above which a link counts as troubled.
const slow = 300 * time.Millisecond

// sick reports whether something is wrong now.
func (l *link) sick() bool {
	return l.cluster != l.home || l.fault != sound || l.latency > slow || l.refuses != nil
}

// healthySince is since when nothing has been wrong.
func (l *link) healthySince() time.Duration {
	if l.sick() {
		l.troubled = max(l.troubled, l.now)
	}
	return l.troubled
}

// change changes the link, which breaks or resumes its streams.
func (l *link) change(how func(*link)) {
	l.healthySince()
	how(l)
	l.healthySince()
	for _, st := range slices.Clone(l.streams) {
		switch {
		case l.fault == cut, st.watch.Server != l.cluster.Server:
			st.watch.End(model.ErrBroken)
		case l.fault != silent:
			st.resume()
		}
	}
}

// delay draws how long the next message takes.
func (l *link) delay() time.Duration {
	d := l.within(l.latency/2, l.latency*3/2)
	if l.fault == jumbled {
		d = l.within(time.Millisecond, time.Duration(l.IntN(5))*time.Second+time.Millisecond)
	} else if l.chance(1) && l.latency <= slow {
		d *= 10
	}
	if d > time.Second {
		l.troubled = max(l.troubled, l.now+d)
	}
	return d
}

// call sends a request about a kind in a namespace. act is its effect at the server; done is
// called once with the answer, after timeout at the latest.
func (l *link) call(of model.ID, timeout time.Duration, act func(*Cluster) (any, error), done func(any, error)) {
	var once sync.Once
	end := func(value any, err error) { once.Do(func() { done(value, err) }) }
	deadline := l.now + timeout
	l.after(timeout, func() { end(nil, context.DeadlineExceeded) })
	l.after(l.delay(), func() {
		var value any
		err := l.fault.err
		switch {
		case l.chance(l.fault.percent):
		case l.refuses != nil && l.refuses(of):
			err = model.Forbidden(of, `"tributary" cannot list resource in the namespace`)
		default:
			if value, err = act(l.cluster); l.fault == lossy && l.chance(lossy.percent) {
				value, err = nil, lossy.err
			}
		}
		l.after(l.delay(), func() {
			switch {
			case l.fault == silent:
				l.troubled = max(l.troubled, deadline)
			case l.fault == cut:
				end(nil, model.ErrBroken)
			case !errors.Is(err, errHangs):
				end(value, err)
			}
		})
	})
}

// errHangs is an answer that never comes.
var errHangs = errors.New("hangs")

// stream is a watch over a link. Its events arrive in order.
type stream struct {
	link  *link
	watch *model.Watch  // nil while it is being opened
	last  time.Duration // when the last event arrives
	held  []model.Event
	tell  func(model.Event)
}

func (st *stream) send(e model.Event) {
	st.last = max(st.last, st.link.now+st.link.delay())
	st.link.after(st.last-st.link.now, func() {
		if st.held = append(st.held, e); st.link.fault != silent {
			st.resume()
		}
	})
}

// resume delivers the events that were held up.
func (st *stream) resume() {
	for len(st.held) > 0 {
		e := st.held[0]
		st.held = st.held[1:]
		st.tell(e)
	}
}

// way is a process's connection to a cluster: a link, and the identity that the connection has proven.
type way struct {
	*link
	process *Process
	proven  *Cluster
}

// The deadlines of requests.
const (
	pageTimeout   = 60 * time.Second
	askTimeout    = 5 * time.Second
	acceptTimeout = 10 * time.Second
)

// request sends a request over a connection that has proven the identity of its cluster (the one on
// record, or else the first), unless it may no longer be sent by then; nil: it may.
func (w *way) request(of model.ID, timeout time.Duration, may func() bool, act func(*model.Server) (any, error), done func(any, error)) {
	answer := func(value any, err error) { w.process.runs(func() { done(value, err) }) }
	switch {
	case w.proven != w.cluster:
		w.call(model.ID{}, askTimeout, func(c *Cluster) (any, error) { return c, nil }, func(value any, err error) {
			c, _ := value.(*Cluster)
			record := w.process.world.record
			if err == nil && cmp.Or(record[w.home.name], c.UID) != c.UID {
				err = kube.ErrOtherCluster
			}
			if err != nil {
				answer(nil, err)
				return
			}
			w.process.runs(func() {
				w.proven, record[w.home.name] = c, c.UID
				w.request(of, timeout, may, act, done)
			})
		})
	case may != nil && !may():
		answer(nil, leader.ErrNotLeading)
	default:
		w.call(of, timeout, func(c *Cluster) (any, error) {
			if w.proven != c {
				return nil, model.ErrBroken
			}
			return act(c.Server)
		}, func(value any, err error) {
			if errors.Is(err, model.ErrBroken) {
				w.proven = nil
			}
			answer(value, err)
		})
	}
}

// ask reads an object. Both it and err are nil if there is none.
func (w *way) ask(id model.ID, timeout time.Duration, done func(o model.Object, err error)) {
	w.request(id, timeout, nil, func(s *model.Server) (any, error) { return s.Find(id), nil }, func(value any, err error) {
		o, _ := value.(model.Object)
		done(o, err)
	})
}
