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

// sharedWorld is a world whose configuration is edited again and again.
type sharedWorld struct {
	*world
	// plain is the configuration with every default.
	plain   string
	a, b, c *fleet.Site
}

// of makes the plain configuration one of these members; edit puts it into effect.
func (w *sharedWorld) of(members ...*fleet.Site) {
	w.Helper()
	path := w.config + ".plain"
	w.must(w.fleet.WriteConfig(path, w.listen, members...))
	text, err := os.ReadFile(path)
	w.must(err)
	w.plain = string(text)
}

// edit makes a configuration of the plain one: lines for clusters by name, and for
// replicas under "".
func (w *sharedWorld) edit(lines map[string]string) {
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

// asBefore has one namespace fail over, and copies some annotations.
const asBefore = `failover: [{namespaces: [pay], order: [idc-b, idc-a]}], copyAnnotations: ["example.com/*"]`

// off is the line of an endpoint that serves nobody now.
func off(line string) string { return strings.Replace(line, "ready+serving", "off", 1) }

// TestSharedReplicas follows a replica of several members and one that fails over through
// drains, a conflict, the end of a member and another name for it, by editing the file of a
// running tributary. The last that could serve always serves.
func TestSharedReplicas(t *testing.T) {
	w := &sharedWorld{world: newWorld(t)}
	ctx := t.Context()
	w.a, w.b, w.c = w.fleet.Member("idc-a"), w.fleet.Member("idc-b"), w.fleet.Member("idc-c")
	w.of(w.a, w.b)
	w.edit(map[string]string{"": asBefore})
	for _, site := range []*fleet.Site{w.a, w.b} {
		w.must(site.CreateNamespaces(ctx, "shop", "pay"))
	}
	web := fleet.NewService("shop", "web")
	web.Annotations = map[string]string{"example.com/team": "a", "example.org/team": "a"}
	w.must(w.a.Create(ctx, web, fleet.NewService("pay", "api")))
	w.must(w.b.Create(ctx, fleet.NewService("shop", "web"), fleet.NewService("pay", "api")))
	webA := line(w.a, w.pod(w.a, "shop", "web-0", "web"), "ready+serving")
	webB := line(w.b, w.pod(w.b, "shop", "web-0", "web"), "ready+serving")
	apiA := line(w.a, w.pod(w.a, "pay", "api-0", "api"), "ready+serving")
	apiB := line(w.b, w.pod(w.b, "pay", "api-0", "api"), "ready+serving")

	w.start()
	w.shows("shop", "web", webA, webB)
	w.shows("pay", "api", off(apiA), apiB)
	w.copied("shop", "web", "example.com/team")
	w.edit(map[string]string{"": strings.Replace(asBefore, "example.com", "example.org", 1)})
	w.copied("shop", "web", "example.org/team")
	w.edit(map[string]string{"": asBefore})
	w.copied("shop", "web", "example.com/team")

	w.stepFailover(apiA, apiB)
	w.stepDrain(webA, webB, apiA, apiB)
	w.stepConflict(webA, webB)
	w.stepOrphans(webA, webB, apiA, apiB)
	w.stepNewName()
	w.stepIngressAsMember(webA)
	w.must(w.proc.Stop(ctx))
}

// copied waits until of the source's own annotations the replica has just this one.
func (w *sharedWorld) copied(namespace, name, want string) {
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
			return fmt.Errorf("%s/%s has %q, want %s", namespace, name, got, want)
		}
		return nil
	})
}

// stepFailover takes the first choice's only pod out of service and back, and edits the order.
func (w *sharedWorld) stepFailover(apiA, apiB string) {
	w.Helper()
	ctx := w.Context()
	w.must(w.b.MarkNotReady(ctx, "pay", "api-0"))
	w.shows("pay", "api", apiA, off(apiB))
	w.must(w.b.MarkReady(ctx, "pay", "api-0"))
	w.shows("pay", "api", off(apiA), apiB)
	w.edit(map[string]string{"": strings.Replace(asBefore, "[idc-b, idc-a]", "[idc-a]", 1)})
	w.shows("pay", "api", apiA, off(apiB))
	w.edit(map[string]string{"": asBefore})
	w.shows("pay", "api", off(apiA), apiB)
}

// stepDrain drains each member in turn, and both.
func (w *sharedWorld) stepDrain(webA, webB, apiA, apiB string) {
	w.Helper()
	const drain = "drain: true"
	w.edit(map[string]string{"": asBefore, "idc-b": drain})
	w.shows("pay", "api", apiA, off(apiB))
	w.shows("shop", "web", webA, off(webB))
	w.reports("idc-b", "Drained")
	w.edit(map[string]string{"": asBefore, "idc-a": drain, "idc-b": drain}) // nobody else serves
	w.shows("pay", "api", off(apiA), apiB)
	w.shows("shop", "web", webA, webB)
	w.edit(map[string]string{"": asBefore, "idc-a": drain})
	w.shows("pay", "api", off(apiA), apiB)
	w.shows("shop", "web", off(webA), webB)
	w.edit(map[string]string{"": asBefore})
	w.shows("shop", "web", webA, webB)
	w.shows("pay", "api", off(apiA), apiB)
}

// statusSays waits until `tributary status` shows a text.
func (w *sharedWorld) statusSays(want string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		if code, out := w.command("status", "--server", w.proc.URL); code != 0 || !strings.Contains(out, want) {
			return fmt.Errorf("status: exit %d, want %q in\n%s", code, want, out)
		}
		return nil
	})
}

// stepConflict lets idc-b's port differ for a while: what does not fit is left out and
// reported.
func (w *sharedWorld) stepConflict(webA, webB string) {
	w.Helper()
	ctx := w.Context()
	port := func(number int32) {
		w.Helper()
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/ports/0/port","value":%d}]`, number)
		_, err := w.b.Client.CoreV1().Services("shop").Patch(ctx, "web", types.JSONPatchType, patch, metav1.PatchOptions{})
		w.must(err)
	}
	port(81)
	w.shows("shop", "web", webA)
	w.events("web", "Warning TributaryConflict")
	w.statusSays("idc-b")
	port(80)
	w.shows("shop", "web", webA, webB)
	w.events("web", "Normal TributaryConflictCleared", "Warning TributaryConflict")
	metrics, err := w.proc.Get(ctx, "/metrics")
	w.must(err)
	if strings.Contains(string(metrics), `tributary_conflicts{reason="port"} 1`) {
		w.Error("the metrics still show the conflict")
	}
}

// events waits until a replica has exactly these Events, once each.
func (w *sharedWorld) events(name string, want ...string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		list, err := w.fleet.Ingress.Client.CoreV1().Events("shop").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			got = append(got, e.Type+" "+e.Reason)
			if e.InvolvedObject.UID == "" || e.Source.Component != "tributary" {
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

// stepOrphans takes idc-b out of the file: what it left is in reserve, serves what nobody
// else does, and goes when it is said so.
func (w *sharedWorld) stepOrphans(webA, webB, apiA, apiB string) {
	w.Helper()
	w.of(w.a)
	alone := strings.Replace(asBefore, "idc-b, ", "", 1)
	w.edit(map[string]string{"": alone})
	w.follows(w.a)
	w.shows("shop", "web", webA, off(webB))
	w.shows("pay", "api", apiA, off(apiB))
	w.statusSays("idc-b")
	w.edit(map[string]string{"": alone, "idc-a": "drain: true"})
	w.shows("shop", "web", webA, webB)
	w.edit(map[string]string{"": alone + ", orphans: delete"})
	w.shows("shop", "web", webA)
	w.shows("pay", "api", apiA)
}

// stepNewName gives idc-c another name and back, in the save that has orphans deleted:
// what only it serves is served all the time.
func (w *sharedWorld) stepNewName() {
	w.Helper()
	ctx := w.Context()
	w.of(w.a, w.c)
	w.edit(nil)
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
	for _, name := range []string{"idc-x", "idc-c"} {
		w.plain = strings.Replace(plain, "name: idc-c\n", "name: "+name+"\n", 1)
		w.edit(map[string]string{"": "orphans: delete"})
		w.shows("shop", "alone", strings.Replace(alone, "idc-c", name, 1))
	}
	_, err = endpoints.Patch(ctx, "alone", types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.net/end":""}}}`), metav1.PatchOptions{})
	w.must(err)
	for event := range stream.ResultChan() {
		ep, ok := event.Object.(*corev1.Endpoints)
		if !ok || event.Type == watch.Deleted || len(ep.Subsets) != 1 || len(ep.Subsets[0].Addresses) != 1 {
			w.Fatalf("without its endpoint meanwhile: %s %+v", event.Type, event.Object)
		}
		if _, end := ep.Annotations["example.net/end"]; end {
			break
		}
	}
	stream.Stop()
	w.of(w.a)
	w.edit(map[string]string{"": "orphans: delete"})
	w.gone("shop", "alone")
}

// stepIngressAsMember lists the ingress cluster as a member of itself: its replicas are no
// sources, and neither that nor a restart writes anything.
func (w *sharedWorld) stepIngressAsMember(webA string) {
	w.Helper()
	ctx := w.Context()
	w.must(w.fleet.Ingress.Grant(ctx, fleet.ProductUser, append(fleet.IngressRules(), fleet.MemberRules()...)...))
	w.of(w.a, w.fleet.Ingress)
	before := w.writes()
	w.edit(nil)
	w.follows(w.a, w.fleet.Ingress)
	w.synced(w.fleet.Ingress.Name())
	w.shows("shop", "web", webA)

	w.proc.Kill()
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.synced(w.fleet.Ingress.Name())
	w.shows("shop", "web", webA)
	if after := w.writes(); after != before {
		w.Errorf("%d writes, want 0", after-before)
	}
}

// synced waits until a member has been read whole.
func (w *sharedWorld) synced(name string) {
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
