// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/leader"
)

// status is the state of the process: what /debug/status shows and where the
// gauges get their values. It reads memory only.
func (r *App) status() metrics.Status {
	now := time.Now()
	reasons := r.notReady()
	s := metrics.Status{
		Version: r.build.Version, Started: r.started.UTC(), Time: now.UTC(), Lanes: []metrics.LaneStatus{},
		Ready: len(reasons) == 0, NotReady: reasons,
	}
	r.mu.Lock()
	s.Config = metrics.ConfigStatus{File: r.path, LoadedAt: r.loadedAt.UTC()}
	s.Instance = r.loaded.Config.Instance
	loaded, unread := r.loaded, r.unreadSecrets()
	if err := errors.Join(r.refused, loaded.SecretFaults.Err(), loaded.Metrics.Err, unread); err != nil {
		s.Config.Error = err.Error()
	}
	ingressErr := r.ingressErr
	session := r.ingress.Load()
	if s.Config.Error == "" && ingressErr != nil && r.begun.Load() {
		s.Config.Error = ingressErr.Error()
	}
	r.mu.Unlock()

	s.Ingress = ingressStatus(session, ingressErr)
	s.Leader = r.leader()
	for _, sink := range r.sinks.Status() {
		s.Sinks = append(s.Sinks, sink.SinkStatus)
	}
	oldest := map[string]time.Time{}
	if session != nil {
		queue := session.reconciler.Queue()
		oldest = queue.OldestArrivals()
		s.Lanes = laneStatuses(queue)
	}
	s.Clusters = r.notAsked()
	if session != nil && loaded.SecretsUnread && unread != nil {
		s.Clusters = append(s.Clusters, r.unfollowed(session, loaded.Config.Clusters, unread)...)
	}
	for _, member := range r.set.Status() {
		one := member.ClusterStatus
		one.Since, one.LastContact, one.LastErrorAt = utc(one.Since), utc(one.LastContact), utc(one.LastErrorAt)
		if arrival, waiting := oldest[one.Name]; waiting {
			one.LagSeconds = max(0, now.Sub(arrival).Seconds())
		}
		if access := loaded.Members[member.Name]; access.REST != nil {
			one.CredentialExpires = kubeconfig.Expires(access.REST)
			if token, renewed := kubeconfig.ParseAccountToken(access.REST.BearerToken); renewed {
				one.CredentialRenewed = token.RenewAt()
			}
		}
		s.Clusters = append(s.Clusters, one)
		s.Held = append(s.Held, heldChanges(&member)...)
	}
	slices.SortFunc(s.Clusters, func(a, b metrics.ClusterStatus) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// notAsked are the members that are configured while none is asked: what stands in the ingress cluster is listed first.
// Those that are Secrets there are not known then. It is never nil.
func (r *App) notAsked() []metrics.ClusterStatus {
	out := []metrics.ClusterStatus{}
	if r.set.Loaded() != nil {
		return out
	}
	for _, c := range r.running().Config.Clusters {
		out = append(out, metrics.ClusterStatus{
			Name: c.Name, State: string(clusters.Connecting), Since: r.started.UTC(), LastError: "not asked yet: the ingress cluster is listed first",
		})
	}
	return out
}

// leader is who writes.
func (r *App) leader() metrics.LeaderStatus {
	in := phase(r.phase.Load()).String()
	session := r.ingress.Load()
	if session == nil {
		return metrics.LeaderStatus{Phase: in}
	}
	return leaderStatus(in, session.elector.State())
}

func leaderStatus(phase string, e leader.State) metrics.LeaderStatus {
	out := metrics.LeaderStatus{Phase: phase}
	out.Identity, out.Holder, out.Lease, out.Since, out.Reason = e.Identity, e.Holder, e.Lease, utc(e.Since), e.Reason
	switch {
	case e.Leading && e.Alone:
		out.State = "alone"
	case e.Leading:
		out.State = "leading"
	default:
		out.State = "standby"
		if out.Holder == out.Identity { // its own Lease, which it may not renew: nobody leads
			out.Holder = ""
		}
	}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	return out
}

func ingressStatus(session *ingressSession, opening error) metrics.IngressStatus {
	if session == nil {
		s := metrics.IngressStatus{State: "connecting"}
		if opening != nil {
			s.State, s.LastError = "unreachable", opening.Error()
		}
		return s
	}
	s := metrics.IngressStatus{
		State: "live", Up: true, Synced: session.reconciler.Synced(), Version: session.watch.Version().String(),
		Replicas: session.reconciler.Owned(), LastContact: session.reconciler.LastContact().UTC(),
	}
	trouble := session.reconciler.Trouble()
	switch {
	case trouble != nil:
		s.State, s.Up = "unreachable", false
	case !s.Synced:
		s.State = "syncing"
	}
	// That another way to it fails is no reason to call one that serves unreachable.
	if err := errors.Join(opening, trouble); err != nil {
		s.LastError = err.Error()
	}
	return s
}

// utc leaves the zero time as it is, which a status shows as never.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func laneStatuses(queue *lanes.Queue) []metrics.LaneStatus {
	var out []metrics.LaneStatus
	states := queue.States()
	for _, lane := range lanes.All() {
		s := states[lane]
		out = append(out, metrics.LaneStatus{
			Name: lane.String(), Depth: s.Depth, Working: s.Working, OldestSeconds: s.Oldest.Seconds(),
			UnfinishedSeconds: s.Unfinished.Seconds(), LongestSeconds: s.Longest.Seconds(),
		})
	}
	return out
}

// Describe says in few words how a member stands.
func Describe(s clusters.Status) string {
	text := stateText(s.State, s.Reason)
	if s.LastError != "" {
		text += ": " + s.LastError
	}
	return text
}
