// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/syncer"
)

// newExplainCommand says what becomes of a replica, pod by pod.
func newExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain NAMESPACE/NAME", Short: "Show every member's Service and pods: which became endpoints, of which grade and why, and what the ingress cluster has",
		Example: "  tributary explain shop/web\n  tributary explain shop/web --context ingress -o yaml",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	from, output := addInstanceFlags(cmd), addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, ok := syncer.ParseKey(args[0])
		if !ok {
			return usage{fmt.Errorf("%q is not NAMESPACE/NAME", args[0])}
		}
		e, err := ask[app.Explanation](cmd.Context(), from, app.ExplainPath, url.Values{"service": {key.String()}})
		if err != nil {
			return err
		}
		err = show(cmd.OutOrStdout(), *output, e, func(p *printer) { printExplanation(p, e) })
		found := func(m app.ExplainedMember) bool { return m.Service != nil }
		if err == nil && e.Current.Service == "none" && !slices.ContainsFunc(e.Members, found) {
			err = fmt.Errorf("service %q not found: no member that was read has it, and the ingress cluster has nothing of that name", key)
		}
		return err
	}
	return cmd
}

// printExplanation prints a paragraph a member, a line a pod, and what the ingress cluster has.
func printExplanation(p *printer, e *app.Explanation) {
	for i := range e.Members {
		printMember(p, &e.Members[i])
	}
	switch e.Current.Service {
	case "none":
		p.printf("In the ingress cluster there is nothing of that name.\n")
	case "foreign":
		p.printf("In the ingress cluster the Service of that name is not Tributary's, and is left alone.\n")
	case "unknown":
		p.printf("The ingress cluster has not been listed yet.\n")
	default:
		p.printf("In the ingress cluster: %d addresses in slices.\n", len(e.Current.Endpoints))
	}
	var all [][]string
	for _, endpoint := range e.Current.Endpoints {
		all = append(all, []string{"  " + endpoint.Cluster, endpoint.Address, endpoint.Conditions()})
	}
	p.table([]string{"  CLUSTER", "ADDRESS", "CONDITIONS"}, all)
	for _, c := range e.Conflicts {
		p.printf("Conflict: %s: %s\n", c.Reason, c.Message)
	}
}

func printMember(p *printer, m *app.ExplainedMember) {
	p.printf("%s: %s\n", m.Cluster, memberState(m.State, m.Conditions))
	s := m.Service
	switch {
	case s == nil && m.Listed:
		p.printf("  no such Service\n")
	case s == nil:
		p.printf("  no such Service so far: the member has not been listed completely, and its endpoints stay as they are\n")
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
			why := pod.Why
			if pod.Rule != "" {
				why += " (rule " + pod.Rule + ")"
			}
			all = append(all, []string{"  " + pod.Pod, strings.Join(pod.IPs, " "), pod.Grade, pod.Current, why})
		}
		p.table([]string{"  POD", "IP", "GRADE", "CURRENT", "WHY"}, all)
	}
	p.printf("\n")
}
