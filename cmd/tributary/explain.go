// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/cmd/tributary/internal/app"
)

// newExplainCommand says what becomes of a replica, pod by pod.
func newExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain NAMESPACE/NAME", Short: "Show every member's Service and pods: which became endpoints, of which grade and why, and what stands",
		Example: "  tributary explain shop/web\n  tributary explain shop/web --cluster idc-a --context ingress -o yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("give one Service, as NAMESPACE/NAME")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			all, err := ask[app.Explainable](cmd.Context(), instanceFlagsOf(cmd), app.ExplainPath, nil)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return all.Services, cobra.ShellCompDirectiveNoFileComp
		},
	}
	from, output := addInstanceFlags(cmd), addOutputFlag(cmd)
	cluster := addClusterFlag(cmd, "only this member")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := parseService(args[0])
		if err != nil {
			return err
		}
		e, err := ask[app.Explanation](cmd.Context(), from, app.ExplainPath, url.Values{"service": {key.String()}})
		if err != nil {
			return err
		}
		nothing := e.Stands.Service == "none" && !slices.ContainsFunc(e.Members, func(m app.ExplainedMember) bool { return m.Service != nil })
		if *cluster != "" {
			e.Members = slices.DeleteFunc(e.Members, func(m app.ExplainedMember) bool { return m.Cluster != *cluster })
			if len(e.Members) == 0 {
				return failedf("member %q not found", *cluster)
			}
		}
		if output.value != "text" {
			err = printObject(cmd.OutOrStdout(), output.value, "Explanation", e)
		} else {
			err = failed(writeExplanation(cmd.OutOrStdout(), e))
		}
		if err == nil && nothing {
			err = failedf("Service %q not found: no member that was read has it, and nothing of that name stands in the ingress cluster", key)
		}
		return err
	}
	return cmd
}

// writeExplanation prints a paragraph a member, a line a pod, and what stands.
func writeExplanation(w io.Writer, e *app.Explanation) error {
	p := &explanationPrinter{printer{w: w}}
	for i := range e.Members {
		p.member(&e.Members[i])
	}
	p.stands(&e.Stands)
	for _, c := range e.Conflicts {
		p.printf("Conflict: %s: %s\n", c.Reason, c.Message)
	}
	return p.err
}

type explanationPrinter struct{ printer }

func (p *explanationPrinter) member(m *app.ExplainedMember) {
	state := []string{m.State}
	for _, c := range m.Conditions {
		state = append(state, c.Reason)
	}
	p.printf("%s: %s\n", m.Cluster, strings.Join(state, ", "))
	s := m.Service
	switch {
	case s == nil && m.Listed:
		p.printf("  no such Service\n")
	case s == nil:
		p.printf("  no such Service so far: the member has not been listed completely, and what stands of it stays\n")
	case s.Excluded != "":
		p.printf("  not replicated: %s\n", s.Excluded)
	case s.HandWritten:
		p.printf("  no selector; endpoints written by hand: %d ready, %d in reserve, %d not ready\n", s.Ready, s.Reserve, s.NotReady)
	default:
		p.printf("  %d ready, %d in reserve, %d not ready\n", s.Ready, s.Reserve, s.NotReady)
	}
	if len(m.Asked) > 0 {
		p.printf("  asked for, since a list lacked them; until there is an answer they stay as they were: %s\n", strings.Join(m.Asked, ", "))
	}
	if m.Reserve != "" {
		p.printf("  all its endpoints are in reserve: %s\n", m.Reserve)
	}
	if s != nil {
		var all [][]string
		for _, pod := range s.Pods {
			why := dash(pod.Why)
			if pod.Rule != "" {
				why += " (rule " + pod.Rule + ")"
			}
			all = append(all, []string{pod.Pod, dash(strings.Join(pod.IPs, " ")), pod.Grade, pod.Stands, why})
		}
		p.table([]string{"  POD", "IP", "GRADE", "STANDS", "WHY"}, indented(all))
	}
	p.printf("\n")
}

// indented puts a table below its paragraph.
func indented(rows [][]string) [][]string {
	for _, cells := range rows {
		cells[0] = "  " + cells[0]
	}
	return rows
}

func (p *explanationPrinter) stands(s *app.Standing) {
	switch s.Service {
	case "none":
		p.printf("In the ingress cluster nothing of that name stands.\n")
	case "foreign":
		p.printf("In the ingress cluster the Service of that name is not Tributary's, and is left alone.\n")
	case "unknown":
		p.printf("The ingress cluster has not been listed yet.\n")
	default:
		p.printf("In the ingress cluster: %d addresses in slices.\n", len(s.Endpoints))
	}
	var all [][]string
	for _, e := range s.Endpoints {
		var conditions []string
		for _, c := range []struct {
			name string
			set  bool
		}{{"ready", e.Ready}, {"serving", e.Serving}, {"terminating", e.Terminating}} {
			if c.set {
				conditions = append(conditions, c.name)
			}
		}
		all = append(all, []string{"  " + e.Cluster, e.Address, dash(strings.Join(conditions, ","))})
	}
	p.table([]string{"  CLUSTER", "ADDRESS", "CONDITIONS"}, all)
}
