// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
	"tributary.dev/tributary/metrics"
)

// TestRestarts kills and restarts tributary, starts it while a member is down,
// and edits its configuration while it runs.
func TestRestarts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b, c := w.fleet.Member("idc-a"), w.fleet.Member("idc-b"), w.fleet.Member("idc-c")
	want := w.shopInEveryMember()
	w.start()
	w.shows("shop", "web", want...)
	w.showsEndpoints("shop", "only-b") // the last object of the first fill: nothing is under way when it is killed

	// Killed and restarted with nothing changed: nothing is written.
	before := w.writes()
	w.proc.Kill()
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.shows("shop", "web", want...)
	if after := w.writes(); after != before {
		t.Errorf("a restart without a change wrote %d times, want 0", after-before)
	}
	w.stepQuiet(a)

	// What changed while it was away is made up for, and only that.
	w.proc.Kill()
	w.must(a.Remove(ctx, "shop", "web-0"))
	w.must(b.Client.CoreV1().Services("shop").Delete(ctx, "only-b", metav1.DeleteOptions{}))
	w.must(w.proc.Start(ctx))
	w.shows("shop", "web", want[1:]...)
	w.gone("shop", "only-b")

	// A member that is down at the start keeps its share; the others are served. A replica of
	// that member alone is left as it is until the member is back.
	w.must(c.Create(ctx, fleet.NewService("shop", "only-c")))
	w.selects("only-c", nil)
	w.must(w.proc.Stop(ctx))
	c.APIServer().Kill()
	theirs := map[string]string{"app": "theirs"}
	_, err := w.fleet.Ingress.Client.CoreV1().Services("shop").Patch(ctx, "only-c", types.MergePatchType, []byte(`{"spec":{"selector":{"app":"theirs"}}}`), metav1.PatchOptions{})
	w.must(err)
	late := w.podLine(b, "web-1")
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.shows("shop", "web", want[1], want[2], late)
	w.selects("only-c", theirs)
	w.must(c.APIServer().Start(ctx))
	later := w.podLine(c, "web-1")
	w.shows("shop", "web", want[1], want[2], late, later)
	w.selects("only-c", nil)

	w.stepAnotherCluster(a, b, want[1], want[2], late, later)
	w.stepEditedConfiguration(a, b, c, []string{want[1], want[2], late, later})
	w.stepIngressReachedAnew(a)
	w.must(w.proc.Stop(ctx))
}

// selects waits until a replica of shop selects these pods; a whole one selects none.
func (w *world) selects(name string, want map[string]string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		s, err := w.fleet.Ingress.Client.CoreV1().Services("shop").Get(ctx, name, metav1.GetOptions{})
		if err == nil && !maps.Equal(s.Spec.Selector, want) {
			err = fmt.Errorf("replica %s selects %v, want %v", name, s.Spec.Selector, want)
		}
		return err
	})
}

// shopInEveryMember makes shop/web with one pod in each member, and
// shop/only-b in one; it returns the slice lines of shop/web.
func (w *world) shopInEveryMember() (lines []string) {
	w.Helper()
	ctx := w.Context()
	for _, site := range w.fleet.Members {
		w.must(site.CreateNamespaces(ctx, "shop"))
		w.must(site.Create(ctx, fleet.NewService("shop", "web")))
		lines = append(lines, w.podLine(site, "web-0"))
	}
	w.must(w.fleet.Member("idc-b").Create(ctx, fleet.NewService("shop", "only-b")))
	return lines
}

// podLine makes a ready pod of shop/web and returns its slice line.
func (w *world) podLine(site *fleet.Site, name string) string {
	w.Helper()
	return line(site, w.pod(site, "shop", name, "web"), "ready+serving")
}

// stepAnotherCluster lets the kubeconfig of one member lead to another cluster while
// tributary is away: the replicas tell which cluster the member was.
func (w *world) stepAnotherCluster(a, b *fleet.Site, want ...string) {
	w.Helper()
	ctx := w.Context()
	w.must(w.proc.Stop(ctx))
	before := w.writes()
	var right string
	w.replaceConfig(func(s string) string { right = s; return strings.Replace(s, b.Kubeconfig, a.Kubeconfig, 1) })
	w.must(w.proc.Start(ctx))
	w.reports(b.Name(), "OtherCluster")
	w.shows("shop", "web", want...)
	if after := w.writes(); after != before {
		w.Errorf("another cluster at the address of a member: %d writes, want 0", after-before)
	}
	w.must(w.proc.Stop(ctx))
	w.replaceConfig(func(string) string { return right })
	w.must(w.proc.Start(ctx))
	w.reports(b.Name(), "")
	w.shows("shop", "web", want...)
	if after := w.writes(); after != before {
		w.Errorf("the member is back: %d writes, want 0", after-before)
	}
}

// reports waits until the conditions of a member have this reason; "" is none at all, of a
// member that has been read whole.
func (w *world) reports(cluster, reason string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status metrics.Status
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		for _, c := range status.Clusters {
			if c.Name == cluster && (c.Has(reason) || reason == "" && c.Synced && len(c.Conditions) == 0) {
				return nil
			}
		}
		return fmt.Errorf("%s is to report %q: %s", cluster, reason, body)
	})
}

// stepEditedConfiguration takes a member out and puts it back, and tries an
// invalid edit in between.
func (w *world) stepEditedConfiguration(a, b, c *fleet.Site, want []string) {
	w.Helper()
	// Leaving a cluster out of the file keeps what it gave, in reserve.
	reserved := slices.Clone(want)
	for i, line := range want {
		if strings.HasPrefix(line, c.Name()+" ") {
			reserved[i] = off(line)
		}
	}
	w.configure(a, b)
	w.follows(a, b)
	added := w.podLine(b, "web-2")
	w.shows("shop", "web", append([]string{added}, reserved...)...)
	ignored := w.podLine(c, "web-2")
	w.replaceConfig(func(s string) string { return strings.Replace(s, "clusters:", "clutsers:", 1) })
	another := w.podLine(b, "web-3")
	w.shows("shop", "web", append([]string{added, another}, reserved...)...)

	w.configure(a, b, c)
	w.follows(a, b, c)
	w.shows("shop", "web", append([]string{added, another, ignored}, want...)...)
}

// stepIngressReachedAnew gives tributary other credentials for the ingress cluster
// while it runs: with ones that are refused it goes on as before, with good ones it
// goes over to them, and writes nothing for either.
func (w *world) stepIngressReachedAnew(a *fleet.Site) {
	w.Helper()
	ctx, ingress := w.Context(), w.fleet.Ingress
	w.must(a.Create(ctx, fleet.NewService("shop", "turns")))
	path := filepath.Join(w.dir, "another.kubeconfig")
	use := func(u cluster.User) {
		w.Helper()
		text, err := ingress.Cluster.Kubeconfig(u)
		w.must(err)
		w.must(os.WriteFile(path, text, 0o600))
	}
	use(cluster.User{Name: "nobody", Token: "unknown"})
	w.replaceConfig(func(s string) string { return strings.Replace(s, ingress.Kubeconfig, path, 1) })
	w.reportsIngress("Unauthorized")
	first := line(a, w.pod(a, "shop", "turns-0", "turns"), "ready+serving")
	w.shows("shop", "turns", first)

	good, err := ingress.NewServiceAccount(ctx, "shop", "another", fleet.IngressRules()...)
	w.must(err)
	before := w.writes()
	use(good)
	w.reportsIngress("")
	second := line(a, w.pod(a, "shop", "turns-1", "turns"), "ready+serving")
	w.shows("shop", "turns", first, second)
	if after := w.writes(); after != before {
		w.Errorf("the former credentials wrote %d times more", after-before)
	}
	writes, err := ingress.Writes(ctx)
	w.must(err)
	if n := cluster.CountWrites(writes, toReplicas(good.Name)); n != 2 {
		w.Errorf("the new credentials wrote %d times, want Endpoints and slice of one pod", n)
	}
}

// reportsIngress waits until the status tells this error of the ingress cluster, "" for none,
// while it is live.
func (w *world) reportsIngress(text string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status metrics.Status
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		if is := status.Ingress; (text == "") != (is.LastError == "") || !strings.Contains(strings.ToLower(is.LastError), strings.ToLower(text)) || is.State != "live" {
			return fmt.Errorf("the ingress cluster is %q and says %q, want live and %q", is.State, is.LastError, text)
		}
		return nil
	})
}

// reportsConfig waits until the status tells this error of the configuration, "" for
// none, while the ingress cluster is live.
func (w *world) reportsConfig(text string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status struct {
			Config  struct{ Error string }
			Ingress struct{ State string }
		}
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		told := (text == "") == (status.Config.Error == "") && strings.Contains(status.Config.Error, text)
		if !told || status.Ingress.State != "live" {
			return fmt.Errorf("config %q, ingress %q", status.Config.Error, status.Ingress.State)
		}
		return nil
	})
}
