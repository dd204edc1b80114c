// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
	"tributary.dev/tributary/internal/dice"
)

var (
	servicesFlag = flag.Int("services", 60, "how many Services the member has")
	roundsFlag   = flag.Int("rounds", 6, "how many times edits are made and both sides compared")
	editsFlag    = flag.Int("edits", 60, "how many edits a round has")
	patienceFlag = flag.Duration("patience", 30*time.Second, "how long both sides may take to become equal")
)

// world is a member under churn, its controller manager, and a tributary.
type world struct {
	*testing.T
	fleet       *fleet.Fleet
	member      *fleet.Site
	controllers *cluster.Process
	proc        *fleet.Tributary
	began       time.Time

	rng        *rand.Rand
	namespaces []string
	apps       int // per namespace
	most       int // the limit of pods
	services   []*service
	pods       []*pod
	next       int // the next number for names and addresses
	total      int // how many edits were made
	nudges     int
	made       map[string]int // edits, by name
	history    []event
	subject    key // of the current edit
}

// TestRealClusters makes random edits to a member, and compares whenever it is
// quiet. One round runs without the member's controller manager: what we have
// published by then must be what it computes when it is back.
func TestRealClusters(t *testing.T) {
	w := newWorld(t)
	w.populate()
	w.startControllers()
	w.startTributary()
	endpoints, sliced := w.compareTriggers(w.settle("at first"), true)
	t.Logf("at first: %d Services and %d pods are equal, trigger times %+v %+v", len(w.services), len(w.pods), endpoints, sliced)
	all := func(edit) bool { return true }
	for round := range *roundsFlag {
		what := fmt.Sprintf("round %d", round+1)
		if round == *roundsFlag/2 {
			w.withoutControllers(what)
			continue
		}
		w.churn(*editsFlag, all)
		quiet := time.Now()
		endpoints, sliced := w.compareTriggers(w.settle(what), false)
		t.Logf("%s: %d Services and %d pods are equal after %d edits and %d ms; trigger times %+v %+v", what, len(w.services), len(w.pods),
			*editsFlag, time.Since(quiet).Milliseconds(), endpoints, sliced)
	}
	for _, name := range slices.Sorted(maps.Keys(w.made)) {
		t.Logf("%4d %s", w.made[name], name)
	}
	t.Logf("%d Services were touched because the member's controllers overlooked a finished pod (D1)", w.nudges)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.proc.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	seed := dice.Seed(t)
	t.Logf("repeat with -seed=%d -services=%d -edits=%d -rounds=%d", seed, *servicesFlag, *editsFlag, *roundsFlag)
	f := fleettest.Start(t, fleet.Options{Members: []string{"idc-a"}})
	return &world{
		T: t, fleet: f, member: f.Member("idc-a"), began: time.Now().Truncate(time.Second), made: map[string]int{},
		rng: dice.From(seed, 0), namespaces: []string{"pay", "search", "shop"},
		apps: max(3, *servicesFlag/4), most: 4 * *servicesFlag,
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// populate fills the member before it is watched.
func (w *world) populate() {
	w.Helper()
	ctx := w.Context()
	w.must(w.member.CreateNamespaces(ctx, w.namespaces...))
	for n := range nodes {
		w.must(w.member.CreateNodes(ctx, fleet.NewNode(nodeName(n), fmt.Sprintf("zone-%d", n%zones))))
	}
	var objects []metav1.Object
	for range *servicesFlag {
		s, o := w.newService(w.someNamespace(), w.newServiceName())
		w.services, objects = append(w.services, s), append(objects, o)
	}
	w.must(w.member.Create(ctx, objects...))
	var ready, started []*corev1.Pod
	for range 3 * *servicesFlag {
		p, o := w.newPod(w.someNamespace())
		p.ready = w.chance(70)
		w.pods = append(w.pods, p)
		if p.ready {
			ready = append(ready, o)
		} else {
			started = append(started, o)
		}
	}
	w.must(w.member.RunPods(ctx, ready...))
	w.must(w.member.StartPods(ctx, started...))
	for _, s := range w.services {
		if s.selector == nil && w.chance(70) {
			w.must(w.writeEndpoints(ctx, s))
		}
		if s.selector == nil && w.chance(50) {
			w.must(w.writeSlice(ctx, s))
		}
	}
}

// startControllers runs the member's controllers without their usual rate limits, so
// that they keep up.
func (w *world) startControllers() {
	w.Helper()
	m, err := w.member.StartControllerManager(w.Context(), cluster.ControllerManagerOptions{
		Controllers: []string{"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"},
		Flags:       []string{"--kube-api-qps=1000", "--kube-api-burst=1000"},
	})
	w.must(err)
	w.controllers = m
}

func (w *world) startTributary() {
	w.Helper()
	port, err := cluster.FreePort()
	w.must(err)
	config := filepath.Join(w.fleet.Dir, "tributary.yaml")
	w.must(w.fleet.WriteConfig(config, fmt.Sprintf("127.0.0.1:%d", port)))
	w.proc = fleettest.RunTributary(w.T, fleet.TributaryOptions{Config: config})
	w.must(w.proc.WaitReady(w.Context()))
}

// calm is how long the ingress cluster must not change to be considered complete,
// while there is nothing to compare it with.
const calm = 2 * time.Second

// withoutControllers makes edits while the member's controller manager is down.
func (w *world) withoutControllers(what string) {
	w.Helper()
	ctx := w.Context()
	w.must(w.controllers.Stop(ctx))
	w.churn(*editsFlag, func(e edit) bool { return !e.needsControllers })
	since := time.Now()
	var last *state
	w.must(eventually(ctx, *patienceFlag, pollEvery, func(ctx context.Context) error {
		before := last
		var err error
		if last, err = w.look(ctx); err != nil {
			return err
		}
		if before == nil || before.ingress.print != last.ingress.print {
			since = time.Now()
		}
		if time.Since(since) < calm {
			return fmt.Errorf("the ingress cluster still changes")
		}
		return w.lagless(ctx)
	}))
	behind := len(last.differences())
	if behind == 0 {
		w.Errorf("%s: the member shows all edits without its controllers", what)
	}
	w.must(w.controllers.Start(ctx))
	after := w.settle(what)
	for k, v := range after.ours {
		if was := last.ours[k]; was == nil || was.text() != v.text() {
			w.Errorf("%s: %s waited for the member's controllers:\nbefore %v\nafter  %v", what, k, was, v)
		}
	}
	w.Logf("%s: %d edits without the member's controllers, which had %d Services to catch up with; ours did not change", what, *editsFlag, behind)
}

// lagless returns an error while the product has something to write.
func (w *world) lagless(ctx context.Context) error {
	metrics, err := w.proc.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	if !strings.Contains(string(metrics), "\ntributary_sync_lag_seconds{member_cluster=\"idc-a\"} 0\n") {
		return fmt.Errorf("tributary has changes to write")
	}
	return nil
}
