// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Namespace prefixes the name of every family of ours.
const Namespace = "tributary"

// Type is the type of a family, spelt as in the exposition format.
type Type string

// The types of families.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Family describes one metric family. The table of families is the only place
// where they are named: collectors, docs/reference/metrics.md and the checks on queries
// of dashboards and alerts are made from it.
type Family struct {
	// Name is without the prefix; it ends with the unit, then _total for a counter.
	Name string
	Type Type
	// Labels are in the order in which values are given.
	Labels []string
	Help   string
	// Values explains closed sets of label values and what 0 means; only for the docs.
	Values string
	// Group is the headline under which the docs list the family.
	Group string
}

// families are the rows of the table, in the order of the docs.
var families []Family

// Families returns the table of all families of ours, in the order of the docs.
func Families() []Family { return slices.Clone(families) }

// family is a row of the table. labels are separated by blanks; values are sentences.
func family(t Type, group, name, labels, help string, values ...string) Family {
	f := Family{Name: name, Type: t, Labels: strings.Fields(labels), Help: help, Values: strings.Join(values, " "), Group: group}
	families = append(families, f)
	return f
}

// FullName is the name in the exposition, with the prefix.
func (f Family) FullName() string { return Namespace + "_" + f.Name }

// LatencyBuckets are the classic buckets of every histogram, in seconds: fine
// around the milliseconds that a healthy change takes, and up to the minute
// that nobody should ever see. A native histogram stands beside them.
func LatencyBuckets() []float64 {
	return []float64{
		.0005, .001, .0015, .002, .003, .005, .0075, .01, .015, .025, .05,
		.1, .25, .5, 1, 2.5, 5, 10, 30, 60,
	}
}

func (f Family) desc() *prometheus.Desc {
	return prometheus.NewDesc(f.FullName(), f.Help, f.Labels, nil)
}

func (f Family) counter(r prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.FullName(), Help: f.Help}, f.Labels)
	r.MustRegister(c)
	return c
}

func (f Family) gauge(r prometheus.Registerer) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.FullName(), Help: f.Help}, f.Labels)
	r.MustRegister(g)
	return g
}

// histogram has classic buckets for every Prometheus, and a native histogram
// (resolution 10 %) for one that scrapes protobuf.
func (f Family) histogram(r prometheus.Registerer) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: f.FullName(), Help: f.Help, Buckets: LatencyBuckets(),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, f.Labels)
	r.MustRegister(h)
	return h
}
