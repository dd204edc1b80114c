// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/e2e/latency"
)

// change has the fields of a change record that the demo uses.
type change struct {
	Time      time.Time          `json:"time"`
	Cluster   string             `json:"cluster"`
	Namespace string             `json:"namespace"`
	Service   string             `json:"service"`
	Added     []string           `json:"added"`
	Removed   []string           `json:"removed"`
	Readied   []string           `json:"readied"`
	Unreadied []string           `json:"unreadied"`
	Stages    map[string]float64 `json:"stages_ms"`
	Result    string             `json:"result"`
}

// board collects what the table shows. All methods may be called from any
// goroutine.
type board struct {
	url      string
	rollouts []*rollout
	started  time.Time

	mu       sync.Mutex
	latest   []change                   // newest last, a bounded few
	totals   map[string][]time.Duration // by cluster, a bounded window
	counts   map[string]int
	contests []contestLine
	act      string
	saved    time.Time // when the rule was added; zero: not yet
	ruled    *change   // the change that it caused
}

const (
	latestMost = 8
	windowMost = 2000
)

func newBoard(url string, rollouts []*rollout) *board {
	return &board{url: url, rollouts: rollouts, started: time.Now(), totals: map[string][]time.Duration{}, counts: map[string]int{}}
}

// follow reads the change stream of tributary until the context ends.
func (b *board) follow(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/debug/changes?follow=true", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("follow the changes: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("follow the changes: %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // a sign of life
		}
		var c change
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("follow the changes: record %q: %w", lines.Text(), err)
		}
		b.add(c)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the stream of changes ended: %w", lines.Err())
}

// add stores one record; those of the contest's backlog have no address and are
// not shown.
func (b *board) add(c change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Namespace == ruledNamespace && !b.saved.IsZero() && len(c.Removed) > 0 {
		b.ruled = &c
	}
	if c.Namespace != namespace || c.Result != "written" {
		return
	}
	b.latest = append(b.latest, c)
	if len(b.latest) > latestMost {
		b.latest = slices.Delete(b.latest, 0, 1)
	}
	total, timed := c.Stages["total"]
	b.counts[c.Cluster]++
	if !timed {
		return
	}
	window := append(b.totals[c.Cluster], time.Duration(total*float64(time.Millisecond)))
	b.totals[c.Cluster] = window[max(0, len(window)-windowMost):]
}

// row is one cluster's line of the table.
type row struct {
	cluster  string
	pods     int64
	changes  int
	perSec   float64
	p50, p99 time.Duration
}

func (b *board) rows() []row {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rows []row
	for _, r := range b.rollouts {
		name := r.site.Name()
		rows = append(rows, row{
			cluster: name, pods: r.pods.Load(), changes: b.counts[name],
			perSec: float64(b.counts[name]) / max(time.Since(b.started).Seconds(), 1),
			p50:    latency.Quantile(b.totals[name], 0.5), p99: latency.Quantile(b.totals[name], 0.99),
		})
	}
	return rows
}

// recent returns the last changes, newest last.
func (b *board) recent() []change {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.latest)
}

// contest returns the current act of the contest and its results so far.
func (b *board) contest() (act string, lines []contestLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.act, slices.Clone(b.contests)
}

func (b *board) ruleSaved(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = at
}

// rule describes in one line the effect of a rule that was added while tributary runs; "" before.
func (b *board) rule() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.saved.IsZero():
		return ""
	case b.ruled == nil:
		return "rule " + ruleName + " is added to the configuration file"
	}
	return fmt.Sprintf("rule %s was added to the configuration file at run time: %s/%s of %s changed by %s, %.1f s after the file was saved",
		ruleName, b.ruled.Namespace, b.ruled.Service, b.ruled.Cluster, what(*b.ruled), b.ruled.Time.Sub(b.saved).Seconds())
}

func (b *board) setAct(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.act = fmt.Sprintf(format, args...)
}

func (b *board) addContest(line contestLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contests = append(b.contests, line)
}

// amendContest edits the line of a round.
func (b *board) amendContest(round int, edit func(*contestLine)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.contests {
		if b.contests[i].round == round {
			edit(&b.contests[i])
		}
	}
}

// summary is the last line of the demo.
func (b *board) summary() string {
	text := "done:"
	for _, r := range b.rows() {
		text += fmt.Sprintf(" %s %d changes, p50 %s p99 %s;", r.cluster, r.changes, millis(r.p50), millis(r.p99))
	}
	return text + " nothing is left running"
}
