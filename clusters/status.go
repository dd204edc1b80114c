// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"strings"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// The states of a member, in one word for people.
const (
	StateLive         = "live"
	StateListing      = "listing"
	StateUnreachable  = "unreachable"
	StateRefused      = "refused"
	StateOtherCluster = "other cluster"
)

// lockedNote notes the state of the member, and reports whether it has become listed.
func (m *Member) lockedNote() (listed bool) {
	s := m.state.Status()
	if state := stateOf(&s); state != m.noted.State {
		m.noted.State, m.noted.Since = state, time.Now()
		m.log.Info("cluster is "+state, "listed", s.Listed)
	}
	listed, m.noted.Synced = s.Listed && !m.noted.Synced, s.Listed
	return listed
}

// stateOf is the state of a member in one word.
func stateOf(s *member.Status) string {
	following, refused := 0, 0
	state := StateListing
	for _, stream := range s.Streams {
		switch {
		case stream.Following:
			following++
		case kube.NotAllowed(stream.Err):
			refused++
		case errors.Is(stream.Err, kube.ErrOtherCluster):
			state = StateOtherCluster
		case stream.Err != nil && state == StateListing:
			state = StateUnreachable
		}
	}
	switch {
	case state != StateListing:
	case refused > 0 && following == 0:
		state = StateRefused
	case following+refused == len(s.Streams) && (s.Listed || refused > 0):
		state = StateLive
	}
	return state
}

// failed notes an error of the member.
func (m *Member) failed(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	m.mu.Lock()
	m.noted.LastError, m.noted.LastErrorAt = err.Error(), time.Now()
	m.mu.Unlock()
	m.log.Debug("cluster answers with an error", "error", err)
}

// Status returns the state of each member, by name. It walks over all Services.
func (s *Set) Status() []metrics.ClusterStatus {
	return each(s, (*Member).status)
}

func (m *Member) status() metrics.ClusterStatus {
	m.mu.Lock()
	s, out, settings := m.state.Status(), m.noted, m.settings
	counts := m.state.Tables().Stats(m.state.Clock())
	m.mu.Unlock()
	session := m.access.Current()
	out.Up, out.Synced = session != nil && out.State != StateUnreachable && out.State != StateOtherCluster, s.Listed
	out.Services, out.Pods, out.Missing = counts.Replicas, counts.Pods, s.Missing
	out.Endpoints = metrics.EndpointCounts{Ready: counts.Ready, Reserve: counts.Reserve, NotReady: counts.NotReady, Terminating: counts.Terminating}
	out.Conditions, out.Native = conditions(&s, &settings, out.State), m.native.Status()
	if settings.Cluster.Drain || s.Stale {
		out.Endpoints.Ready, out.Endpoints.Reserve = 0, counts.Ready+counts.Reserve
	}
	if !s.Since.IsZero() {
		out.LagSeconds = time.Since(s.Since).Seconds()
	}
	if session != nil {
		out.LastContact, out.Version = session.LastContact(), session.Version()
	}
	if settings.Access.REST != nil {
		out.CredentialExpires = kubeconfig.Expires(settings.Access.REST)
	}
	return out
}

// conditions are what is wrong with a member, or doubted of it, the gravest first. The reasons are a
// metric label, so the set is closed.
func conditions(s *member.Status, settings *Settings, state string) (all []metrics.Condition) {
	add := func(holds bool, reason, message string) {
		if holds {
			all = append(all, metrics.Condition{Reason: reason, Message: message})
		}
	}
	add(state == StateOtherCluster, "OtherCluster", "another cluster answers: nothing of it is used; if it is meant, take the member's line out of the record of identities")
	add(state == StateUnreachable, "Unreachable", "its endpoints stay as they were")
	if err := settings.Access.Err; err != nil {
		add(true, "Kubeconfig", err.Error())
	}
	var refused []string
	for _, stream := range s.Streams {
		if kube.NotAllowed(stream.Err) {
			refused = append(refused, strings.TrimRight(stream.Scope.Kind.String()+" "+stream.Scope.Namespace, " "))
		}
	}
	add(len(refused) > 0, "Refused", "may not be read: "+strings.Join(refused, ", ")+"; their endpoints stay as they were")
	add(s.Missing > 0, "Missing", "lists lacked objects that are asked for")
	add(s.Stale, "Stale", "out of sight for staleAfter: its endpoints serve where nobody else does")
	add(settings.Cluster.Drain, "Drained", "drained: its endpoints serve where nobody else does")
	return all
}

// Explained is what one member says of a Service.
type Explained struct {
	Member  string
	Service *syncer.Service // nil: it is not known
	Pods    []syncer.Verdict
	// Excluded says why it is not replicated; empty: it is.
	Excluded string
	// Share is the member's share; Questions are those that are open about it and its pods.
	Share     syncer.Share
	Questions []member.Question
}

// Explain says what each member makes of a Service, by name of the member.
func (s *Set) Explain(replica syncer.Key) []Explained {
	return each(s, func(m *Member) Explained { return m.explain(replica) })
}

func (m *Member) explain(replica syncer.Key) Explained {
	out := Explained{Member: m.name, Share: m.share(replica)}
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Service, out.Pods = m.state.Tables().Explain(replica, m.state.Clock())
	if out.Service != nil {
		out.Excluded = m.settings.Cluster.Replicates()(out.Service)
	}
	for _, q := range m.state.Questions() {
		if q.Key == replica || q.Key.Namespace == replica.Namespace && q.Kind == member.Pods {
			out.Questions = append(out.Questions, q)
		}
	}
	return out
}
