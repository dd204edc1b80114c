// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
)

func TestExplain(t *testing.T) {
	w := newWorld(t)
	w.serve(aService("web", "web"))
	w.upsert(aPod("web-2", "web", 2))
	down := aPod("web-1", "web", 1)
	down.Ready = false
	w.upsert(down)
	w.upsert(aPod("other", "api", 3))
	w.HoldPod(in("web-2"))
	e, found := w.Explain(in("web"))
	if !found || !e.Placed || e.Replica != in("web") || e.Manual || e.Ready != 1 || e.NotReady != 1 {
		t.Errorf("%+v", e)
	}
	var got []string
	for _, p := range e.Pods {
		got = append(got, fmt.Sprint(p.Name, " ", p.Endpoint, " ", p.Verdict.Ready, " ", p.Held))
	}
	if want := "[web-1 true false false web-2 true true true]"; fmt.Sprint(got) != want {
		t.Errorf("%v; want %s", got, want)
	}
	if _, found := w.Explain(in("nothing")); found {
		t.Error("a Service that is not there is found")
	}
}
