// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
)

// WriteTo writes the history for people: the spans, and each event with the facts that it
// began (+) and ended (-).
func (h *History) WriteTo(w io.Writer) (int64, error) {
	out := bufio.NewWriter(w)
	n := int64(0)
	say := func(format string, args ...any) {
		k, _ := fmt.Fprintf(out, format, args...) // Flush returns the error
		n += int64(k)
	}
	for _, s := range h.Spans {
		say("span %s\n", s)
	}
	changes := map[int][]string{}
	for _, l := range replayed(h).sorted() {
		for _, side := range [][]change{l.wanted, l.shown} {
			for _, c := range side {
				sign := map[bool]string{true: "+", false: "-"}[c.on]
				changes[c.event] = append(changes[c.event], sign+" "+l.Fact.String())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Writes)) {
		say("%d writes in %s\n", len(h.Writes[name]), name)
	}
	for i := range h.Events {
		e := &h.Events[i]
		if !h.covers(e.Key.Namespace) {
			continue
		}
		state := "is"
		if e.Object == nil {
			state = "is deleted"
		}
		say("%10.4f s %s %s %s %s, revision %s", e.At.Seconds(), e.Cluster, e.Kind, e.Key, state, e.Revision)
		if e.Listed {
			say(", from a list")
		}
		if e.ByHand {
			say(", by hand")
		}
		say("\n")
		for _, line := range changes[i] {
			say("             %s\n", line)
		}
	}
	return n, out.Flush()
}
