// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"testing"
)

// A busy server is asked less, and more again when it is not busy.
func TestQuestionsHalve(t *testing.T) {
	s := New(epoch, Config{})
	ask := func(n int, busy bool, want int) {
		t.Helper()
		o := &step{now: epoch}
		for i := range n {
			s.asking.begin(Pods, keyOf(fmt.Sprint("web-", i)), "", o)
		}
		s.after(o)
		most := 0
		for asked := o.Ask; len(asked) > 0; {
			most = max(most, len(asked))
			answered := s.Step(epoch, Answer{Question: asked[0], Gone: true, Busy: busy})
			asked = append(asked[1:], answered.Ask...)
		}
		if most != want || len(s.asking.open) > 0 {
			t.Errorf("%d at once, want %d; %d are open", most, want, len(s.asking.open))
		}
	}
	ask(300, false, 100)
	ask(100, true, 100)
	ask(10, false, 5) // 1, and one more with each answer
	ask(300, false, 100)
}
