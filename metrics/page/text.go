// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// maxText bounds text on the page: an error may repeat what a server answered.
const maxText = 400

// visible makes text that a cluster chose fit for the page, and bounds its length.
func visible(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return Legible(s)
}

// Legible makes text that a cluster chose fit to be read, on a page or a terminal: what is not meant to be seen
// (control characters, marks that reverse the direction of what follows) becomes a replacement character.
func Legible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Short renders a duration with two or three digits.
func Short(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms <= 0:
		return "0"
	case ms < 1:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1_000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", ms/1_000)
	default:
		return Coarse(d)
	}
}

// Coarse renders an age.
func Coarse(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(max(0, d).Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours())/24)
	}
}

// Ago renders a point in time relative to now; "never" for the zero time.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return Coarse(now.Sub(at)) + " ago"
}

// dash is shown for what is empty.
func dash(s string) string {
	if s == "" {
		return "–"
	}
	return visible(s)
}
