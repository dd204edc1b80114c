// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tributary.dev/tributary/e2e/fleet"
)

// status is the part of /debug/status that is of interest here.
type status struct {
	Ready    bool
	Config   struct{ Error string }
	Ingress  ingressStatus
	Clusters []clusterStatus
	Lanes    []struct {
		Name  string
		Depth int
	}
	Conflicts     []struct{ Namespace, Service, Reason, Cluster, Message string }
	Held          []heldChange
	HeldCount     int
	RejectedCount int
}

type ingressStatus struct {
	Up        bool
	LastError string
}

type clusterStatus struct {
	Name, State, Reason string
	Up, Synced          bool
	LastError           string
	LagSeconds          float64
}

type heldChange struct{ Namespace, Service, Cluster, Reason, Message, Release string }

func (w *world) status(ctx context.Context) (s status, err error) { return statusOf(ctx, w.proc) }

func statusOf(ctx context.Context, p *fleet.Tributary) (s status, err error) {
	body, err := p.Get(ctx, "/debug/status")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(body, &s)
}

// settled waits until no change waits to be written, or to be tried again.
func (w *world) settled() {
	w.Helper()
	w.eventually(30*time.Second, func(ctx context.Context) error {
		s, err := w.status(ctx)
		for _, lane := range s.Lanes {
			if lane.Depth > 0 {
				return fmt.Errorf("%d keys wait in lane %s", lane.Depth, lane.Name)
			}
		}
		for _, c := range s.Clusters {
			if c.LagSeconds > 0 {
				return fmt.Errorf("a change of %s waits for %.1f s", c.Name, c.LagSeconds)
			}
		}
		return err
	})
}

// reports waits until a member is reported as the condition wants it, and
// returns how long that took.
func (w *world) reports(member string, limit time.Duration, want string, is func(clusterStatus) bool) time.Duration {
	w.Helper()
	return w.eventually(limit, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Clusters, func(c clusterStatus) bool { return c.Name == member })
		if i < 0 {
			return fmt.Errorf("the status does not name %s", member)
		}
		if !is(s.Clusters[i]) {
			return fmt.Errorf("%s is %+v, want it %s", member, s.Clusters[i], want)
		}
		return nil
	})
}

func (w *world) reportsDown(member string, limit time.Duration) time.Duration {
	w.Helper()
	return w.reports(member, limit, "down", func(c clusterStatus) bool { return !c.Up })
}

func (w *world) reportsUp(member string, limit time.Duration) time.Duration {
	w.Helper()
	return w.reports(member, limit, "up", func(c clusterStatus) bool { return c.Up && c.Synced })
}

// follows waits until tributary follows exactly these members.
func (w *world) follows(names ...string) {
	w.Helper()
	w.eventually(10*time.Second, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err != nil {
			return err
		}
		var got []string
		for _, c := range s.Clusters {
			got = append(got, c.Name)
		}
		if !slices.Equal(got, names) {
			return fmt.Errorf("tributary follows %q, want %q", got, names)
		}
		return nil
	})
}
