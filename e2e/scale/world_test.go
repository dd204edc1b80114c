// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

var (
	services = flag.Int("services", 300, "Services of the bulk member, a pod each; 2000 and more is a run of full size")
	binary   = flag.String("tributary", "", "tributary binary; empty: build it")
)

// The member of the pod that is flipped, and the member of the many Services.
const (
	quiet = "idc-a"
	bulk  = "idc-b"
	// namespaces is how many namespaces the bulk member's Services are in.
	namespaces = 10
)

// world is a fleet and one tributary, shared by the steps of the test.
type world struct {
	*testing.T
	fleet  *fleet.Fleet
	quiet  *fleet.Site
	bulk   *fleet.Site
	config string
	listen string
	proc   *fleet.Tributary
	// setup is the configuration file since the fill.
	setup setup
	// users are the names that tributary has used.
	users map[string]bool
}

func newWorld(t *testing.T) *world { return newWorldOf(t, quiet, bulk) }

// newWorldOf is a world with other members; steps that need the two cannot be used with it.
func newWorldOf(t *testing.T, members ...string) *world {
	t.Helper()
	f := fleettest.Start(t, fleet.Options{Members: members, Audit: true, Adjust: func(_ string, o *cluster.Options) {
		// By default a terminating API server waits a minute for watches to end.
		o.APIServerFlags = append(o.APIServerFlags, "--shutdown-watch-termination-grace-period=2s", "--shutdown-send-retry-after")
	}})
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		T: t, fleet: f, quiet: f.Member(quiet), bulk: f.Member(bulk), config: filepath.Join(f.Dir, "tributary.yaml"),
		listen: fmt.Sprintf("127.0.0.1:%d", port), users: map[string]bool{fleet.ProductUser: true},
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start runs tributary and waits until it is ready.
func (w *world) start(s setup) {
	w.Helper()
	w.must(w.write(s))
	w.proc = fleettest.RunTributary(w.T, fleet.TributaryOptions{Config: w.config, Binary: *binary})
	w.must(w.proc.WaitReady(w.Context()))
}

func bulkNamespace(i int) string { return "bulk-" + strconv.Itoa(i%namespaces) }

func bulkName(i int) string { return fmt.Sprintf("web-%05d", i) }

// populate creates the bulk member's Services with a pod each.
func (w *world) populate() {
	w.Helper()
	ctx, names := w.Context(), []string{}
	for i := range namespaces {
		names = append(names, bulkNamespace(i))
	}
	w.must(w.bulk.CreateNamespaces(ctx, names...))
	var all []metav1.Object
	var ready, starting []*corev1.Pod
	for i := range *services {
		service := fleet.NewService(bulkNamespace(i), bulkName(i))
		service.Labels = map[string]string{tier: "web"}
		all = append(all, service)
		pod := fleet.NewPod(bulkNamespace(i), bulkName(i), bulkName(i))
		if unready(i) {
			starting = append(starting, pod)
		} else {
			ready = append(ready, pod)
		}
	}
	w.must(w.bulk.Create(ctx, all...))
	w.must(w.bulk.RunPods(ctx, ready...))
	w.must(w.bulk.StartPods(ctx, starting...))
}

// each calls do for the numbers below n, 16 at a time.
func (w *world) each(n int, do func(ctx context.Context, i int) error) {
	w.Helper()
	ctx, cancel := context.WithCancelCause(w.Context())
	defer cancel(nil)
	next := make(chan int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	group.Wait()
	w.must(context.Cause(ctx))
}

// writes returns what tributary has written to replicas so far, in the order of the
// responses.
func (w *world) writes() []cluster.Write {
	w.Helper()
	all, err := w.fleet.Ingress.Writes(w.Context())
	w.must(err)
	var ours []cluster.Write
	for _, one := range all {
		if w.users[one.User] && (one.Resource == "services" || one.Resource == "endpoints" || one.Resource == "endpointslices" || one.Resource == "namespaces") {
			ours = append(ours, one)
		}
	}
	return ours
}

// bulkWrites returns those of the bulk member's replicas.
func bulkWrites(writes []cluster.Write) []cluster.Write {
	var out []cluster.Write
	for _, one := range writes {
		if strings.HasPrefix(one.Namespace, "bulk-") {
			out = append(out, one)
		}
	}
	return out
}

// ready counts the bulk replicas, and those of them with a ready address.
func (w *world) ready(ctx context.Context) (all, ready int, err error) {
	list, err := w.fleet.Ingress.Client.CoreV1().Endpoints("").List(ctx, metav1.ListOptions{LabelSelector: ours, ResourceVersion: "0"})
	if err != nil {
		return 0, 0, err
	}
	for _, e := range list.Items {
		if !strings.HasPrefix(e.Namespace, "bulk-") {
			continue
		}
		all++
		if len(e.Subsets) > 0 && len(e.Subsets[0].Addresses) > 0 {
			ready++
		}
	}
	return all, ready, nil
}

// eventually waits for a condition on the bulk replicas. It polls rarely: each poll costs
// the servers a list.
func (w *world) eventually(limit time.Duration, what string, cond func(ctx context.Context) (bool, error)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		ok, err := cond(ctx)
		if ok && err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			w.Fatalf("after %v it is not true that %s; last error: %v", limit, what, last)
		}
	}
}

// often is eventually for a condition that is cheap to check.
func (w *world) often(limit time.Duration, what string, cond func(ctx context.Context) error) {
	w.Helper()
	if err := fleet.Eventually(w.Context(), limit, cond); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// figure prints a result; `go test -v` or a failure shows it.
func (w *world) figure(format string, args ...any) {
	w.Helper()
	w.Logf("FIGURE "+format, args...)
}
