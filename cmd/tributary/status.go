// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

const (
	// statusTimeout bounds the whole request.
	statusTimeout = 15 * time.Second
	// statusPause is the time between two requests of status --wait.
	statusPause = 500 * time.Millisecond
	// maxStatus bounds what is read: the lists of a status are bounded too.
	maxStatus = 64 << 20
)

// newStatusCommand shows the state of a running instance.
func newStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show the clusters, queue, conflicts and held changes of a running instance", Args: noArguments,
		Example: "  tributary status\n  tributary status --context ingress --cluster idc-a\n  tributary status --wait 2m --exit-code   # for scripts",
	}
	from, output := addInstanceFlags(cmd), addOutputFlag(cmd, "wide")
	cluster := addClusterFlag(cmd, "only what concerns this member")
	service := addServiceFlag(cmd, "only what concerns this replica")
	exitCode := cmd.Flags().Bool("exit-code", false, "exit with 1 unless all is well: ready, every member live or drained, nothing held, in conflict, orphaned or waiting (with --cluster: that member alone)")
	wait := cmd.Flags().Duration("wait", 0, "ask again until all is well, for that long at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		replica, err := parseService(*service)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("wait") {
			if err := positive("--wait", *wait); err != nil {
				return err
			}
		}
		status, err := askStatus(cmd.Context(), from, *cluster, replica, *wait)
		if err != nil {
			return err
		}
		if *cluster != "" && len(members(status)) == 0 {
			err = memberExists(cmd.Context(), from, *cluster)
		} else {
			err = serviceExists(cmd.Context(), from, replica)
		}
		if err != nil {
			return err
		}
		if output.value == "text" || output.value == "wide" {
			err = failed(printStatus(cmd.OutOrStdout(), status, output.value == "wide"))
		} else {
			err = printObject(cmd.OutOrStdout(), output.value, versioned[*metrics.Status]{config.APIVersion, "Status", status})
		}
		if err == nil && (*exitCode || *wait > 0) && !well(status, *cluster) {
			err = &exit{code: exitFailed}
		}
		return err
	}
	return cmd
}

// askStatus asks for the state, and again until all is well or the wait is over.
func askStatus(ctx context.Context, from *instanceFlags, cluster string, replica *syncer.Key, wait time.Duration) (*metrics.Status, error) {
	deadline, query, scope := time.Now().Add(wait), url.Values{}, metrics.Scope{Cluster: cluster}
	if cluster != "" {
		query.Set("cluster", cluster)
	}
	if replica != nil {
		query.Set("service", replica.String())
		scope.Namespace, scope.Service = replica.Namespace, replica.Name
	}
	for {
		status, err := ask[metrics.Status](ctx, from, "/debug/status", query)
		if err == nil {
			status.Narrow(scope) // one of another version tells all
		}
		left := time.Until(deadline)
		if left <= 0 || settled(status, cluster, err) {
			return status, err
		}
		select {
		case <-ctx.Done():
			return nil, failed(ctx.Err())
		case <-time.After(min(left, statusPause)):
		}
	}
}

// settled reports whether there is nothing to wait for: all is well, or the question is wrong.
func settled(s *metrics.Status, cluster string, err error) bool {
	if wrong, ok := errors.AsType[*exit](err); ok || err != nil {
		return ok && wrong.code == exitUsage
	}
	return well(s, cluster) || s.Ready && cluster != "" && len(members(s)) == 0
}

// well reports whether nothing in a status asks for anybody. In one narrowed to a member, readiness and the configuration,
// which are about all, do not count; a member that is not there is not well.
func well(s *metrics.Status, cluster string) bool {
	waiting := func(l metrics.LaneStatus) bool { return l.Depth+l.Working > 0 }
	ill := func(c metrics.ClusterStatus) bool { // what is drained may be away; its last ready endpoints are held until then
		return c.LagSeconds > 0 || c.DrainSince.IsZero() && (c.State != "live" || c.Reason != "" || c.Stale)
	}
	behind := func(k metrics.SinkStatus) bool { return k.State == "failing" || k.Pending > 0 }
	whole := s.Ready && s.Config.Error == ""
	if cluster != "" {
		whole = len(s.Clusters) > 0
	}
	return whole && s.Ingress.Up && s.ConflictCount+s.HeldCount+len(s.Orphans) == 0 &&
		!slices.ContainsFunc(s.Lanes, waiting) && !slices.ContainsFunc(s.Clusters, ill) && !slices.ContainsFunc(s.Sinks, behind)
}

// printStatus prints a status for people. Ages count on the instance's clock.
func printStatus(w io.Writer, s *metrics.Status, wide bool) error {
	p := &statusPrinter{w: w, s: s, wide: wide}
	p.summary()
	p.clusters()
	p.orphans()
	p.rules()
	p.lanes()
	p.sinks()
	p.conflicts()
	p.held()
	p.native()
	p.rejected()
	p.slowest()
	return p.err
}

// statusPrinter prints section by section and remembers the first error.
type statusPrinter struct {
	w    io.Writer
	s    *metrics.Status
	wide bool
	err  error
}

func (p *statusPrinter) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// section prints a table under a headline; nothing if it has no rows. total is
// how many rows there are, shown or not.
func (p *statusPrinter) section(headline string, total int, headings []string, all [][]string) {
	if len(all) == 0 || p.err != nil {
		return
	}
	p.printf("\n%s\n", headline)
	if p.err == nil {
		p.err = rows(p.w, headings, all)
	}
	if total > len(all) {
		p.printf("… and %d more\n", total-len(all))
	}
}

func (p *statusPrinter) summary() {
	s := p.s
	p.printf("Version:  %s, up for %s\n", dash(clean(s.Version)), span(s.Time.Sub(s.Started)))
	if s.Ready {
		p.printf("Ready:    yes\n")
	} else {
		p.printf("Ready:    no: %s\n", clean(strings.Join(s.NotReady, "; ")))
	}
	p.leader()
	in := s.Ingress
	p.printf("Ingress:  %s, %s, %d replicas, last contact %s\n", clean(in.State), cmp.Or(clean(in.Version), "version unknown"), in.Replicas, ago(in.LastContact, s.Time))
	if in.LastError != "" {
		p.printf("          last error: %s\n", clean(in.LastError))
	}
	if s.Config.Error != "" {
		p.printf("Config:   refused, or part of what it wants; what was accepted stays: %s\n", clean(s.Config.Error))
	}
}

func (p *statusPrinter) leader() {
	l := p.s.Leader
	switch {
	case l.State == "":
	case l.State == "alone":
		p.printf("Leader:   this process writes alone, and asks no Lease: %s\n", clean(l.Reason))
	case l.Writes():
		p.printf("Leader:   this process (%s), for %s\n", clean(l.Identity), span(p.s.Time.Sub(l.Since)))
	default:
		p.printf("Leader:   %s; this process (%s) stands by\n", cmp.Or(clean(l.Holder), "nobody"), clean(l.Identity))
	}
	if l.Error != "" {
		p.printf("          the Lease %s is not reached: %s\n", clean(l.Lease), clean(l.Error))
	}
}

func (p *statusPrinter) clusters() {
	var all [][]string
	for i := range p.s.Clusters {
		c := &p.s.Clusters[i]
		lastError := c.LastError
		if lastError != "" && !c.LastErrorAt.IsZero() {
			lastError += " (" + ago(c.LastErrorAt, p.s.Time) + ")"
		}
		state := c.State
		if c.Reason != "" {
			state += " (" + c.Reason + ")"
		}
		if c.Panic {
			state += ", panic"
		}
		if c.Stale {
			state += ", stale"
		}
		if !c.DrainSince.IsZero() {
			state += ", drained"
		}
		notReady := strconv.Itoa(c.Endpoints.NotReady)
		if c.Endpoints.Damped > 0 {
			notReady += fmt.Sprintf(" (%d damped)", c.Endpoints.Damped)
		}
		row := []string{
			c.Name, state, dash(c.Version), strconv.Itoa(c.Services), strconv.Itoa(c.Pods),
			strconv.Itoa(c.Endpoints.Ready), notReady,
			span(time.Duration(c.LagSeconds * float64(time.Second))), ago(c.LastContact, p.s.Time),
		}
		if p.wide {
			row = append(row, ago(c.Since, p.s.Time), stamp(c.CredentialExpires), strconv.FormatUint(c.Unreadable, 10))
		}
		all = append(all, append(row, dash(lastError)))
	}
	headings := []string{"NAME", "STATE", "VERSION", "SERVICES", "PODS", "READY", "NOT READY", "LAG", "LAST CONTACT"}
	if p.wide {
		headings = append(headings, "SINCE", "CREDENTIAL ENDS", "UNREADABLE")
	}
	p.section("Clusters", 0, append(headings, "LAST ERROR"), all)
	for i := range p.s.Clusters {
		for _, remark := range p.s.Clusters[i].Remarks {
			p.printf("%s: %s\n", clean(p.s.Clusters[i].Name), clean(remark))
		}
	}
}

// orphans prints what stands of clusters that are not configured.
func (p *statusPrinter) orphans() {
	var all [][]string
	for _, o := range p.s.Orphans {
		all = append(all, []string{o.Cluster, strconv.Itoa(o.Replicas), strconv.Itoa(o.Endpoints), ago(o.Since, p.s.Time)})
	}
	p.section("Orphans: not configured, and their endpoints stay as they were; put the cluster back, or drain it first", 0,
		[]string{"CLUSTER", "REPLICAS", "ENDPOINTS", "SINCE"}, all)
}

// rules prints how the rules of the configuration fare.
func (p *statusPrinter) rules() {
	var all [][]string
	for i := range p.s.Clusters {
		for _, r := range p.s.Clusters[i].Rules {
			all = append(all, []string{p.s.Clusters[i].Name, r.Name, r.Then, strconv.Itoa(r.Matches), strconv.Itoa(r.Held), strconv.FormatUint(r.Errors, 10), dash(r.LastError)})
		}
	}
	p.section("Rules", 0, []string{"CLUSTER", "RULE", "THEN", "MATCHES", "HELD", "ERRORS", "LAST ERROR"}, all)
}

// native prints where the members' own controllers run behind or differ.
func (p *statusPrinter) native() {
	var observed, all [][]string
	total := 0
	addresses := func(list []string) string { return cmp.Or(strings.Join(list, " "), "none") }
	for i := range p.s.Clusters {
		c := &p.s.Clusters[i]
		if c.Native == nil {
			continue
		}
		total += c.Native.DifferingCount
		behind := span(time.Duration(c.Native.BehindSeconds * float64(time.Second)))
		observed = append(observed, []string{c.Name, behind, strconv.Itoa(c.Native.DifferingCount)})
		for _, d := range c.Native.Differing {
			all = append(all, []string{c.Name, d.Namespace + "/" + d.Service, ago(d.Since, p.s.Time), addresses(d.Ours), addresses(d.Theirs)})
		}
	}
	p.section("The clusters' own controller managers", 0, []string{"CLUSTER", "BEHIND", "DIFFERING"}, observed)
	p.section("Differences from the members' own Endpoints", total, []string{"CLUSTER", "SERVICE", "SINCE", "OURS", "THEIRS"}, all)
}

func (p *statusPrinter) lanes() {
	var all [][]string
	for _, l := range p.s.Lanes {
		all = append(all, []string{l.Name, strconv.Itoa(l.Depth), strconv.Itoa(l.Working), span(time.Duration(l.OldestSeconds * float64(time.Second)))})
	}
	p.section("Queue", 0, []string{"LANE", "WAITING", "WORKING", "OLDEST"}, all)
}

func (p *statusPrinter) sinks() {
	var all [][]string
	for i := range p.s.Sinks {
		k := &p.s.Sinks[i]
		lastError := k.LastError
		if k.Unkept != "" {
			lastError = strings.TrimPrefix(lastError+"; what is acknowledged is not kept: "+k.Unkept, "; ")
		}
		row := []string{
			k.Name, k.State, strconv.Itoa(k.Services), strconv.Itoa(k.Pending), strconv.Itoa(k.Refused), span(time.Duration(k.LagSeconds * float64(time.Second))),
			strconv.FormatUint(k.Requests, 10), strconv.FormatUint(k.Failures, 10), ago(k.LastAcknowledged, p.s.Time),
		}
		if p.wide {
			row = append(row, k.URL)
		}
		all = append(all, append(row, dash(lastError)))
	}
	headings := []string{"NAME", "STATE", "SERVICES", "PENDING", "REFUSED", "LAG", "REQUESTS", "FAILURES", "LAST ACKNOWLEDGED"}
	if p.wide {
		headings = append(headings, "URL")
	}
	p.section("Sinks", 0, append(headings, "LAST ERROR"), all)
}

func (p *statusPrinter) conflicts() {
	var all [][]string
	for _, c := range p.s.Conflicts {
		all = append(all, []string{c.Namespace + "/" + c.Service, c.Reason, dash(c.Cluster), ago(c.Since, p.s.Time), c.Message})
	}
	p.section("Conflicts", p.s.ConflictCount, []string{"SERVICE", "REASON", "CLUSTER", "SINCE", "MESSAGE"}, all)
}

func (p *statusPrinter) held() {
	var all [][]string
	for _, h := range p.s.Held {
		service := "-"
		if h.Service != "" {
			service = h.Namespace + "/" + h.Service
		}
		all = append(all, []string{dash(h.Cluster), service, h.Reason, ago(h.Since, p.s.Time), h.Message, typed(dash(h.Release))})
	}
	p.section("Held changes", p.s.HeldCount, []string{"CLUSTER", "SERVICE", "REASON", "SINCE", "MESSAGE", "RELEASE"}, all)
}

func (p *statusPrinter) rejected() {
	var all [][]string
	for _, r := range p.s.Rejected {
		all = append(all, []string{r.Cluster, r.Namespace + "/" + r.Service, r.Address, r.Reason, ago(r.Since, p.s.Time)})
	}
	p.section("Rejected addresses", p.s.RejectedCount, []string{"CLUSTER", "SERVICE", "ADDRESS", "REASON", "SINCE"}, all)
}

func (p *statusPrinter) slowest() {
	var all [][]string
	for _, rec := range p.s.Slowest {
		all = append(all, []string{
			stamp(rec.Time), dash(rec.Cluster), rec.Namespace + "/" + rec.Service, millis(rec.Stages.Total),
			millis(rec.Stages.Queue), millis(rec.Stages.Compute), millis(rec.Stages.Write()), causeText(rec),
		})
	}
	p.section("Slowest recent changes", 0, []string{"TIME", "CLUSTER", "SERVICE", "TOTAL", "QUEUE", "COMPUTE", "WRITE", "CAUSE"}, all)
}
