// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"math"
	"slices"
	"time"

	"tributary.dev/tributary/metrics/record"
)

// The latency strip of a cluster: one dot for each of its last live changes
// that were written, from left to right, on a logarithmic scale. Coordinates
// are those of the view box 0 0 320 104 in page.html, which draws the scale.
const (
	// stripSize is the number of changes in a strip.
	stripSize             = 120
	stripRight, stripStep = 313.0, 2.2
	stripTop, stripBottom = 8.0, 96.0
	// stripLeast and stripMost bound the scale; what lies beyond sits on its edge.
	stripLeast, stripMost = 500 * time.Microsecond, 10 * time.Second
)

// stripView is what the page shows of a cluster's latency. The numbers say the same as the
// picture, for those who cannot see it.
type stripView struct {
	Cluster       string
	Count         int
	P50, P99, Max string
	// Removals and Others are the paths that draw the dots.
	Removals, Others string
}

// stripY is where a duration lies on the scale.
func stripY(d time.Duration) float64 {
	d = min(max(d, stripLeast), stripMost)
	up := math.Log(float64(d)/float64(stripLeast)) / math.Log(float64(stripMost)/float64(stripLeast))
	return stripBottom - up*(stripBottom-stripTop)
}

// newStrip draws the newest of the records, which come oldest first, that are of a cluster.
func newStrip(cluster string, records []*record.Change) stripView {
	v := stripView{Cluster: visible(cluster)}
	var totals []time.Duration
	for _, rec := range slices.Backward(records) {
		if rec.Cluster != cluster || !rec.Cause.Live || rec.Result != record.Written || len(totals) == stripSize {
			continue
		}
		dot := fmt.Sprintf("M%.1f %.1fh0", stripRight-stripStep*float64(len(totals)), stripY(rec.Stages.Total))
		if totals = append(totals, rec.Stages.Total); rec.Lane == "removal" {
			v.Removals += dot
		} else {
			v.Others += dot
		}
	}
	if v.Count = len(totals); v.Count > 0 {
		slices.Sort(totals)
		v.P50, v.P99, v.Max = Short(quantile(totals, 0.5)), Short(quantile(totals, 0.99)), Short(totals[v.Count-1])
	}
	return v
}

// quantile returns the smallest value that at least a share q of the sorted
// values does not exceed: one that was measured, nothing in between.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
