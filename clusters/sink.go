// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"log/slog"
	"net/http"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

// Sink is told which replicas a member's change may have touched. It is called
// from the goroutines of watches, with no lock held: it must be safe for
// concurrent use and must not block.
type Sink interface {
	// Dirty reports replicas, each with its effect. bulk is true where nobody waits
	// for a single one of them: a first fill, what a list adds, an edited
	// configuration.
	Dirty(cluster string, dirty []store.Dirty, cause record.Cause, bulk bool)
}

// Observer counts what watches do; metrics.Metrics is one. resource is the
// plural name.
type Observer interface {
	WatchEvent(cluster, resource, event string)
	WatchEnded(cluster, resource, reason string)
	Listed(cluster, resource, reason string, took time.Duration)
	Unreadable(cluster, resource string)
}

// Options are the same for all members. Only Sink must be set.
type Options struct {
	Sink Sink
	// Standing returns, by replica, the endpoints of a member that stand in the ingress
	// cluster from before this process: its first lists are judged by them.
	// It must not block for long; nil is none.
	Standing func(cluster string) map[syncer.Key]Standing
	// Observer may be nil.
	Observer Observer
	// Heartbeats, unless nil, are told that what asks a member gets on.
	Heartbeats *metrics.Heartbeats
	// Wrap returns what observes the requests to a member; nil observes none.
	Wrap func(cluster string) func(http.RoundTripper) http.RoundTripper
	// Keep names annotations of Services to carry on; see decode.NewDecoder.
	Keep func(annotation string) bool
	// Pinned returns the identity by which a member was known before this process
	// started, or ""; nil knows none.
	Pinned func(cluster string) string
	// PanicAt returns when the panic began in which a member was when what stands was
	// written, as far as it is on record, or zero; nil knows of none.
	PanicAt func(cluster string) time.Time
	// Changed is called after a member's state has changed. It must not block and
	// may be called concurrently. Nil is not called.
	Changed func(cluster string)
	// Version of the product, for the User-Agent.
	Version string
	// Logger may be nil.
	Logger *slog.Logger
	// NativeLag is told how much later than we a member's own controller came to the
	// same endpoints; nil is not.
	NativeLag func(cluster string, late time.Duration)
	// peers is the Set that the member is in.
	peers peers
	// NativeEnd is told that a member's own controllers are not observed any more;
	// nil is not. Nothing is reported of them after it, until they are again.
	NativeEnd func(cluster string)
}
