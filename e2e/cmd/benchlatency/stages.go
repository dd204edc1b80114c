// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"tributary.dev/tributary/e2e/fleet"
)

// stages are the steps of a change record, in the order of the flow.
var stages = []string{"queue", "compute", "write_endpoints", "write_slices", "total"}

// ownStages collects what tributary itself recorded of the measured changes. It
// explains figures; no figure is computed from it.
func ownStages(ctx context.Context, p *fleet.Tributary) (series, error) {
	body, err := p.Get(ctx, "/debug/changes?service="+namespace+"/web")
	if err != nil {
		return nil, fmt.Errorf("read tributary's change records: %w", err)
	}
	out := series{}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var record struct {
			Cause  struct{ Live bool }
			Result string
			Stages map[string]float64 `json:"stages_ms"`
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return nil, fmt.Errorf("read tributary's change records: %w", err)
		}
		if !record.Cause.Live || record.Result != "written" {
			continue
		}
		for _, stage := range stages {
			out[stage] = append(out[stage], time.Duration(record.Stages[stage]*float64(time.Millisecond)))
		}
	}
	return out, lines.Err()
}

// printStages shows where the time went inside tributary.
func printStages(w io.Writer, own series) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nWHAT TRIBUTARY RECORDED\t\tN\tP50 ms\tP90 ms\tP99 ms")
	for _, stage := range stages {
		row(table, stage, "", own[stage])
	}
	table.Flush()
}
