// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// guests are members that come and go: names under which the bulk member is listed
// again, each with connections, watches and a Service of its own. An edit adds or
// removes all of them, because an edit takes a second or two to be read.
const (
	guests      = 20
	enoughEdits = 10 // so that 200 members are added and 200 removed
)

// footprint is what tributary uses of the system.
type footprint struct{ goroutines, files, heap float64 }

func (w *world) footprint() footprint {
	w.Helper()
	return footprint{w.metric("go_goroutines", ""), w.metric("process_open_fds", ""), w.heap()}
}

// beyond returns an error if more is used than before, chance aside.
func (f footprint) beyond(before footprint) error {
	if f.goroutines > before.goroutines+10 || f.files > before.files+4 || f.heap > 1.2*before.heap+8e6 {
		return fmt.Errorf("%.0f goroutines, %.0f files, heap %.1f MB; before: %.0f, %.0f, %.1f MB",
			f.goroutines, f.files, f.heap/1e6, before.goroutines, before.files, before.heap/1e6)
	}
	return nil
}

// rounds adds and removes members in the configuration. Nothing of them remains in memory, and
// nothing is written but that their endpoints, which stay, are reserves while they are gone.
func (w *world) rounds() {
	w.Helper()
	ctx := w.Context()
	bulkAt := slices.IndexFunc(w.setup.clusters, func(e entry) bool { return e.Name == bulk })
	w.setup.clusters[bulkAt].Namespaces = &selection{[]string{"bulk-*", probe}}
	w.must(w.reload(w.setup))
	alone, crowded := w.setup, w.setup
	crowded.clusters = slices.Clone(alone.clusters)
	for i := range guests {
		name := fmt.Sprintf("guest-%02d", i)
		w.must(w.bulk.CreateNamespaces(ctx, name))
		w.must(w.bulk.Create(ctx, fleet.NewService(name, name)))
		w.must(w.bulk.RunPods(ctx, fleet.NewPod(name, name, name)))
		crowded.clusters = append(crowded.clusters, entry{Name: name, Kubeconfig: w.bulk.Kubeconfig, Namespaces: &selection{[]string{name}}})
	}
	w.come(crowded)
	w.leave(alone)
	before, written, start := w.footprint(), len(w.writes()), time.Now()
	for range enoughEdits {
		w.come(crowded)
		w.leave(alone)
	}
	took := time.Since(start)
	var after footprint
	w.eventually(time.Minute, "nothing is left of members that went", func(context.Context) (bool, error) {
		after = w.footprint()
		err := after.beyond(before)
		return err == nil, err
	})
	w.figure("%d members added and removed in %.1f s: goroutines %.0f, before %.0f; files and connections %.0f, before %.0f; heap %.1f MB, before %.1f MB",
		enoughEdits*guests, took.Seconds(), after.goroutines, before.goroutines, after.files, before.files, after.heap/1e6, before.heap/1e6)
	news := w.writes()[written:]
	for _, one := range news {
		if one.Resource != "endpointslices" || !strings.HasPrefix(one.Name, "guest-") {
			w.Errorf("a write for members that came and went: %+v", one)
			break
		}
	}
	if most := 2 * enoughEdits * guests; len(news) > most {
		w.Errorf("%d writes for members that came and went, want %d at most", len(news), most)
	}
	w.alive()
}

// come adds the guests and waits until each has been listed.
func (w *world) come(s setup) {
	w.Helper()
	w.must(w.write(s))
	w.eventually(time.Minute, "all members are synced", func(context.Context) (bool, error) {
		return w.is("tributary_cluster_synced", `member_cluster="guest-`, guests)
	})
	w.eventually(time.Minute, "their Services are shown", func(ctx context.Context) (bool, error) {
		list, err := w.fleet.Ingress.Client.CoreV1().Endpoints("").List(ctx, metav1.ListOptions{LabelSelector: ours, ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		n := 0
		for _, e := range list.Items {
			if strings.HasPrefix(e.Name, "guest-") && countAddresses(&e) == 1 {
				n++
			}
		}
		return n == guests, nil
	})
	w.eventually(time.Minute, "nothing waits", func(context.Context) (bool, error) {
		return w.is("tributary_sync_lag_seconds", "", 0)
	})
}

func (w *world) leave(s setup) {
	w.Helper()
	w.must(w.write(s))
	w.eventually(time.Minute, "the members are gone", func(context.Context) (bool, error) {
		return w.is("tributary_cluster_synced", `member_cluster="guest-`, 0)
	})
}

// is compares the sum of a metric's lines with what it should be.
func (w *world) is(name, labels string, want float64) (bool, error) {
	w.Helper()
	if got := w.metric(name, labels); got != want {
		return false, fmt.Errorf("%s is %v, want %v", name, got, want)
	}
	return true, nil
}
