// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"testing"
	"time"

	"tributary.dev/tributary/internal/dice"
)

var limits = Limits{
	Lists: true, MinEndpoints: 10, Percent: 15, ConfirmPercent: 50, ConfirmAfter: 3 * time.Second, PanicPercent: 55,
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		loss        Loss
		want, start Verdict
	}{
		"nothing lost":                     {Loss{Before: 100}, Pass, Pass},
		"nothing lost, empty list":         {Loss{Empty: true}, Pass, Pass},
		"ten of few":                       {Loss{Before: 12, Lost: 10}, Pass, Pass},
		"eleven of few":                    {Loss{Before: 20, Lost: 11}, Hold, Confirm},
		"fifteen percent":                  {Loss{Before: 1000, Lost: 150}, Pass, Pass},
		"more than fifteen percent":        {Loss{Before: 1000, Lost: 151}, Confirm, Confirm},
		"thirty percent":                   {Loss{Before: 100, Lost: 30, Emptied: 3}, Confirm, Confirm},
		"half":                             {Loss{Before: 100, Lost: 50}, Confirm, Confirm},
		"eighty percent":                   {Loss{Before: 100, Lost: 80, Emptied: 8}, Hold, Confirm},
		"one replica emptied":              {Loss{Before: 1000, Lost: 1, Emptied: 1}, Confirm, Confirm},
		"the only small replica emptied":   {Loss{Before: 2, Lost: 2, Emptied: 1}, Confirm, Confirm},
		"all of many":                      {Loss{Before: 30, Lost: 30, Emptied: 3}, Hold, Hold},
		"an empty list of few":             {Loss{Before: 2, Lost: 2, Emptied: 1, Empty: true}, Hold, Confirm},
		"an empty list beside another":     {Loss{Before: 50, Lost: 20, Emptied: 1, Empty: true}, Hold, Hold},
		"little by little":                 {Loss{Before: 900, Lost: 60, Recent: 100}, Confirm, Pass},
		"little by little, more than half": {Loss{Before: 500, Lost: 10, Recent: 500}, Hold, Pass},
		"what earlier lists took is gone":  {Loss{Before: 500, Recent: 500}, Pass, Pass},
	} {
		if got := limits.Judge(c.loss); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := limits.JudgeStart(c.loss); got != c.start {
			t.Errorf("%s at the start: %s, want %s", name, got, c.start)
		}
		if got := (Limits{}).Judge(c.loss); got != Pass {
			t.Errorf("%s: no limits, yet %s", name, got)
		}
	}
}

// TestPassingListsTakeLittle plays lists that each take what passes at once: in a
// window they never take more than the limits say.
func TestPassingListsTakeLittle(t *testing.T) {
	for seed := range dice.Seeds(t, 300) {
		rng := dice.From(seed, 1)
		var looks Looks
		now := time.Unix(1000, 0)
		all := 20 + rng.IntN(2000)
		left, passed := all, 0
		for step := 0; step < 30 && now.Before(time.Unix(1000, 0).Add(Window)); step++ {
			lost := rng.IntN(max(1, left/5))
			d := looks.Look(now, limits, Loss{Before: left, Lost: lost})
			if d.Verdict == Pass {
				left -= lost
				passed += lost
			} else {
				looks.Clear() // the list was wrong: all came back
			}
			now = now.Add(time.Duration(rng.IntN(2500)) * time.Millisecond)
		}
		if allowed := max(limits.MinEndpoints, all*limits.Percent/100); passed > allowed {
			t.Fatalf("seed %d: lists took %d of %d at once, %d are allowed", seed, passed, all, allowed)
		}
	}
}

func TestLooks(t *testing.T) {
	type look struct {
		after            time.Duration
		loss             Loss
		older            bool
		want             Verdict
		confirmed, quiet bool
		again            time.Duration
	}
	const second = time.Second
	third := Loss{Before: 100, Lost: 30}
	most := Loss{Before: 100, Lost: 80}
	for name, script := range map[string][]look{
		"a second list confirms": {
			{loss: third, want: Confirm, again: 3 * second},
			{after: 3 * second, loss: third, want: Confirm, confirmed: true, again: 3 * second},
		},
		"one that comes too early does not": {
			{loss: third, want: Confirm, again: 3 * second},
			{after: second, loss: third, want: Confirm, again: 2 * second},
			{after: 2 * second, loss: third, want: Confirm, confirmed: true, again: 3 * second},
		},
		"the real list comes back": {
			{loss: third, want: Confirm, again: 3 * second},
			{after: 3 * second, loss: Loss{Before: 100}, want: Pass},
			{after: 3 * second, loss: third, want: Confirm, again: 3 * second},
		},
		"too much is never confirmed": {
			{loss: most, want: Hold, again: 3 * second},
			{after: 3 * second, loss: most, want: Hold, again: 6 * second},
			{after: 6 * second, loss: most, want: Hold, again: 12 * second},
			{after: 12 * second, loss: most, want: Hold, again: 24 * second},
			{after: 24 * second, loss: most, want: Hold, again: 48 * second},
			{after: 48 * second, loss: most, want: Hold, again: 60 * second},
			{after: 60 * second, loss: most, want: Hold, again: 60 * second},
		},
		"most of it comes back, and the rest is confirmed": {
			{loss: most, want: Hold, again: 3 * second},
			{after: 3 * second, loss: third, want: Confirm, again: 3 * second},
			{after: 3 * second, loss: third, want: Confirm, confirmed: true, again: 3 * second},
		},
		"a third, and another third": {
			{loss: third, want: Confirm, again: 3 * second},
			{after: 3 * second, loss: third, want: Confirm, confirmed: true, again: 3 * second},
			{after: 3 * second, loss: Loss{Before: 70, Lost: 30}, want: Hold, again: 3 * second},
		},
		"what went long ago does not count": {
			{loss: third, want: Confirm, again: 3 * second},
			{after: 3 * second, loss: third, want: Confirm, confirmed: true, again: 3 * second},
			{after: Window, loss: Loss{Before: 70, Lost: 30}, want: Confirm, confirmed: true, again: 3 * second},
		},
		"back in time, nothing missing": {
			{older: true, loss: Loss{Before: 100}, want: Confirm, quiet: true, again: 3 * second},
			{after: second, loss: Loss{Before: 100}, want: Confirm, quiet: true, again: 2 * second},
			{after: 2 * second, loss: Loss{Before: 100}, want: Pass},
		},
		"back in time, a third missing": {
			{older: true, loss: third, want: Confirm, quiet: true, again: 3 * second},
			{after: 3 * second, loss: third, want: Confirm, confirmed: true, again: 3 * second},
		},
		"back in time, most missing": {
			{older: true, loss: most, want: Confirm, quiet: true, again: 3 * second},
			{after: 3 * second, loss: most, want: Hold, again: 3 * second},
		},
		"back in time twice": {
			{older: true, loss: Loss{Before: 100}, want: Confirm, quiet: true, again: 3 * second},
			{after: 3 * second, older: true, loss: Loss{Before: 100}, want: Confirm, quiet: true, again: 3 * second},
			{after: 3 * second, loss: Loss{Before: 100}, want: Pass},
		},
	} {
		var looks Looks
		now := time.Unix(1000, 0)
		for i, l := range script {
			now = now.Add(l.after)
			var d Decision
			doubtedUntil, doubted := looks.Doubt(now, limits, l.older)
			if doubted {
				d = Decision{Verdict: looks.Verdict(), Again: doubtedUntil}
			} else {
				d = looks.Look(now, limits, l.loss)
			}
			again := time.Duration(0)
			if !d.Again.IsZero() {
				again = d.Again.Sub(now)
			}
			if d.Verdict != l.want || d.Confirmed != l.confirmed || doubted != l.quiet || again != l.again {
				t.Errorf("%s, look %d: %+v again after %s, want %+v", name, i, d, again, l)
			}
			if looks.Doubted() != l.quiet {
				t.Errorf("%s, look %d: doubted is %v", name, i, looks.Doubted())
			}
		}
	}
}
