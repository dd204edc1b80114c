// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A member in trouble answers one question of a sample and fails the others: that one answer
// settles nothing but its own object, also where one more was refused.
func TestFewAnswersOfASampleSpeakForNobody(t *testing.T) {
	for name, second := range map[string]Outcome{"the others fail": Failed, "and one is refused": Refused} {
		t.Run(name, func(t *testing.T) {
			r := newReplay()
			do := func(line string) {
				if err := r.line(line); err != nil {
					t.Fatal(line, err)
				}
			}
			var services, all, shown []string
			for i := range 60 {
				services = append(services, fmt.Sprintf("s%d selects s%d", i, i))
				for j := range 10 {
					pod := fmt.Sprintf("s%d-%d 10.0.%d.%d s%d", i, j, i, j+1, i)
					if all = append(all, pod); j < 4 {
						shown = append(shown, pod)
					}
				}
			}
			do("0s start")
			r.state.sampled = 20
			do("0s list services @10: " + strings.Join(services, ", "))
			do("0s list pods @10: " + strings.Join(all, ", "))
			do("0s list nodes @10:")
			do("0s watch services follows")
			do("0s watch pods follows")
			do("0s list pods @200: " + strings.Join(shown, ", "))
			if len(r.reads) != 20 {
				t.Fatalf("asked for %d", len(r.reads))
			}
			outcomes := []Outcome{NotFound, second}
			for range 12 {
				reads := r.reads
				r.reads = nil
				for _, read := range reads {
					answer := Answer{Read: read, Outcome: Failed}
					if len(outcomes) > 0 {
						answer.Outcome, outcomes = outcomes[0], outcomes[1:]
					}
					r.step(answer)
				}
				r.now = r.now.Add(time.Second)
				r.step(Tick{})
			}
			if n := len(r.state.store.Pods()); n != 599 {
				t.Errorf("%d pods of 600 are left", n)
			}
		})
	}
}
