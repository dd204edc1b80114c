// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/syncer"
)

// Spec is what one sink is to be.
type Spec struct {
	Name string
	// URL is where requests go.
	URL  string
	Auth Auth
	// Selects says which replicas it is told of, by name and labels.
	Selects func(replica syncer.Key, labels map[string]string) bool
	// Changes and Removals are its windows.
	Changes, Removals time.Duration
	// Rate is how many requests may begin in a second, MaxServices of how many Services one
	// tells, and Timeout how long one may take.
	Rate        float64
	MaxServices int
	Timeout     time.Duration
	// Config identifies all of the above: one of another Config is another sink, which goes
	// on where the one of its name was.
	Config string
}

const (
	// maxBytes bounds a request that tells of more than one Service.
	maxBytes = 1 << 20
	// landing is how long a request in flight may take when leadership is given up.
	landing = 500 * time.Millisecond
	// The pauses after failures of a receiver.
	pauseFirst = 500 * time.Millisecond
	pauseMax   = 30 * time.Second
	// pauseRefused is the longest where it refuses one Service after another.
	pauseRefused = 5 * time.Second
)

// sink tells one receiver. Whoever tells it what is waits for nothing but memory.
type sink struct {
	spec    Spec
	source  string
	logger  *slog.Logger
	observe func(sink, result string, took time.Duration)
	// wake is signalled when something may be due.
	wake chan struct{}
	// pace is that of the term that runs; out of one, that of who changes the Set.
	pace pace

	mu sync.Mutex
	// All below is guarded by mu.
	ledger *ledger.Ledger
	status Status
	memory memory
}

// pace is when a receiver may be asked again. It is the receiver's: it outlasts a term, and an
// edit of its sink.
type pace struct {
	// began is when the last request began, resume the end of the pause after a failure.
	began, resume time.Time
	backoff       wait.Backoff
}

// next is when the next request may begin, at so many a second.
func (p *pace) next(rate float64) time.Time {
	if p.began.IsZero() {
		return p.resume
	}
	return later(p.began.Add(time.Duration(float64(time.Second)/rate)), p.resume)
}

func newSink(spec Spec, source string, o *Options) *sink {
	return &sink{
		spec: spec, source: source, logger: o.Logger.With("sink", spec.Name), observe: o.Observe, wake: make(chan struct{}, 1),
		pace:   pace{backoff: pauses()},
		ledger: ledger.New(ledger.Options{Windows: ledger.Windows{Changes: spec.Changes, Removals: spec.Removals}, MaxServices: spec.MaxServices, MaxBytes: maxBytes}),
	}
}

// receiver identifies where requests go.
func (s *sink) receiver() string {
	sum := sha256.Sum256([]byte(s.spec.URL))
	return hex.EncodeToString(sum[:8])
}

// tell takes what a replica is; nil: it does not exist, or is not selected.
func (s *sink) tell(key syncer.Key, now *ledger.Service, at time.Time) {
	s.mu.Lock()
	news := s.ledger.Tell(key, now, at)
	s.mu.Unlock()
	if news {
		s.nudge()
	}
}

func (s *sink) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
