// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics/record"
)

// carryOut does what a step asks for. No lock is held.
func (m *Member) carryOut(e evidence.Effects, arrival time.Time) {
	if v := e.View; v != nil {
		m.native.see(v.State == evidence.Live)
		if m.opts.Changed != nil {
			m.opts.Changed(m.name)
		}
	}
	if len(e.Alone) > 0 {
		m.opts.peers.alone(m, e.Alone)
	}
	for _, c := range e.Changes {
		m.opts.Sink.Dirty(m.name, c.Dirty, m.cause(c.Cause, arrival), c.Bulk)
		if c.Cause.Kept == "" {
			m.native.touch(c.Dirty, arrival)
		} else {
			m.native.lookAt(dirtyReplicas(c.Dirty)...)
		}
	}
	for _, c := range e.Changes {
		m.opts.peers.lost(m, c.Dirty)
	}
	for _, kind := range e.List {
		m.list(kind)
	}
	m.ask(e.Read)
	if e.Manual {
		signal(m.manual.changed)
	}
	for _, f := range e.Facts {
		m.log.Log(context.Background(), levels[f.Severity], f.Message, f.Args...)
	}
}

var levels = [...]slog.Level{evidence.Info: slog.LevelInfo, evidence.Warning: slog.LevelWarn, evidence.Error: slog.LevelError}

func (m *Member) cause(c evidence.Cause, arrival time.Time) record.Cause {
	var source time.Time
	if c.SourceTime != 0 {
		source = time.Unix(c.SourceTime, 0).UTC()
	}
	return record.Cause{
		Cluster: m.name, Kind: c.Kind, Namespace: c.Key.Namespace, Name: c.Key.Name, UID: c.UID,
		ResourceVersion: revisionText(c.Revision), Event: c.Event, Arrival: arrival, Live: c.Live,
		State: c.State, IP: c.IP, Kept: string(c.Kept), Rule: c.Rule, SourceTime: source,
	}
}

// list asks for a list of a kind.
func (m *Member) list(kind evidence.Kind) {
	ls := m.followed()
	if ls == nil {
		return
	}
	switch kind {
	case evidence.Services:
		ls.services.Relist()
	case evidence.Pods:
		ls.pods.Relist()
	case evidence.Nodes:
		ls.nodes.Relist()
	default:
		m.manual.each(looper.Relist)
	}
}

// fault says what an error means for the member.
func fault(err error) evidence.Fault {
	f := evidence.Fault{Class: evidence.Unreachable, Err: err}
	switch {
	case err == nil:
		f.Class = evidence.Well
	case errors.Is(err, kube.ErrOtherCluster):
		f.Class = evidence.OtherCluster
	case errors.Is(err, errNoKubeconfig):
		f.Class = evidence.NoKubeconfig
	case errors.Is(err, kube.ErrTooManyObjects):
		f.Class = evidence.TooMany
	case errors.Is(err, kube.ErrTooLarge):
		f.Class = evidence.TooLarge
	case kube.NotAllowed(err):
		f.Class = evidence.Denial
	case apierrors.IsNotFound(err):
		f.Class = evidence.Missing
	}
	return f
}
