// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fault"
)

const (
	// fullPods is a list of full size.
	fullPods = 50000
	// roundTrip is what a hundred concurrent questions, and the resulting writes, may take.
	roundTrip = 100 * time.Millisecond
)

// TestManyAbsent: pods are missing from a long list. They are asked for, a hundred at a time, and
// removed within a second and N/100 round trips of the list, at any length of it.
func TestManyAbsent(t *testing.T) {
	total := max(*pods, 2000)
	w := newWorldOf(t, quiet)
	proxy, err := fault.StartProxy(w.quiet.Cluster, 1)
	w.must(err)
	t.Cleanup(proxy.Close)
	text, err := proxy.Kubeconfig(w.quiet.Product)
	w.must(err)
	member := of(w.quiet)
	member.Kubeconfig = filepath.Join(t.TempDir(), "proxied.kubeconfig")
	w.must(os.WriteFile(member.Kubeconfig, text, 0o600))
	w.crowd(w.quiet, total/10)
	w.start(setup{clusters: []entry{member}})
	w.eventually(10*time.Minute, "all replicas are made", func(context.Context) (bool, error) {
		return w.is("tributary_sync_lag_seconds", "", 0)
	})
	from := 0
	for _, n := range []int{200, max(200, total/10)} {
		list, settled := w.absent(proxy, from/10, n/10)
		from += n
		limit := time.Second + time.Duration(n/100)*roundTrip
		if *pods < fullPods {
			limit *= 3 // as in all quick runs
		}
		w.figure("%d of %d pods absent: the list was read %s after the gap, all had left %s later", n, total, list, settled)
		if settled > limit {
			t.Errorf("%d of %d absent pods had left after %s, want %s", n, total, settled, limit)
		}
	}
}

// absent removes all pods of some Services while tributary cannot see it, and returns how long
// the list took, and how long after it none of them was served.
func (w *world) absent(proxy *fault.Proxy, from, services int) (list, settled time.Duration) {
	w.Helper()
	ctx, namespace := w.Context(), w.quiet.Name()
	proxy.Set(&fault.Fault{CutBefore: true})
	proxy.EndWatches()
	w.each(services, func(ctx context.Context, i int) error {
		var names []string
		for k := range 10 {
			names = append(names, fmt.Sprintf("%s-%d", bulkName(from+i), k))
		}
		return w.quiet.Remove(ctx, namespace, names...)
	})
	began := time.Now()
	lists := &fault.Fault{Match: fault.Lists("pods")}
	proxy.Set(&fault.Fault{Match: fault.Resumes("pods"), Status: http.StatusGone, Times: 1}, lists)
	soon := time.NewTicker(20 * time.Millisecond)
	defer soon.Stop()
	for i := 0; i < services && ctx.Err() == nil; <-soon.C {
		if list == 0 && lists.Met() > 0 {
			list = time.Since(began)
		}
		for i < services && w.emptied(ctx, namespace, bulkName(from+i)) {
			i++
		}
	}
	return list, time.Since(began) - list
}

// emptied reports whether a replica has no endpoints in slices.
func (w *world) emptied(ctx context.Context, namespace, service string) bool {
	all, err := w.fleet.Ingress.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	return err == nil && !slices.ContainsFunc(all.Items, func(s discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 0 })
}
