// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"tributary.dev/tributary/metrics"
)

const (
	// statusTimeout bounds the whole request.
	statusTimeout = 15 * time.Second
	// maxStatus bounds what is read: the lists of a status are bounded too.
	maxStatus = 64 << 20
)

// statusCommand shows the state of a running instance.
func statusCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := newFlagSet("status", "[flags]", "Show the clusters, queue, conflicts and held changes of a running instance.", stderr)
	server := addServerFlag(fs)
	output := choiceFlag(fs, "o", "output format", "text", "json")
	if code, done := parseFlags(fs, args, stdout, stderr); done {
		return code
	}
	failed := func(err error, code int) int {
		fmt.Fprintf(stderr, "tributary status: %v\n", err)
		return code
	}
	source, err := newInstance(*server)
	if err != nil {
		return failed(err, exitUsage)
	}
	defer source.close()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err := source.get(ctx, "/debug/status", nil)
	if err != nil {
		return failed(err, exitFailed)
	}
	defer body.Close()
	page, err := io.ReadAll(io.LimitReader(body, maxStatus))
	if err != nil {
		return failed(fmt.Errorf("read status: %w", err), exitFailed)
	}
	var status metrics.Status
	if err := json.Unmarshal(page, &status); err != nil {
		return failed(fmt.Errorf("read status: %w; is the server a tributary of this version?", err), exitFailed)
	}
	if *output == "json" {
		_, err = stdout.Write(page)
	} else {
		err = printStatus(stdout, &status)
	}
	if err != nil {
		return failed(fmt.Errorf("print status: %w", err), exitFailed)
	}
	return exitOK
}

// printStatus prints a status for people. Ages count on the instance's clock.
func printStatus(w io.Writer, s *metrics.Status) error {
	p := &statusPrinter{w: w, s: s}
	p.summary()
	p.clusters()
	p.lanes()
	p.conflicts()
	p.held()
	p.native()
	p.rejected()
	p.slowest()
	return p.err
}

// statusPrinter prints section by section and remembers the first error.
type statusPrinter struct {
	w   io.Writer
	s   *metrics.Status
	err error
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
	in := s.Ingress
	p.printf("Ingress:  %s, %s, %d replicas, last contact %s\n", clean(in.State), cmp.Or(clean(in.Version), "version unknown"), in.Replicas, ago(in.LastContact, s.Time))
	if in.LastError != "" {
		p.printf("          last error: %s\n", clean(in.LastError))
	}
	if s.Config.Error != "" {
		p.printf("Config:   %s is refused, the former one stays: %s\n", clean(s.Config.File), clean(s.Config.Error))
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
		all = append(all, []string{
			c.Name, state, dash(c.Version), strconv.Itoa(c.Services), strconv.Itoa(c.Pods),
			strconv.Itoa(c.Endpoints.Ready), strconv.Itoa(c.Endpoints.NotReady),
			span(time.Duration(c.LagSeconds * float64(time.Second))), ago(c.LastContact, p.s.Time), dash(lastError),
		})
	}
	p.section("Clusters", 0, []string{"NAME", "STATE", "VERSION", "SERVICES", "PODS", "READY", "NOT READY", "LAG", "LAST CONTACT", "LAST ERROR"}, all)
	for i := range p.s.Clusters {
		for _, remark := range p.s.Clusters[i].Remarks {
			p.printf("%s: %s\n", clean(p.s.Clusters[i].Name), clean(remark))
		}
	}
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
		all = append(all, []string{dash(h.Cluster), service, h.Reason, ago(h.Since, p.s.Time), h.Message, dash(h.Release)})
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
