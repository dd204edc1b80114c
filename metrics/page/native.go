// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"
	"time"

	"tributary.dev/tributary/metrics"
)

const (
	// maxPageDifferences bounds the Services of one cluster that are shown to differ.
	maxPageDifferences = 20
	// maxPageNatives bounds the addresses of either side of a difference.
	maxPageNatives = 6
)

// nativeWarn is how far a cluster's own controllers may run behind unmarked.
const nativeWarn = 10 * time.Second

// nativeNote says how a cluster's own controllers compare.
func nativeNote(n *metrics.NativeStatus) verdict {
	v := verdict{Text: "No Service differs for long.", Detail: lagText(n.BehindSeconds)}
	if seconds(n.BehindSeconds) >= nativeWarn {
		v.Class = "warn"
	}
	if n := n.DifferingCount; n > 0 {
		v.Text, v.Class = plural(n, "Service differs.", "Services differ."), "warn"
		if n > maxPageDifferences {
			v.Text += fmt.Sprintf(" The oldest %d are shown; debug/native has all.", maxPageDifferences)
		}
	}
	return v
}

// someAddresses names the first few.
func someAddresses(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	text := visible(strings.Join(list[:min(len(list), maxPageNatives)], ", "))
	if more := len(list) - maxPageNatives; more > 0 {
		text += " and " + count(more) + " more"
	}
	return text
}
