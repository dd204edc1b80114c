// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/reconcile"
)

// exitPending is the exit code of plan --detailed-exitcode when there is something to write.
const exitPending = 3

// newPlanCommand shows what run would write, and writes nothing.
func newPlanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan --config FILE", Short: "Show what run would create, update and delete; nothing is written", Args: noArguments,
		Example: "  tributary plan --config tributary.yaml\n  tributary plan --config tributary.yaml --service shop/web -o yaml",
	}
	path, output, logs := addConfigFlag(cmd), addOutputFlag(cmd), addLogFlags(cmd)
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "how long to wait for clusters to be listed")
	service := cmd.Flags().String("service", "", "only this replica: `NAMESPACE/NAME`")
	pending := cmd.Flags().Bool("detailed-exitcode", false, "exit with 3 if there is something to write")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		if err := usable(watcher.Loaded()); err != nil {
			return misused(err)
		}
		*logs.verbosity -= int(slog.LevelWarn - slog.LevelInfo) // the plan is the output; states are not news here
		planning := app.New(watcher, app.Options{Path: *path, Build: appBuild(), Logger: logs.newLogger(cmd.ErrOrStderr())})
		all, missing, err := planning.Plan(cmd.Context(), *timeout)
		if err != nil {
			return failed(err)
		}
		for _, m := range missing {
			fmt.Fprintf(cmd.ErrOrStderr(), "tributary plan: cluster %s was not listed within %s (%s: %s); what stands of it is taken as what it gives\n", m.Name, *timeout, m.State, dash(m.LastError))
		}
		document, err := documentOf(all, *service)
		if err == nil && output.value != "text" {
			err = printObject(cmd.OutOrStdout(), output.value, "Plan", document)
		} else if err == nil {
			err = failed(writePlan(cmd.OutOrStdout(), document))
		}
		switch {
		case err != nil:
			return err
		case len(missing) > 0:
			return &exit{code: exitFailed}
		case *pending && document.Writes > 0:
			return &exit{code: exitPending}
		}
		return nil
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
	Replica string          `json:"replica"`
	Actions []plannedAction `json:"actions,omitempty"`
	// Then are the addresses that follow once the actions are written, as "ip" of a member.
	Then      []string `json:"then,omitempty"`
	Conflicts []string `json:"conflicts,omitempty"`
	// Waiting is why nothing, or not all, may be written.
	Waiting string `json:"waiting,omitempty"`
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

// documentOf is the document of a plan, or of one replica.
func documentOf(all []reconcile.Comparison, service string) (*planDocument, error) {
	out := &planDocument{Changes: []plannedReplica{}}
	for i := range all {
		c := &all[i]
		if service != "" && c.Replica.String() != service {
			continue
		}
		out.Replicas++
		one := plannedReplica{Replica: c.Replica.String(), Waiting: string(c.Waiting.Reason)}
		if c.Excluded && c.Want != nil {
			one.Waiting = "the namespace may not be written to (ingress.namespaces)"
		}
		if !c.Excluded {
			for _, a := range c.Actions {
				one.Actions = append(one.Actions, plannedAction{a.Verb.String(), a.Object().String(), a.Why, a.Delta.Added, a.Delta.Removed, a.Delta.Readied, a.Delta.Unreadied})
			}
			for _, conflict := range c.Waiting.Conflicts {
				one.Conflicts = append(one.Conflicts, string(conflict.Reason)+": "+conflict.Message)
			}
		}
		if out.Writes += len(one.Actions); len(one.Actions)+len(one.Conflicts) > 0 || one.Waiting != "" {
			out.Changes = append(out.Changes, one)
		}
	}
	if service != "" && out.Replicas == 0 {
		return nil, failedf("Service %q not found: no member that was listed has it, and nothing of that name stands in the ingress cluster", service)
	}
	return out, nil
}

// writePlan prints a paragraph a replica, and a summary.
func writePlan(w io.Writer, d *planDocument) error {
	p := &printer{w: w}
	for _, r := range d.Changes {
		p.printf("%s\n", r.Replica)
		for _, a := range r.Actions {
			p.printf("  %s %s: %s%s\n", a.Verb, a.Object, dash(a.Why), a.delta())
		}
		for _, conflict := range r.Conflicts {
			p.printf("  conflict: %s\n", conflict)
		}
		if r.Waiting != "" {
			p.printf("  waits: %s\n", r.Waiting)
		}
	}
	if d.Writes == 0 {
		p.printf("Nothing to write: all that is wanted stands (%d replicas).\n", d.Replicas)
	} else {
		p.printf("\n%d writes for %d replicas.\n", d.Writes, d.Replicas)
	}
	return p.err
}

func (a *plannedAction) delta() string {
	text := ""
	for _, part := range []struct {
		mark string
		list []string
	}{{"+", a.Added}, {"-", a.Removed}, {"ready:", a.Readied}, {"unready:", a.Unreadied}} {
		if n := len(part.list); n > maxShown {
			text += " " + part.mark + strings.Join(part.list[:maxShown], " "+part.mark) + " and " + strconv.Itoa(n-maxShown) + " more"
		} else if n > 0 {
			text += " " + part.mark + strings.Join(part.list, " "+part.mark)
		}
	}
	return text
}
