// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Quantile returns the q-quantile (0..1) of the samples by nearest rank; 0 for
// none. It does not change samples.
func Quantile(samples []time.Duration, q float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Ratio is a quotient of two quantiles with its bootstrap confidence interval.
type Ratio struct {
	Value     float64
	Low, High float64 // 95 %
}

// CompareQuantile estimates quantile(a)/quantile(b) and how far chance alone
// could have moved it, by resampling both arms rounds times.
func CompareQuantile(a, b []time.Duration, q float64, rounds int, random *rand.Rand) Ratio {
	ratio := Ratio{Value: quotient(Quantile(a, q), Quantile(b, q))}
	if len(a) == 0 || len(b) == 0 {
		return ratio
	}
	draws := make([]float64, rounds)
	for i := range draws {
		draws[i] = quotient(Quantile(resample(a, random), q), Quantile(resample(b, random), q))
	}
	slices.Sort(draws)
	ratio.Low, ratio.High = draws[rounds*25/1000], draws[min(rounds*975/1000, rounds-1)]
	return ratio
}

func quotient(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func resample(samples []time.Duration, random *rand.Rand) []time.Duration {
	out := make([]time.Duration, len(samples))
	for i := range out {
		out[i] = samples[random.IntN(len(samples))]
	}
	return out
}
