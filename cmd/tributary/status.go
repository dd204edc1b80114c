// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
)

// lookEvery is the time between two looks of status --watch.
const lookEvery = 2 * time.Second

// between is what comes before each answer of status --watch, by format: home and clear, or a new document.
var between = map[string]string{"text": "\x1b[H\x1b[2J", "yaml": "---\n"}

// newStatusCommand shows the state of a running instance.
func newStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show members, lag, queue, conflicts and orphans of a running instance", Args: cobra.NoArgs,
		Long:    "Show the state of a running instance: first whether all is well, or what is wrong and what to type.",
		Example: "  tributary status\n  tributary status --context ingress --watch",
	}
	from, output := addInstanceFlags(cmd), addOutputFlag(cmd)
	watch := cmd.Flags().BoolP("watch", "w", false, "show it again every 2 seconds, also of another process that leads meanwhile")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		for {
			status, err := ask[metrics.Status](cmd.Context(), from, "/debug/status", nil)
			if err == nil {
				if *watch {
					_, _ = io.WriteString(out, between[*output])
				}
				err = show(out, *output, status, func(p *printer) { printStatus(p, status) })
			} else if _, misused := errors.AsType[usage](err); *watch && !misused && cmd.Context().Err() == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s  %v\n", stamp(time.Now()), err)
				err = nil
			}
			if err != nil || !*watch {
				return err
			}
			select {
			case <-time.After(lookEvery):
			case <-cmd.Context().Done():
				return nil
			}
		}
	}
	return cmd
}

// printStatus prints a status for people: what is wrong, then the numbers. Ages count on the
// instance's clock.
func printStatus(p *printer, s *metrics.Status) {
	printSummary(p, s)
	printMembers(p, s)
	printQueue(p, s)
	printSinks(p, s)
	printTroubles(p, s)
}

func printSummary(p *printer, s *metrics.Status) {
	findings := s.Findings()
	if len(findings) == 0 {
		p.printf("All is well.\n")
	}
	for _, f := range findings {
		mark := "look"
		if f.Grave {
			mark = "WRONG"
		}
		p.printf("%-5s  %s\n       to do: %s\n", mark, f.Text, f.Do)
	}
	p.printf("\nInstance  %s, %s, up for %s\n", s.Instance, cmp.Or(s.Version, "version unknown"), duration.HumanDuration(s.Time.Sub(s.Started)))
	switch l := s.Leader; {
	case l.State == "":
	case l.Writes():
		p.printf("Leader    this process (%s), %s for %s\n", l.Identity, l.State, duration.HumanDuration(s.Time.Sub(l.Since)))
	default:
		p.printf("Leader    %s; this process (%s) is on standby\n", cmp.Or(l.Holder, "nobody"), l.Identity)
	}
	p.printf("Ingress   %s, %s, %s, last contact %s\n", s.Ingress.State, cmp.Or(s.Ingress.Version, "version unknown"),
		count(s.Ingress.Replicas, "replica"), page.Ago(s.Ingress.LastContact, s.Time))
}

func printMembers(p *printer, s *metrics.Status) {
	if len(s.Clusters)+len(s.Orphans) == 0 && s.Ready { // before, they are not known
		p.printf("\nThere are no members yet: name one in the configuration, or make one by tributary link; its Secret is seen within some seconds where clustersFrom.secrets is set.\n")
	}
	var all, native [][]string
	for i := range s.Clusters {
		c := &s.Clusters[i]
		e := &c.Endpoints
		all = append(all, []string{
			c.Name, memberState(c.State, c.Conditions), c.Version, strconv.Itoa(c.Services), strconv.Itoa(e.Ready), strconv.Itoa(e.Reserve),
			strconv.Itoa(e.NotReady), strconv.Itoa(c.Missing), seconds(c.LagSeconds), page.Ago(c.LastContact, s.Time), stamp(c.CredentialExpires),
		})
		if n := c.Native; n != nil {
			native = append(native, []string{c.Name, seconds(n.BehindSeconds), strconv.Itoa(n.DifferingCount)})
		}
	}
	p.section("Clusters", 0, []string{"NAME", "STATE", "VERSION", "SERVICES", "READY", "RESERVE", "NOT READY", "MISSING", "LAG", "LAST CONTACT", "CREDENTIAL ENDS"}, all)
	p.section("The clusters' own controller managers", 0, []string{"CLUSTER", "BEHIND", "DIFFERING"}, native)
}

// memberState is the state of a member with the reasons of its conditions, but for one that
// says the same.
func memberState(state string, conditions []metrics.Condition) string {
	text := state
	for _, c := range conditions {
		if !strings.EqualFold(c.Reason, strings.ReplaceAll(state, " ", "")) {
			text += ", " + c.Reason
		}
	}
	return text
}

func printQueue(p *printer, s *metrics.Status) {
	var all [][]string
	for _, l := range s.Lanes {
		all = append(all, []string{l.Name, strconv.Itoa(l.Waiting), strconv.Itoa(l.Sent), seconds(l.OldestSeconds)})
	}
	p.section("Writes; replicas that wait for a comparison: "+strconv.Itoa(s.Comparing), 0, []string{"LANE", "WAITING", "UNDER WAY", "OLDEST"}, all)
}

func printSinks(p *printer, s *metrics.Status) {
	var all [][]string
	for i := range s.Sinks {
		k := &s.Sinks[i]
		all = append(all, []string{
			k.Name, k.State, strconv.Itoa(k.Services), strconv.Itoa(k.Pending), strconv.Itoa(k.Refused), seconds(k.LagSeconds),
			strconv.FormatUint(k.Requests, 10), strconv.FormatUint(k.Failures, 10), page.Ago(k.LastAcknowledged, s.Time), k.LastError,
		})
	}
	p.section("Sinks", 0, []string{"NAME", "STATE", "SERVICES", "PENDING", "REFUSED", "LAG", "REQUESTS", "FAILURES", "LAST ACKNOWLEDGED", "LAST ERROR"}, all)
}

func printTroubles(p *printer, s *metrics.Status) {
	var conflicts, rejected [][]string
	for _, c := range s.Conflicts {
		conflicts = append(conflicts, []string{c.Namespace + "/" + c.Service, c.Reason, c.Cluster, page.Ago(c.Since, s.Time), c.Message})
	}
	for _, r := range s.Rejected {
		rejected = append(rejected, []string{r.Cluster, r.Namespace + "/" + r.Service, r.Address, r.Reason})
	}
	p.section("Conflicts", s.ConflictCount, []string{"SERVICE", "REASON", "CLUSTER", "SINCE", "MESSAGE"}, conflicts)
	p.section("Rejected addresses", s.RejectedCount, []string{"CLUSTER", "SERVICE", "ADDRESS", "REASON"}, rejected)
}
