// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/reconcile"
)

// newExplainCommand says what becomes of a replica, pod by pod.
func newExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain NAMESPACE/NAME", Short: "Show every member's Service and pods: which became endpoints, why each other did not, what stands",
		Long: "Show every member's Service and pods: which became endpoints, why each other did not, and what stands in the\n" +
			"ingress cluster. The name is that of the replica, or of the Service in the members.",
		Example: "  tributary explain shop/web\n  tributary explain shop/web --cluster idc-a --context ingress -o yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("give one Service, as NAMESPACE/NAME")
			}
			return nil
		},
		ValidArgsFunction: serviceNames,
	}
	from, output := addInstanceFlags(cmd), addOutputFlag(cmd, "wide")
	cluster := addClusterFlag(cmd, "only this member")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := parseService(args[0])
		if err != nil || key == nil {
			return misused(fmt.Errorf("%q is not NAMESPACE/NAME", args[0]))
		}
		explanation, err := ask[app.Explanation](cmd.Context(), from, app.ExplainPath, url.Values{"service": {key.String()}})
		if err != nil {
			return err
		}
		missing := anythingToExplain(cmd.Context(), from, explanation)
		if *cluster != "" {
			explanation.Members = slices.DeleteFunc(explanation.Members, func(m app.ExplainedMember) bool { return m.Cluster != *cluster })
			if len(explanation.Members) == 0 {
				if err := memberExists(cmd.Context(), from, *cluster); err != nil {
					return err
				}
			}
		}
		if output.value == "json" || output.value == "yaml" {
			err = printObject(cmd.OutOrStdout(), output.value, versioned[*app.Explanation]{config.APIVersion, "Explanation", explanation})
		} else {
			err = failed(printExplanation(cmd.OutOrStdout(), explanation, output.value == "wide"))
		}
		return cmp.Or(err, missing)
	}
	return cmd
}

// printExplanation prints a line a Service, a line a pod, and what stands.
func printExplanation(w io.Writer, e *app.Explanation, wide bool) error {
	p := &explanationPrinter{w: w, wide: wide}
	for _, m := range e.Members {
		p.member(&m, e.Namespace+"/"+e.Name)
	}
	p.stands(&e.Stands)
	for _, o := range e.Orphans {
		p.printf("Orphan: %s is not configured any more, and %d endpoints of it stay as they were\n", clean(o.Cluster), o.Endpoints)
	}
	for _, c := range e.Conflicts {
		p.printf("Conflict: %s: %s\n", clean(c.Reason), clean(c.Message))
	}
	for _, h := range e.Held {
		p.printf("Held: %s %s: %s; %s\n", clean(h.Cluster), clean(h.Reason), clean(h.Message), clean(h.Release))
	}
	return p.err
}

// explanationPrinter remembers the first error.
type explanationPrinter struct {
	w    io.Writer
	wide bool
	err  error
}

func (p *explanationPrinter) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *explanationPrinter) table(headings []string, all [][]string) {
	if p.err == nil && len(all) > 0 {
		p.err = rows(p.w, headings, all)
	}
}

func (p *explanationPrinter) member(m *app.ExplainedMember, replica string) {
	state := m.State
	if m.Reason != "" {
		state += " (" + m.Reason + ")"
	}
	if m.Drained {
		state += ", drained"
	}
	p.printf("%s: %s\n", clean(m.Cluster), clean(state))
	switch {
	case len(m.Services) > 0:
	case m.Synced:
		p.printf("  no such Service\n")
	default:
		p.printf("  no such Service so far: the member has not been read whole\n")
	}
	for i := range m.Services {
		p.service(&m.Services[i])
		if at := m.Services[i].Replica; at != "" && at != replica {
			p.printf("  It is in replica %s: tributary explain %s\n", clean(at), clean(at))
		}
	}
	p.printf("\n")
}

func (p *explanationPrinter) service(s *app.ExplainedService) {
	switch {
	case s.Excluded != "":
		p.printf("  Service %s is excluded: %s\n", clean(s.Service), clean(s.Excluded))
		return
	case s.Manual:
		p.printf("  Service %s has no selector; written by hand: %d ready, %d not ready\n", clean(s.Service), s.Ready, s.NotReady)
	default:
		p.printf("  Service %s: %d ready, %d not ready\n", clean(s.Service), s.Ready, s.NotReady)
	}
	if s.Held {
		p.printf("  lists of the member lack the Service, and it is kept\n")
	}
	headings := []string{"POD", "IP", "ENDPOINT", "WHY"}
	if p.wide {
		headings = append(headings, "NODE")
	}
	var all [][]string
	for _, pod := range s.Pods {
		what := "no"
		switch {
		case pod.Endpoint && pod.Ready:
			what = "ready"
		case pod.Endpoint:
			what = "not ready"
		}
		row := []string{pod.Pod, dash(strings.Join(pod.IPs, " ")), what, dash(pod.Why)}
		if p.wide {
			row = append(row, dash(pod.Node))
		}
		all = append(all, row)
	}
	p.table(headings, all)
}

func (p *explanationPrinter) stands(s *reconcile.Stands) {
	switch s.Service {
	case "none":
		p.printf("Nothing of that name stands in the ingress cluster.\n")
	case "foreign":
		p.printf("In the ingress cluster the Service of that name is not Tributary's, and is left alone.\n")
	case "unknown":
		p.printf("The ingress cluster has not been listed yet.\n")
	case "ours":
		in := "these in slices:"
		if len(s.Endpoints) == 0 {
			in = "none in slices."
		}
		p.printf("In the ingress cluster: %d ready addresses in Endpoints, %s\n", s.InEndpoints, in)
	}
	var all [][]string
	for _, e := range s.Endpoints {
		var conditions []string
		for _, c := range []struct {
			name string
			set  bool
		}{{"ready", e.Ready}, {"serving", e.Serving}, {"terminating", e.Terminating}, {"not ours", e.Foreign}} {
			if c.set {
				conditions = append(conditions, c.name)
			}
		}
		all = append(all, []string{dash(e.Cluster), e.Address, dash(strings.Join(conditions, ","))})
	}
	p.table([]string{"CLUSTER", "ADDRESS", "CONDITIONS"}, all)
}
