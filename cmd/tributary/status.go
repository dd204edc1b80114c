// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
)

// statusPause is the time between two looks of status --watch and --wait.
const statusPause = time.Second

// newStatusCommand shows the state of a running instance.
func newStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show members, lag, queue, conflicts and orphans of a running instance", Args: noArguments,
		Long: "Show the state of a running instance: first whether all is well, or what is wrong and what to do about it.\n" +
			"With --exit-code or --wait the exit code is 1 unless all is well.",
		Example: "  tributary status\n  tributary status --context ingress --cluster idc-a\n  tributary status --watch\n  tributary status --wait 2m   # for scripts",
	}
	from, output := addInstanceFlags(cmd), addOutputFlag(cmd)
	cluster := addClusterFlag(cmd, "only what concerns this member")
	watch := cmd.Flags().BoolP("watch", "w", false, "show it again every second")
	exitCode := cmd.Flags().Bool("exit-code", false, "exit with 1 unless all is well")
	wait := cmd.Flags().Duration("wait", 0, "ask again until all is well, for that long at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, deadline := url.Values{}, time.Now().Add(*wait)
		if *cluster != "" {
			query.Set("cluster", *cluster)
		}
		for {
			status, err := ask[metrics.Status](cmd.Context(), from, "/debug/status", query)
			well := err == nil && len(status.Findings()) == 0
			if *wait > 0 && !well && time.Now().Before(deadline) && pause(cmd.Context(), statusPause) {
				continue
			}
			if err == nil {
				err = printStatus(cmd, output.value, status, *cluster, *watch)
			}
			switch {
			case err != nil:
				return err
			case *watch:
				if !pause(cmd.Context(), statusPause) {
					return nil
				}
			case (*exitCode || *wait > 0) && !well:
				return &exit{code: exitFailed}
			default:
				return nil
			}
		}
	}
	return cmd
}

// pause waits; it returns false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func printStatus(cmd *cobra.Command, format string, s *metrics.Status, cluster string, again bool) error {
	out := cmd.OutOrStdout()
	if cluster != "" && len(s.Orphans) == 0 && len(s.Clusters) == 0 {
		return failedf("member %q not found", cluster)
	}
	if format != "text" {
		return printObject(out, format, "Status", s)
	}
	if again {
		if _, err := io.WriteString(out, "\x1b[H\x1b[2J"); err != nil { // home, and clear
			return failed(err)
		}
	}
	return failed(writeStatus(out, s))
}

// writeStatus writes a status for people: what is wrong, then the numbers. Ages count on
// the instance's clock.
func writeStatus(w io.Writer, s *metrics.Status) error {
	p := &statusPrinter{printer{w: w}, s}
	p.summary()
	p.clusters()
	p.queue()
	p.sinks()
	p.troubles()
	return p.err
}

type statusPrinter struct {
	printer
	s *metrics.Status
}

func (p *statusPrinter) summary() {
	s := p.s
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
	p.printf("\nInstance  %s, %s, up for %s\n", s.Instance, cmp.Or(s.Version, "version unknown"), page.Coarse(s.Time.Sub(s.Started)))
	switch l := s.Leader; {
	case l.State == "":
	case l.Writes():
		p.printf("Leader    this process (%s), %s for %s\n", l.Identity, l.State, page.Coarse(s.Time.Sub(l.Since)))
	default:
		p.printf("Leader    %s; this process (%s) stands by\n", cmp.Or(l.Holder, "nobody"), l.Identity)
	}
	p.printf("Ingress   %s, %s, %d replicas, last contact %s\n", s.Ingress.State, cmp.Or(s.Ingress.Version, "version unknown"), s.Ingress.Replicas, page.Ago(s.Ingress.LastContact, s.Time))
}

func (p *statusPrinter) clusters() {
	var all, native [][]string
	for i := range p.s.Clusters {
		c := &p.s.Clusters[i]
		state := []string{c.State}
		for _, condition := range c.Conditions {
			state = append(state, condition.Reason)
		}
		e := &c.Endpoints
		all = append(all, []string{
			c.Name, strings.Join(state, ", "), dash(c.Version), strconv.Itoa(c.Services), strconv.Itoa(e.Ready), strconv.Itoa(e.Reserve), strconv.Itoa(e.NotReady),
			strconv.Itoa(c.Missing), seconds(c.LagSeconds), page.Ago(c.LastContact, p.s.Time), stamp(c.CredentialExpires),
		})
		if n := c.Native; n != nil {
			native = append(native, []string{c.Name, seconds(n.BehindSeconds), strconv.Itoa(n.DifferingCount)})
		}
	}
	p.section("Clusters", 0, []string{"NAME", "STATE", "VERSION", "SERVICES", "READY", "RESERVE", "NOT READY", "MISSING", "LAG", "LAST CONTACT", "CREDENTIAL ENDS"}, all)
	p.section("The clusters' own controller managers", 0, []string{"CLUSTER", "BEHIND", "DIFFERING"}, native)
}

func (p *statusPrinter) queue() {
	var all [][]string
	for _, l := range p.s.Lanes {
		all = append(all, []string{l.Name, strconv.Itoa(l.Waiting), strconv.Itoa(l.Sent), seconds(l.OldestSeconds)})
	}
	p.section("Writes; "+strconv.Itoa(p.s.Comparing)+" replicas wait for a comparison", 0, []string{"LANE", "WAITING", "UNDER WAY", "OLDEST"}, all)
}

func (p *statusPrinter) sinks() {
	var all [][]string
	for i := range p.s.Sinks {
		k := &p.s.Sinks[i]
		all = append(all, []string{
			k.Name, k.State, strconv.Itoa(k.Services), strconv.Itoa(k.Pending), strconv.Itoa(k.Refused), seconds(k.LagSeconds),
			strconv.FormatUint(k.Requests, 10), strconv.FormatUint(k.Failures, 10), page.Ago(k.LastAcknowledged, p.s.Time), dash(k.LastError),
		})
	}
	p.section("Sinks", 0, []string{"NAME", "STATE", "SERVICES", "PENDING", "REFUSED", "LAG", "REQUESTS", "FAILURES", "LAST ACKNOWLEDGED", "LAST ERROR"}, all)
}

func (p *statusPrinter) troubles() {
	var conflicts, rejected [][]string
	for _, c := range p.s.Conflicts {
		conflicts = append(conflicts, []string{c.Namespace + "/" + c.Service, c.Reason, dash(c.Cluster), page.Ago(c.Since, p.s.Time), c.Message})
	}
	for _, r := range p.s.Rejected {
		rejected = append(rejected, []string{r.Cluster, r.Namespace + "/" + r.Service, r.Address, r.Reason, page.Ago(r.Since, p.s.Time)})
	}
	p.section("Conflicts", p.s.ConflictCount, []string{"SERVICE", "REASON", "CLUSTER", "SINCE", "MESSAGE"}, conflicts)
	p.section("Rejected addresses", p.s.RejectedCount, []string{"CLUSTER", "SERVICE", "ADDRESS", "REASON", "SINCE"}, rejected)
}
