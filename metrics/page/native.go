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

// nativeView is a row about a cluster's own controllers: how they run, or one
// Service about which they differ.
type nativeView struct {
	What, Cluster, Note, Ours, Theirs, Behind, Class string
}

// newNativeViews has a row for each observed cluster, and below it those of the
// Services that differ.
func newNativeViews(s *metrics.Status) []nativeView {
	var out []nativeView
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if c.Native == nil {
			continue
		}
		all := nativeView{What: "all Services", Cluster: visible(c.Name), Note: "No Service differs for long.", Behind: "0"}
		if c.Native.BehindSeconds > 0 {
			all.Behind = short(seconds(c.Native.BehindSeconds))
		}
		if seconds(c.Native.BehindSeconds) >= nativeWarn {
			all.Class = "warn"
		}
		if n := c.Native.DifferingCount; n > 0 {
			all.Note, all.Class = plural(n, "Service differs.", "Services differ."), "warn"
			if n > maxPageDifferences {
				all.Note += fmt.Sprintf(" The oldest %d are shown; debug/native has all.", maxPageDifferences)
			}
		}
		out = append(out, all)
		for _, d := range c.Native.Differing[:min(len(c.Native.Differing), maxPageDifferences)] {
			out = append(out, nativeView{
				What: visible(d.Namespace + "/" + d.Service), Cluster: visible(c.Name), Class: "warn",
				Ours: someAddresses(d.Ours), Theirs: someAddresses(d.Theirs), Behind: coarse(s.Time.Sub(d.Since)),
			})
		}
	}
	return out
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
