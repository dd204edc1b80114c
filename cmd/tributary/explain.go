// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
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
		found := func(m app.ExplainedMember) bool { return m.Found }
		if err == nil && e.Service == "none" && !slices.ContainsFunc(e.Members, found) {
			err = fmt.Errorf("service %q not found: no member that was read has it, and the ingress cluster has nothing of that name", key)
		}
		return err
	}
	return cmd
}

// serviceText says whose the Service of the ingress cluster is.
var serviceText = map[string]string{
	"ours": "the Service is Tributary's", "none": "there is nothing of that name", "unknown": "nothing has been listed yet",
	"foreign": "the Service of that name is not Tributary's, and is left alone",
}

// printExplanation prints a paragraph a member, a line an endpoint.
func printExplanation(p *printer, e *app.Explanation) {
	for i := range e.Members {
		printMember(p, &e.Members[i])
	}
	p.printf("In the ingress cluster %s.\n", serviceText[e.Service])
	for _, c := range e.Conflicts {
		p.printf("Conflict: %s: %s\n", c.Reason, c.Message)
	}
}

func printMember(p *printer, m *app.ExplainedMember) {
	p.printf("%s: %s\n", m.Cluster, memberState(m.State, m.Conditions))
	switch {
	case m.Excluded != "":
		p.printf("  not replicated: %s\n", m.Excluded)
	case m.Found:
		p.printf("  %d ready, %d in reserve, %d not ready\n", m.Ready, m.InReserve, m.NotReady)
	case m.Listed:
		p.printf("  no such Service\n")
	default:
		p.printf("  no such Service so far: the member has not been listed completely, and its endpoints stay as they are\n")
	}
	if len(m.Asked) > 0 {
		p.printf("  asked for, since a list lacked them; until there is an answer they stay as they were: %s\n", strings.Join(m.Asked, ", "))
	}
	if m.Reserve != "" {
		p.printf("  all its endpoints are in reserve: %s\n", m.Reserve)
	}
	var all [][]string
	for _, e := range m.Endpoints {
		why := e.Why
		if e.Rule != "" {
			why += " (rule " + e.Rule + ")"
		}
		all = append(all, []string{"  " + cmp.Or(e.Pod, "-"), strings.Join(e.Addresses, " "), e.Grade, e.Current, why})
	}
	p.table([]string{"  POD", "IP", "GRADE", "CURRENT", "WHY"}, all)
	p.printf("\n")
}
