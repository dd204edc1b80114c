// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chromium

package page

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestRunningFleet watches a pod of a real cluster start, terminate and go, on the page of a real instance.
func TestRunningFleet(t *testing.T) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f := fleettest.Start(t, fleet.Options{Members: []string{"idc-a", "idc-b"}})
	port, err := cluster.FreePort()
	must(err)
	listen, config := fmt.Sprintf("127.0.0.1:%d", port), filepath.Join(f.Dir, "tributary.yaml")
	must(f.WriteConfig(config, listen, f.Members...))
	for _, member := range f.Members {
		must(member.CreateNamespaces(ctx, "shop"))
		must(member.Create(ctx, fleet.NewService("shop", "web")))
		must(member.RunPods(ctx, fleet.NewPod("shop", "web-0", "web")))
	}
	proc := fleettest.RunTributary(t, fleet.TributaryOptions{Config: config})
	must(proc.WaitReady(ctx))

	url := "http://" + listen
	b := browser(t)
	tab := open(ctx, t, b, url, phone)
	until(ctx, t, tab, `document.querySelectorAll("#clusters .badge.ok").length === 2`)
	a, pod := f.Member("idc-a"), fleet.NewPod("shop", "web-1", "web")
	row := func(ip, text string) {
		t.Helper()
		until(ctx, t, tab, fmt.Sprintf(`[...document.querySelectorAll("#changes tbody tr")].some(r => r.textContent.includes(%q) && r.textContent.includes(%q))`, ip, text))
	}
	must(a.RunPods(ctx, pod))
	row(pod.Status.PodIP, "added")
	must(a.Terminate(ctx, "shop", "web-1"))
	row(pod.Status.PodIP, "not ready")
	must(a.Remove(ctx, "shop", "web-1"))
	row(pod.Status.PodIP, "removed")
	until(ctx, t, tab, `document.querySelectorAll("#latency figure svg").length === 1`)

	picture(ctx, t, tab, "running")
	clean(t, tab, url)

	trouble(ctx, t, f, tab, url)
	for name, look := range looks() {
		picture(ctx, t, open(ctx, t, b, url, look), "troubled-"+name)
	}
	must(proc.Stop(ctx))
}

// trouble makes a conflict and a member that falls silent, and waits until the page shows them.
func trouble(ctx context.Context, t *testing.T, f *fleet.Fleet, tab *Tab, url string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := f.Member("idc-a")
	must(f.Ingress.Create(ctx, fleet.NewService("shop", "claimed")))
	for _, app := range []string{"claimed", "cart", "search"} {
		must(a.Create(ctx, fleet.NewService("shop", app)))
		for i := range 6 {
			must(a.RunPods(ctx, fleet.NewPod("shop", fmt.Sprintf("%s-%d", app, i), app)))
		}
	}
	must(tab.Go(ctx, url+"/"))
	until(ctx, t, tab, `document.querySelector("#troubles tbody")?.textContent.includes("shop/claimed")`)
	f.Member("idc-b").APIServer().Kill()
	until(ctx, t, tab, `[...document.querySelectorAll("#clusters [data-l=State] .badge:first-child")].map(b => b.textContent).join() === "live,unreachable"`)
}
