// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// The latency strip of a cluster: one dot for each of its last live changes
// that were written, from left to right, on a logarithmic scale. Coordinates
// are those of the view box 0 0 320 104 in page.html, which draws the scale.
const (
	// stripSize is the number of changes in a strip.
	stripSize             = 120
	stripLeft, stripRight = 50.0, 313.0
	stripTop, stripBottom = 8.0, 96.0
	// stripLeast and stripMost bound the scale; what lies beyond sits on its edge.
	stripLeast, stripMost = 500 * time.Microsecond, 10 * time.Second
)

// stripView is what the page shows of a cluster's latency.
type stripView struct {
	Cluster string
	// Label says the same in words, for those who cannot see the picture.
	Label         string
	Count         int
	P50, P99, Max string
	P50Y, P99Y    string
	// Removals and Others are the paths that draw the dots.
	Removals, Others string
}

// stripY is where a duration lies on the scale.
func stripY(d time.Duration) float64 {
	d = min(max(d, stripLeast), stripMost)
	up := math.Log(float64(d)/float64(stripLeast)) / math.Log(float64(stripMost)/float64(stripLeast))
	return stripBottom - up*(stripBottom-stripTop)
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// newStrips returns a strip for each cluster, from records in their order.
func newStrips(clusters []metrics.ClusterStatus, records []*record.Change) []stripView {
	recent := make(map[string][]*record.Change, len(clusters))
	for i := range clusters {
		recent[clusters[i].Name] = nil
	}
	for _, rec := range slices.Backward(records) {
		if of, known := recent[rec.Cluster]; known && rec.Cause.Live && rec.Result == record.Written && len(of) < stripSize {
			recent[rec.Cluster] = append(of, rec)
		}
	}
	strips := make([]stripView, len(clusters))
	for i := range clusters {
		strips[i] = newStrip(clusters[i].Name, recent[clusters[i].Name])
	}
	return strips
}

// newStrip draws the records, the newest first in the list.
func newStrip(cluster string, newest []*record.Change) stripView {
	v := stripView{Cluster: visible(cluster), Count: len(newest)}
	if len(newest) == 0 {
		v.Label = v.Cluster + ": no live change yet"
		return v
	}
	totals := make([]time.Duration, len(newest))
	var removals, others []byte
	const step = (stripRight - stripLeft) / (stripSize - 1)
	for i, rec := range newest {
		totals[i] = rec.Stages.Total
		dots := &others
		if rec.Lane == "removal" {
			dots = &removals
		}
		x := stripRight - float64(i)*step
		*dots = fmt.Appendf(*dots, "M%.1f %.1fh0", x, stripY(rec.Stages.Total))
	}
	slices.Sort(totals)
	p50, p99, most := quantile(totals, 0.5), quantile(totals, 0.99), totals[len(totals)-1]
	v.P50, v.P99, v.Max = Short(p50), Short(p99), Short(most)
	v.P50Y, v.P99Y = coordinate(stripY(p50)), coordinate(stripY(p99))
	v.Removals, v.Others = string(removals), string(others)
	v.Label = fmt.Sprintf("%s: the last %d changes took %s (p50), %s (p99), at most %s", v.Cluster, v.Count, v.P50, v.P99, v.Max)
	return v
}

// quantile returns the smallest value that at least a share q of the sorted
// values does not exceed: one that was measured, nothing in between.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
