// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"testing"
	"time"

	"tributary.dev/tributary/reconcile/plan"
)

// BenchmarkCycle is the price of one event, from its news to its acknowledgement, while bulk
// work waits: it must not depend on how much.
func BenchmarkCycle(b *testing.B) {
	for _, waiting := range []int{0, 5_000, 50_000} {
		b.Run(fmt.Sprint("bulk=", waiting), func(b *testing.B) {
			q := NewQueue("", nil)
			d := NewDispatch(q)
			for i := range waiting {
				q.Add(time.Now(), key("bulk", fmt.Sprint(i)), plan.Bulk, of("a"))
				w := q.Next()
				d.Replace(time.Now(), w, []plan.Action{action(w.Key, "s", plan.Bulk)}, false)
				q.Done(w)
			}
			actions := []plan.Action{action(web, "s", plan.Removal)}
			b.ReportAllocs()
			for b.Loop() {
				q.Add(time.Now(), web, plan.Removal, of("a"))
				w := q.Next()
				d.Replace(time.Now(), w, actions, false)
				q.Done(w)
				for {
					g, _ := d.Next(time.Now())
					d.Done(time.Now(), g, Outcome{})
					again := q.Next()
					if g.Action.Lane() == plan.Removal {
						d.Replace(time.Now(), again, nil, false)
						q.Done(again)
						break
					}
					d.Replace(time.Now(), again, []plan.Action{g.Action}, false) // as much waits as before
					q.Done(again)
				}
			}
		})
	}
}
