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
	Ready     bool
	Leader    struct{ State string }
	Config    struct{ Error string }
	Ingress   ingressStatus
	Clusters  []clusterStatus
	Comparing int
	Lanes     []struct {
		Name           string
		Depth, Working int
	}
	Conflicts     []struct{ Namespace, Service, Reason, Cluster, Message string }
	RejectedCount int
}

type ingressStatus struct {
	Up               bool
	State, LastError string
}

type clusterStatus struct {
	Name, State string
	Up, Synced  bool
	Conditions  []struct{ Reason, Message string }
	Missing     int
	LastError   string
	LagSeconds  float64
}

// has reports whether a condition of that reason holds.
func (c clusterStatus) has(reason string) bool {
	return slices.ContainsFunc(c.Conditions, func(x struct{ Reason, Message string }) bool { return x.Reason == reason })
}

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
		if s.Comparing > 0 {
			return fmt.Errorf("%d replicas wait for a comparison", s.Comparing)
		}
		for _, lane := range s.Lanes {
			if n := lane.Depth + lane.Working; n > 0 {
				return fmt.Errorf("%d requests of lane %s are not answered", n, lane.Name)
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

// asksNothing returns nil when no question about what is missing is open.
func (w *world) asksNothing(ctx context.Context) error {
	s, err := w.status(ctx)
	for _, c := range s.Clusters {
		if c.Missing > 0 {
			return fmt.Errorf("%d are missing in %s", c.Missing, c.Name)
		}
	}
	return err
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
