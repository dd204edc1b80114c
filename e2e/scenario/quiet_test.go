// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/e2e/fleet"
)

// quietFor is how long a quiet fleet is listened to: longer than the pace of
// probes, of Leases and of the looks at the configuration.
const quietFor = 12 * time.Second

// stepQuiet lets a pod be edited in a way that touches no endpoint: nothing is
// written, and nothing is logged.
func (w *world) stepQuiet(site *fleet.Site) {
	w.Helper()
	ctx := w.Context()
	before, log := w.writes(), w.log()
	end := time.NewTimer(quietFor)
	defer end.Stop()
	pace := time.NewTicker(quietFor / 20)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-end.C:
			if after := w.writes(); after != before {
				w.Errorf("a quiet fleet: %d writes", after-before)
			}
			if said := w.log()[len(log):]; said != "" {
				w.Errorf("a quiet fleet is told of:\n%s", said)
			}
			return
		case <-pace.C:
			body := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/heartbeat":"%d"}}}`, n)
			_, err := site.Client.CoreV1().Pods("shop").Patch(ctx, "web-0", types.MergePatchType, body, metav1.PatchOptions{})
			w.must(err)
		}
	}
}

// log is all that tributary has logged.
func (w *world) log() string {
	w.Helper()
	text, err := os.ReadFile(w.proc.Log())
	w.must(err)
	return string(text)
}
