// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
	"tributary.dev/tributary/e2e/history"
	"tributary.dev/tributary/internal/dice"
)

// world is what one test has: a fleet that no other test uses meanwhile, a namespace
// in it, a tributary that takes only that one, and a recorder.
type world struct {
	*testing.T
	fleet   *fleet.Fleet
	ingress *fleet.Site
	a, b    *fleet.Site
	ns      string
	seed    uint64
	dice    *rand.Rand

	dir    string
	config configuration
	proc   *fleet.Tributary
	// env is added to the environment of what is started next.
	env  []string
	rec  *history.Recorder
	laws history.Settings
	// down is open while tributary does not run or is not ready.
	down *history.Mark
	// members are those whose share is judged; by default both.
	members []*fleet.Site
	// installation is judged, by what user wrote; empty, all that is marked is one's.
	installation history.Installation
	user         string
}

// newWorld prepares a namespace in all clusters. Tributary is not started. Tests run
// side by side, for most of what they do is to wait.
func newWorld(t *testing.T, namespace string) *world {
	t.Helper()
	t.Parallel()
	f := ground.Lend(t)
	w := &world{T: t, fleet: f, ingress: f.Ingress, a: f.Members[0], b: f.Members[1], ns: namespace, seed: dice.Seed(t), dir: t.TempDir()}
	w.members, w.user = f.Members, fleet.ProductUser
	w.dice = dice.From(w.seed, 0)
	w.laws = history.Settings{Slack: w.within(2 * time.Second), Bound: w.within(10 * time.Second)}
	t.Cleanup(func() { w.tidy() })
	for _, s := range f.Sites() {
		w.must(s.CreateNamespaces(t.Context(), namespace))
	}
	w.must(w.ingress.CreateNamespaces(t.Context(), own))
	w.config = configuration{path: filepath.Join(w.dir, "tributary.yaml"), namespace: namespace, ingress: w.ingress.Kubeconfig}
	port, err := cluster.FreePort()
	w.must(err)
	w.config.listen = fmt.Sprintf("127.0.0.1:%d", port)
	for _, m := range f.Members {
		w.config.set(m.Name(), m.Kubeconfig)
	}
	return w
}

// record starts the recorder; what was made before is in the first lists.
func (w *world) record() {
	w.Helper()
	sources := []history.Source{}
	for _, m := range w.members {
		sources = append(sources, source(m))
	}
	rec, err := history.Start(w.Context(), source(w.ingress), sources...)
	w.must(err)
	w.rec = rec
	w.down = rec.Begin(history.ProductDown, "")
}

func source(s *fleet.Site) history.Source { return history.Source{Name: s.Name(), Client: s.Client} }

// tidy ends what the test left running, and keeps what whoever looks into a failure needs.
func (w *world) tidy() {
	if w.proc != nil {
		w.proc.Kill()
		if w.Failed() {
			w.Logf("tributary, last lines:\n%s", w.proc.Tail(40))
			w.keep("tributary.log", func(f *os.File) error {
				text, err := os.ReadFile(w.proc.Log())
				if err == nil {
					_, err = f.Write(text)
				}
				return err
			})
		}
	}
	if w.rec != nil {
		w.rec.Close()
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// within is a time limit of this run.
func (w *world) within(d time.Duration) time.Duration {
	return time.Duration(float64(d) * *patienceFlag)
}

// size chooses between the quick share and the full one.
func size(quick, full int) int {
	if *fullFlag {
		return full
	}
	return quick
}

// start records, unless that was begun, and runs tributary until it is ready.
func (w *world) start() {
	w.Helper()
	if w.rec == nil {
		w.record()
	}
	w.must(w.config.write())
	w.proc = fleettest.RunTributary(w.T, fleet.TributaryOptions{Config: w.config.path, Env: w.env})
	w.ready()
}

func (w *world) ready() {
	w.Helper()
	w.must(w.proc.WaitReady(w.Context()))
	w.down.End()
}

// kill kills tributary, perhaps before it was ready.
func (w *world) kill() {
	w.down.End()
	w.down = w.rec.Begin(history.ProductDown, "")
	w.proc.Kill()
}

// restart starts it again and waits until it is ready.
func (w *world) restart() {
	w.Helper()
	w.must(w.proc.Start(w.Context()))
	w.ready()
}

// restartBlind starts it again and does not wait: a member that cannot be listed keeps it
// from being ready for a while.
func (w *world) restartBlind() {
	w.Helper()
	w.must(w.proc.Start(w.Context()))
	w.down.End()
}

// crash kills an API server and starts it again.
func (w *world) crash(s *fleet.Site) {
	w.Helper()
	s.APIServer().Kill()
	w.must(s.APIServer().Start(w.Context()))
}

// advance changes something that tributary watches and that is of no interest, so
// that the revision of a cluster's store is as far ahead of a backup as it would be
// after some time.
func (w *world) advance(s *fleet.Site) {
	w.Helper()
	ctx := w.Context()
	const name, changes = "advance", 300
	if s == w.ingress {
		client := s.Client.CoreV1().Endpoints(w.ns)
		made, err := client.Create(ctx, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.must(err)
		for i := range changes {
			made.Annotations = map[string]string{"n": fmt.Sprint(i)}
			made, err = client.Update(ctx, made, metav1.UpdateOptions{})
			w.must(err)
		}
		return
	}
	w.must(s.StartPods(ctx, fleet.NewPod(w.ns, name, name)))
	for i := range changes {
		flip := s.MarkReady
		if i%2 == 1 {
			flip = s.MarkNotReady
		}
		w.must(flip(ctx, w.ns, name))
	}
}

// eventually fails the test unless cond returns nil within a limit; it returns
// how long that took.
func (w *world) eventually(limit time.Duration, cond func(context.Context) error) time.Duration {
	w.Helper()
	began := time.Now()
	fleettest.Eventually(w.T, w.within(limit), cond)
	return time.Since(began)
}

// converges waits until the ingress cluster shows what the members want, by
// lists.
func (w *world) converges(limit time.Duration) time.Duration {
	w.Helper()
	return w.eventually(limit, w.differs)
}

// differs returns an error that tells the differences, if there are any.
func (w *world) differs(ctx context.Context) error {
	lines, err := w.left(ctx)
	if err != nil || len(lines) == 0 {
		return err
	}
	const most = 10
	return fmt.Errorf("%d differences: %q", len(lines), lines[:min(len(lines), most)])
}

// blind notes that tributary cannot see a member until the mark ends.
func (w *world) blind(s *fleet.Site) *history.Mark { return w.rec.Begin(history.Blind, s.Name()) }

// doubt notes that a member's endpoints may be reserves until the mark ends.
func (w *world) doubt(s *fleet.Site) *history.Mark { return w.rec.Begin(history.Doubt, s.Name()) }

// quiet notes that nothing changes until the mark ends, so that nothing may be
// written.
func (w *world) quiet() *history.Mark { return w.rec.Begin(history.Quiet, "") }

// pause lets time pass in which nothing is expected to happen.
func (w *world) pause(d time.Duration) {
	select {
	case <-w.Context().Done():
	case <-time.After(d):
	}
}

// service makes a Service in members, with so many ready pods each.
func (w *world) service(name string, pods int, in ...*fleet.Site) (made []*corev1.Pod) {
	w.Helper()
	for _, s := range in {
		w.must(s.Create(w.Context(), fleet.NewService(w.ns, name)))
		made = append(made, w.pods(s, name, 0, pods)...)
	}
	return made
}

// pods makes ready pods NAME-from … of an app.
func (w *world) pods(s *fleet.Site, app string, from, n int) (made []*corev1.Pod) {
	w.Helper()
	for i := range n {
		made = append(made, fleet.NewPod(w.ns, fmt.Sprintf("%s-%d", app, from+i), app))
	}
	w.must(s.RunPods(w.Context(), made...))
	return made
}

// churn changes members at random until the returned function is called.
func (w *world) churn(each time.Duration, all ...*Churn) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() { c.Run(ctx, each) })
	}
	stop = func() {
		cancel()
		running.Wait()
	}
	w.Cleanup(stop)
	return stop
}
