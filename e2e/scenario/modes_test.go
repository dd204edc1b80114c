// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// modesWorld is a world whose configuration is edited again and again.
type modesWorld struct {
	*world
	// plain is the configuration with every default.
	plain   string
	a, b, c *fleet.Site
}

// of makes the plain configuration one of these members; edit puts it into effect.
func (w *modesWorld) of(members ...*fleet.Site) {
	w.Helper()
	path := w.config + ".plain"
	w.must(w.fleet.WriteConfig(path, w.listen, members...))
	text, err := os.ReadFile(path)
	w.must(err)
	w.plain = string(text)
}

// edit makes a configuration of the plain one: lines for clusters by name, and for
// replicas under "".
func (w *modesWorld) edit(lines map[string]string) {
	w.Helper()
	w.replaceConfig(func(string) string {
		text := w.plain
		for name, more := range lines {
			if name != "" {
				text = strings.Replace(text, "name: "+name+"\n", "name: "+name+"\n  "+more+"\n", 1)
			}
		}
		return text + "replicas: {" + lines[""] + "}\n"
	})
}

const (
	asBefore  = `rules: [{namespaces: [pay], mode: failover, failover: [idc-b, idc-a]}], annotations: {pass: ["example.com/*"]}`
	separated = "tributary.dev/mode"
)

// TestModes follows a replica that is shared, one of a member's own, and one that
// fails over, through drains, a conflict, a rename and the end of a member, by
// editing the file of a running tributary.
func TestModes(t *testing.T) {
	w := &modesWorld{world: newWorld(t)}
	ctx := t.Context()
	w.a, w.b, w.c = w.fleet.Member("idc-a"), w.fleet.Member("idc-b"), w.fleet.Member("idc-c")
	w.of(w.fleet.Members...)
	w.edit(map[string]string{"": asBefore})
	for _, site := range w.fleet.Members {
		w.must(site.CreateNamespaces(ctx, "shop", "pay", "store"))
	}
	own := fleet.NewService("shop", "web")
	own.Annotations = map[string]string{separated: "separate", "example.com/team": "b", "example.org/team": "b"}
	w.must(w.a.Create(ctx, fleet.NewService("shop", "web"), fleet.NewService("pay", "api")))
	w.must(w.b.Create(ctx, own, fleet.NewService("pay", "api")))
	webA := line(w.a, w.pod(w.a, "shop", "web-0", "web"), "ready+serving")
	webB := line(w.b, w.pod(w.b, "shop", "web-0", "web"), "ready+serving")
	apiA := line(w.a, w.pod(w.a, "pay", "api-0", "api"), "ready+serving")
	apiB := line(w.b, w.pod(w.b, "pay", "api-0", "api"), "ready+serving")

	w.start()
	w.shows("shop", "web", webA)
	w.shows("shop", "web-idc-b", webB)
	w.shows("pay", "api", apiB)
	w.tookOver("shop", "web-idc-b", "example.com/team")
	w.edit(map[string]string{"": strings.Replace(asBefore, "example.com", "example.org", 1)})
	w.tookOver("shop", "web-idc-b", "example.org/team")
	w.edit(map[string]string{"": asBefore})
	w.tookOver("shop", "web-idc-b", "example.com/team")

	w.stepFailover(apiA, apiB)
	w.stepDrain(webA, apiA, apiB)
	w.stepConflict(webA, webB)
	w.stepRename(webA, webB)
	w.stepNewName()
	w.stepIngressAsMember(webA, webB)
	w.must(w.proc.Stop(ctx))
}

// tookOver waits until of the source's own annotations the replica has just this one.
func (w *modesWorld) tookOver(namespace, name, want string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		replica, err := w.fleet.Ingress.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for key := range replica.Annotations {
			if strings.HasPrefix(key, "example.") {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, []string{want}) {
			return fmt.Errorf("%s/%s took over %q, want %s", namespace, name, got, want)
		}
		return nil
	})
}

// stepFailover takes the first choice's only pod out of service and back.
func (w *modesWorld) stepFailover(apiA, apiB string) {
	w.Helper()
	ctx := w.Context()
	w.must(w.b.MarkNotReady(ctx, "pay", "api-0"))
	w.shows("pay", "api", apiA)
	w.must(w.b.MarkReady(ctx, "pay", "api-0"))
	w.shows("pay", "api", apiB)
	// The order is an edit, too.
	w.edit(map[string]string{"": strings.Replace(asBefore, "[idc-b, idc-a]", "[idc-a]", 1)})
	w.shows("pay", "api", apiA)
	w.edit(map[string]string{"": asBefore})
	w.shows("pay", "api", apiB)
	w.Logf("slowest live change so far: %.1f ms", w.slowest())
}

// slowest is the longest time from a live event to the acknowledged write.
func (w *modesWorld) slowest() (ms float64) {
	w.Helper()
	body, err := w.proc.Get(w.Context(), "/debug/changes")
	w.must(err)
	for text := range strings.Lines(string(body)) {
		var record struct {
			Result string
			Lane   string
			Stages struct{ Total float64 } `json:"stages_ms"`
		}
		if json.Unmarshal([]byte(text), &record) == nil && record.Result == "written" && record.Lane != "bulk" {
			ms = max(ms, record.Stages.Total)
		}
	}
	return ms
}

// stepDrain drains both members of pay/api in turn, and the only one of shop/web.
func (w *modesWorld) stepDrain(webA, apiA, apiB string) {
	w.Helper()
	w.edit(map[string]string{"": asBefore, "idc-b": "drain: true"})
	w.shows("pay", "api", apiA)
	w.edit(map[string]string{"": asBefore, "idc-a": "drain: true"})
	w.shows("pay", "api", apiB)
	w.shows("shop", "web", webA) // nobody else serves it
	w.statusSays("drain_last_ready")
	w.edit(map[string]string{"": asBefore, "idc-a": "drain: true\n  force: true"})
	w.shows("shop", "web")
	w.edit(map[string]string{"": asBefore})
	w.shows("shop", "web", webA)
	w.shows("pay", "api", apiB)
}

// statusSays waits until `tributary status` shows a text.
func (w *modesWorld) statusSays(want string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		if code, out := w.command("status", "--server", w.proc.URL); code != 0 || !strings.Contains(out, want) {
			return fmt.Errorf("status: exit %d, want %q in\n%s", code, want, out)
		}
		return nil
	})
}

// stepConflict gives up the replica of idc-b's own while its port differs, and
// mends that.
func (w *modesWorld) stepConflict(webA, webB string) {
	w.Helper()
	ctx := w.Context()
	change := func(edit func(*corev1.Service)) {
		w.Helper()
		svc, err := w.b.Client.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
		w.must(err)
		edit(svc)
		_, err = w.b.Client.CoreV1().Services("shop").Update(ctx, svc, metav1.UpdateOptions{})
		w.must(err)
	}
	change(func(svc *corev1.Service) {
		delete(svc.Annotations, separated)
		svc.Spec.Ports[0].Port = 81
	})
	w.gone("shop", "web-idc-b")
	w.shows("shop", "web", webA)
	w.events("web", "Warning TributaryConflict")
	w.statusSays("is 81/TCP in idc-b")
	change(func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 80 })
	w.shows("shop", "web", webA, webB)
	w.events("web", "Normal TributaryConflictCleared", "Warning TributaryConflict")
	metrics, err := w.proc.Get(ctx, "/metrics")
	w.must(err)
	if !strings.Contains(string(metrics), `tributary_conflicts{reason="port"} 0`) {
		w.Error("the metrics still show the conflict")
	}
}

// events waits until a replica has exactly these Events, once each.
func (w *modesWorld) events(name string, want ...string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		list, err := w.fleet.Ingress.Client.CoreV1().Events("shop").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			got = append(got, e.Type+" "+e.Reason)
			if e.InvolvedObject.UID == "" || e.Count != 1 || e.Source.Component != "tributary" {
				return fmt.Errorf("event %+v", e)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("events of %s: %q, want %q", name, got, want)
		}
		return nil
	})
}

// stepRename lets idc-c's store be shop, takes idc-c out of the file, and then
// what it left.
func (w *modesWorld) stepRename(webA, webB string) {
	w.Helper()
	w.must(w.c.Create(w.Context(), fleet.NewService("store", "web")))
	webC := line(w.c, w.pod(w.c, "store", "web-0", "web"), "ready+serving")
	w.shows("store", "web", webC)
	w.edit(map[string]string{"": asBefore, "idc-c": "namespaces: {rename: {store: shop}}"})
	w.shows("shop", "web", webA, webB, webC)
	w.gone("store", "web")

	w.of(w.a, w.b)
	w.edit(map[string]string{"": asBefore})
	w.follows(w.a, w.b)
	w.shows("shop", "web", webA, webB, webC)
	code, out := w.command("plan", "--config", w.config)
	if code != 0 || !strings.Contains(out, "shop/web idc-c 1 endpoint\n") || !strings.Contains(out, "0 to create, 0 to update, 0 to delete") {
		w.Errorf("plan: exit %d\n%s", code, out)
	}
	if log, err := os.ReadFile(w.proc.Log()); err != nil || !strings.Contains(string(log), "cluster that is not configured") {
		w.Errorf("the log does not tell that endpoints of idc-c stay (%v)", err)
	}
	// Nobody knows whether webC is alive, so it lets no drain take the last others.
	w.edit(map[string]string{"": asBefore, "idc-a": "drain: true"})
	w.shows("shop", "web", webB, webC)
	w.edit(map[string]string{"": asBefore, "idc-a": "drain: true", "idc-b": "drain: true"})
	w.shows("shop", "web", webA, webB, webC)
	w.statusSays("drain_last_ready")
	w.edit(map[string]string{"": asBefore + ", orphans: delete"})
	w.shows("shop", "web", webA, webB)
}

// stepNewName gives idc-c another name and back, in the save that has orphans deleted:
// what only it serves is served all the time.
func (w *modesWorld) stepNewName() {
	w.Helper()
	ctx := w.Context()
	w.of(w.a, w.b, w.c)
	w.edit(map[string]string{"": asBefore})
	w.must(w.c.CreateNamespaces(ctx, "shop"))
	w.must(w.c.Create(ctx, fleet.NewService("shop", "alone")))
	alone := line(w.c, w.pod(w.c, "shop", "alone-0", "alone"), "ready+serving")
	w.shows("shop", "alone", alone)
	endpoints := w.fleet.Ingress.Client.CoreV1().Endpoints("shop")
	now, err := endpoints.Get(ctx, "alone", metav1.GetOptions{})
	w.must(err)
	stream, err := endpoints.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=alone", ResourceVersion: now.ResourceVersion})
	w.must(err)
	plain := w.plain
	for _, name := range []string{"idc-x", "idc-c", "idc-x", "idc-c"} {
		w.plain = strings.Replace(plain, "name: idc-c\n", "name: "+name+"\n", 1)
		w.edit(map[string]string{"": asBefore + ", orphans: delete"})
		w.shows("shop", "alone", strings.Replace(alone, "idc-c", name, 1))
	}
	_, err = endpoints.Patch(ctx, "alone", types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/end":""}}}`), metav1.PatchOptions{})
	w.must(err)
	for event := range stream.ResultChan() {
		ep, ok := event.Object.(*corev1.Endpoints)
		if !ok || event.Type == watch.Deleted || len(ep.Subsets) != 1 || len(ep.Subsets[0].Addresses) != 1 {
			w.Fatalf("without its endpoint meanwhile: %s %+v", event.Type, event.Object)
		}
		if _, end := ep.Annotations["example.com/end"]; end {
			break
		}
	}
	stream.Stop()
	w.of(w.a, w.b)
	w.edit(map[string]string{"": asBefore + ", orphans: delete"})
	w.gone("shop", "alone")
}

// stepIngressAsMember lists the ingress cluster as a member of itself: its replicas
// are no sources, and nothing is written.
func (w *modesWorld) stepIngressAsMember(webA, webB string) {
	w.Helper()
	ctx := w.Context()
	w.must(w.fleet.Ingress.Grant(ctx, fleet.ProductUser, append(fleet.IngressRules(), fleet.MemberRules()...)...))
	w.of(w.a, w.b, w.fleet.Ingress)
	before := w.writes()
	w.edit(map[string]string{"": asBefore})
	w.follows(w.a, w.b, w.fleet.Ingress)
	w.synced(w.fleet.Ingress.Name())
	w.shows("shop", "web", webA, webB)

	// A restart writes nothing, whatever the modes are.
	w.proc.Kill()
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.synced(w.fleet.Ingress.Name())
	w.shows("shop", "web", webA, webB)
	if after := w.writes(); after != before {
		w.Errorf("%d writes, want 0", after-before)
	}
}

// synced waits until a member has been read whole.
func (w *modesWorld) synced(name string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status struct {
			Clusters []struct {
				Name   string
				Synced bool
			}
		}
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		for _, c := range status.Clusters {
			if c.Name == name && c.Synced {
				return nil
			}
		}
		return fmt.Errorf("%s has not been read whole: %+v", name, status)
	})
}
