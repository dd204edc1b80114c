// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/reconcile"
)

// newPlanCommand shows what run would write, and writes nothing.
func newPlanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan --config FILE", Short: "Show what run would create, update and delete; nothing is written", Args: cobra.NoArgs,
		Example: "  tributary plan --config tributary.yaml\n  tributary plan --config tributary.yaml -o yaml",
	}
	path, output := addConfigFlag(cmd), addOutputFlag(cmd)
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "how long to wait for clusters to be listed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *timeout <= 0 {
			return usage{fmt.Errorf("--timeout: %s is no time in which a cluster could be listed", *timeout)}
		}
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		logger := newLogger(cmd.ErrOrStderr(), "text", slog.LevelWarn) // the plan is the output; states are no news here
		all, missing, err := app.New(watcher, app.Options{Path: *path, Build: build(), Logger: logger}).Plan(cmd.Context(), *timeout)
		if err != nil {
			return err
		}
		document := documentOf(all)
		if err := show(cmd.OutOrStdout(), *output, document, document.print); err != nil {
			return err
		}
		var problems []error
		for _, m := range missing {
			problems = append(problems, fmt.Errorf("cluster %s was not listed within %s (%s): its endpoints are planned to stay as they are", m.Name, *timeout, strings.TrimSuffix(m.State+": "+m.LastError, ": ")))
		}
		return errors.Join(problems...)
	}
	return cmd
}

// planDocument is a plan for programs: the replicas of which something is to be written, or
// is wrong.
type planDocument struct {
	// Replicas were compared, Writes are to be sent.
	Replicas int              `json:"replicas"`
	Writes   int              `json:"writes"`
	Changes  []plannedReplica `json:"changes"`
}

type plannedReplica struct {
	Replica   string          `json:"replica"`
	Actions   []plannedAction `json:"actions,omitempty"`
	Conflicts []string        `json:"conflicts,omitempty"`
}

type plannedAction struct {
	Verb      string   `json:"verb"`
	Object    string   `json:"object"`
	Why       string   `json:"why,omitempty"`
	Added     []string `json:"added,omitempty"`
	Removed   []string `json:"removed,omitempty"`
	Readied   []string `json:"readied,omitempty"`
	Unreadied []string `json:"unreadied,omitempty"`
}

// documentOf is the document of a plan.
func documentOf(all []reconcile.Comparison) *planDocument {
	out := &planDocument{Replicas: len(all), Changes: []plannedReplica{}}
	for i := range all {
		c := &all[i]
		one := plannedReplica{Replica: c.Replica.String()}
		for _, a := range c.Actions {
			one.Actions = append(one.Actions, plannedAction{a.Verb.String(), a.Object().String(), a.Why, a.Delta.Added, a.Delta.Removed, a.Delta.Readied, a.Delta.Unreadied})
		}
		for _, conflict := range c.Troubles().Conflicts {
			one.Conflicts = append(one.Conflicts, conflict.Reason+": "+conflict.Message)
		}
		out.Writes += len(one.Actions)
		if len(one.Actions)+len(one.Conflicts) > 0 {
			out.Changes = append(out.Changes, one)
		}
	}
	return out
}

// print prints a paragraph a replica, and a summary.
func (d *planDocument) print(p *printer) {
	for _, r := range d.Changes {
		p.printf("%s\n", r.Replica)
		for _, a := range r.Actions {
			p.printf("  %s\n", strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", a.Verb, a.Object, a.Why, delta(a.Added, a.Removed, a.Readied, a.Unreadied))))
		}
		for _, conflict := range r.Conflicts {
			p.printf("  conflict: %s\n", conflict)
		}
	}
	switch {
	case d.Writes == 0 && len(d.Changes) > 0:
		p.printf("\nNothing to write, but conflicts in %d of %s.\n", len(d.Changes), count(d.Replicas, "replica"))
	case d.Writes == 0:
		p.printf("Nothing to write: the ingress cluster has all that is wanted (%s).\n", count(d.Replicas, "replica"))
	default:
		p.printf("\n%s for %s. Nothing was written.\n", count(d.Writes, "write"), count(d.Replicas, "replica"))
	}
}
