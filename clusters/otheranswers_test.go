// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/evidence"
)

// What answers a question for a pod is another pod, or has no name: nothing is learnt.
func TestTakesNoAnswerForAnother(t *testing.T) {
	for name, body := range map[string]string{
		"another pod":  `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web-1","uid":"web-1-uid","resourceVersion":"105"}}`,
		"without name": `{"kind":"Pod","apiVersion":"v1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			guarded(t, nil, func(w *world, a *fakeAPI) {
				a.hide("pods", func(name string) bool { return strings.HasPrefix(name, "api") })
				a.with(func() {
					a.closing, a.oldest = a.opened, a.rv+1
					a.rv += 2
					a.hook = func(rw http.ResponseWriter, r *http.Request) bool {
						if !strings.Contains(r.URL.Path, "/pods/") {
							return false
						}
						rw.Header().Set("Content-Type", "application/json")
						_, _ = rw.Write([]byte(body))
						return true
					}
				})
				w.pass(10 * time.Second)
				if n := len(w.addresses("shop", "api")); n != 12 {
					t.Errorf("api has %d of 12", n)
				}
				w.wantState("a", Live, evidence.ReasonChangesHeld)
			})
		})
	}
}
