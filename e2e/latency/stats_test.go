// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
)

func TestQuantileByNearestRank(t *testing.T) {
	ms := func(n ...int) (out []time.Duration) {
		for _, v := range n {
			out = append(out, time.Duration(v)*time.Millisecond)
		}
		return out
	}
	for _, test := range []struct {
		name    string
		samples []time.Duration
		q       float64
		want    time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"one", ms(7), 0.99, 7 * time.Millisecond},
		{"median of unsorted", ms(9, 1, 5), 0.5, 5 * time.Millisecond},
		{"highest", ms(1, 2, 3, 4), 1, 4 * time.Millisecond},
	} {
		if got := Quantile(test.samples, test.q); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestCompareQuantileBracketsTheTruth(t *testing.T) {
	random := dice.New(t)
	var slow, fast []time.Duration
	for range 400 {
		fast = append(fast, time.Duration(1000+random.IntN(100))*time.Microsecond)
		slow = append(slow, time.Duration(2000+random.IntN(200))*time.Microsecond)
	}
	ratio := CompareQuantile(slow, fast, 0.5, 500, random)
	if ratio.Low > ratio.Value || ratio.High < ratio.Value || ratio.Low < 1.9 || ratio.High > 2.1 {
		t.Errorf("ratio %+v, want about 2 within its own interval", ratio)
	}
}
