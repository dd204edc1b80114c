// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chromium

package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/metrics/record"
)

var (
	phone   = Look{Width: 390, Height: 844, Phone: true}
	desktop = Look{Width: 1280, Height: 800}
)

// looks returns all looks in which the page must be good.
func looks() map[string]Look {
	out := map[string]Look{}
	for name, look := range map[string]Look{"phone": phone, "desktop": desktop} {
		out[name+"-light"] = look
		look.Dark = true
		out[name+"-dark"] = look
	}
	return out
}

// browser starts a browser, which ends with the test.
func browser(t *testing.T) *Browser {
	t.Helper()
	executable, err := FindBrowser()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Start(executable, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// deadline bounds what a test waits for.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func serve(t *testing.T, f *Fleet) string {
	server := httptest.NewServer(page.Handler(f.Metrics, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func open(ctx context.Context, t *testing.T, b *Browser, url string, look Look) *Tab {
	t.Helper()
	tab, err := b.Open(ctx, url, look)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func eval[T any](ctx context.Context, t *testing.T, tab *Tab, script string) T {
	t.Helper()
	var out T
	if err := tab.Eval(ctx, script, &out); err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
	return out
}

// until waits for a condition in the page, which the page itself evaluates at every frame.
func until(ctx context.Context, t *testing.T, tab *Tab, condition string) {
	t.Helper()
	script := `new Promise((yes, no) => {
		const began = Date.now();
		(function look() {
			if (` + condition + `) yes();
			else if (Date.now() - began > 30000) no(new Error("did not come true"));
			else setTimeout(look, 20);
		})();
	})`
	if err := tab.Eval(ctx, script, nil); err != nil {
		t.Fatalf("%s: %v; the page says: %s", condition, err, eval[string](ctx, t, tab, `document.body.innerText.slice(0, 2000)`))
	}
}

// TestEveryLook checks what a picture cannot prove, and saves the pictures (go test -artifacts).
func TestEveryLook(t *testing.T) {
	b := browser(t)
	for name, look := range looks() {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			url := serve(t, NewFleet())
			tab := open(ctx, t, b, url, look)
			until(ctx, t, tab, `document.getElementById("link").textContent === "Live"`)
			if wide := eval[int](ctx, t, tab, `document.documentElement.scrollWidth`); wide > look.Width {
				t.Errorf("the page is %d wide in a window of %d", wide, look.Width)
			}
			for _, fault := range eval[[]string](ctx, t, tab, faintScript) {
				t.Errorf("hard to read: %s", fault)
			}
			for _, fault := range eval[[]string](ctx, t, tab, namelessScript) {
				t.Errorf("without a name: %s", fault)
			}
			if look.Phone {
				for _, fault := range eval[[]string](ctx, t, tab, `[...document.querySelectorAll("button, input")].filter(e => e.offsetHeight < 32).map(e => e.outerHTML)`) {
					t.Errorf("too small for a finger: %s", fault)
				}
			}
			picture(ctx, t, tab, name)
			clean(t, tab, url)
		})
	}
}

// faintScript lists visible text whose contrast is below 4.5:1 (WCAG AA), on the background that lies behind it.
const faintScript = `(() => {
	const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
	const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] === 1) return c;
		}
		return [255, 255, 255];
	};
	const faults = new Set();
	for (const e of document.body.querySelectorAll("*")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
		const style = getComputedStyle(e);
		const a = light(parse(e.namespaceURI.endsWith("svg") ? style.fill : style.color)), b = light(behind(e));
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) faults.add(e.nodeName + "." + e.getAttribute("class") + " " + contrast.toFixed(2) + " " + e.textContent.slice(0, 30));
	}
	return [...faults];
})()`

// namelessScript lists what a screen reader could not announce.
const namelessScript = `[
	...[...document.querySelectorAll("input")].filter(e => !e.labels.length),
	...[...document.querySelectorAll("a, button")].filter(e => !e.textContent.trim()),
	...[...document.querySelectorAll("section")].filter(e => !e.getAttribute("aria-label") && !document.getElementById(e.getAttribute("aria-labelledby"))),
	...[...document.querySelectorAll("svg")].filter(e => e.getAttribute("aria-hidden") !== "true" && !(e.getAttribute("role") === "img" && e.getAttribute("aria-label"))),
	...[...document.querySelectorAll("th")].filter(e => !e.scope),
	...(document.documentElement.lang && document.title ? [] : [document.documentElement]),
].map(e => e.outerHTML.slice(0, 80))`

func picture(ctx context.Context, t *testing.T, tab *Tab, name string) {
	t.Helper()
	png, err := tab.Screenshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// clean fails the test for complaints of the browser and for requests to other servers.
func clean(t *testing.T, tab *Tab, url string) {
	t.Helper()
	for _, complaint := range tab.Complaints() {
		t.Errorf("the browser complains: %s", complaint)
	}
	for _, request := range tab.Requests() {
		if !strings.HasPrefix(request, url+"/") {
			t.Errorf("the page asks for %s", request)
		}
	}
}

// TestWithoutScript: the tables are there for a browser that runs no script, and an address leads to its changes.
func TestWithoutScript(t *testing.T) {
	ctx := deadline(t)
	url := serve(t, NewFleet())
	look := desktop
	look.NoScript = true
	tab := open(ctx, t, browser(t), url, look)
	rows := func(section string) int {
		return eval[int](ctx, t, tab, fmt.Sprintf(`document.querySelectorAll("#%s tbody tr").length`, section))
	}
	for section, want := range map[string]int{"clusters": 5, "troubles": 3, "changes": 50} {
		if got := rows(section); got != want {
			t.Errorf("%s has %d rows; want %d", section, got, want)
		}
	}
	if eval[bool](ctx, t, tab, `!document.getElementById("pause").hidden`) {
		t.Error("a button is shown that does nothing without a script")
	}
	address := eval[string](ctx, t, tab, `document.querySelector(".fx a").search.replace("?ip=", "")`)
	if err := tab.Leave(ctx, `document.querySelector(".fx a").click()`); err != nil {
		t.Fatal(err)
	}
	if said := eval[string](ctx, t, tab, `document.body.innerText`); !strings.Contains(said, `"added"`) || !strings.Contains(address, "%3A") && !strings.Contains(said, address) {
		t.Errorf("a click on %s shows %.200s", address, said)
	}
}

// TestLive: changes appear at once, and do not disturb the reader.
func TestLive(t *testing.T) {
	ctx := deadline(t)
	f := NewFleet()
	url := serve(t, f)
	tab := open(ctx, t, browser(t), url, desktop)
	until(ctx, t, tab, `document.getElementById("link").textContent === "Live"`)
	if err := tab.Eval(ctx, `window.row = document.querySelector("#clusters tbody tr"); getSelection().selectAllChildren(row); null`, nil); err != nil {
		t.Fatal(err)
	}
	f.Change()
	until(ctx, t, tab, `document.querySelector("#changes tbody tr").id === "c421"`)
	f.Edit(func(s *metrics.Status) {
		s.Ready, s.NotReady = false, []string{"member idc-b: first sync"}
		s.Clusters[1].State, s.Clusters[1].Up = "unreachable", false
	})
	until(ctx, t, tab, `document.querySelector("#summary .verdict.bad").textContent.startsWith("Not ready: member idc-b")`)
	until(ctx, t, tab, `document.getElementById("link").textContent === "Held while you select"`)
	if !eval[bool](ctx, t, tab, `row.isConnected && getSelection().toString().length > 0`) {
		t.Error("the text that is selected was lost")
	}
	if err := tab.Eval(ctx, `getSelection().empty(); null`, nil); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, tab, `document.querySelectorAll("#clusters [data-l=State] .badge.bad:first-child").length === 3`)
	f.Metrics.Report("payments", "ledger", metrics.Trouble{})
	until(ctx, t, tab, `document.querySelectorAll("#troubles tbody tr").length === 1`)
	f.Metrics.Report("payments", "ledger", metrics.Trouble{Rejected: []metrics.Rejection{{Cluster: "idc-a", Address: "127.0.0.1", Reason: "loopback"}}})
	until(ctx, t, tab, `[...document.querySelectorAll("#troubles td.text")].some(c => c.textContent === "127.0.0.1 is left out")`)
	f.Metrics.Report("payments", "ledger", metrics.Trouble{})
	f.Metrics.Report("shop", "web", metrics.Trouble{})
	until(ctx, t, tab, `!document.getElementById("troubles")`)
	clean(t, tab, url)
}

// TestPause: a reader can stop the updates.
func TestPause(t *testing.T) {
	ctx := deadline(t)
	f := NewFleet()
	tab := open(ctx, t, browser(t), serve(t, f), desktop)
	until(ctx, t, tab, `document.getElementById("link").textContent === "Live"`)
	before := eval[string](ctx, t, tab, `pause.click(); document.querySelector("main").innerHTML`)
	asked := len(tab.Requests())
	f.Change()
	// Three times the period of a quiet page, in the page's own time.
	if after := eval[string](ctx, t, tab, `new Promise(yes => setTimeout(() => yes(document.querySelector("main").innerHTML), 6000))`); after != before {
		t.Error("the page changed although it is paused")
	}
	if more := len(tab.Requests()) - asked; more > 0 {
		t.Errorf("%d requests although it is paused", more)
	}
	if err := tab.Eval(ctx, `pause.click()`, nil); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, tab, `document.querySelector("#changes tbody tr").id === "c421"`)
}

// TestServerGone: the page says that it is stale when the server does not answer.
func TestServerGone(t *testing.T) {
	ctx := deadline(t)
	f := NewFleet()
	server := httptest.NewServer(page.Handler(f.Metrics, slog.New(slog.DiscardHandler)))
	defer server.Close()
	tab := open(ctx, t, browser(t), server.URL, phone)
	until(ctx, t, tab, `document.getElementById("link").textContent === "Live"`)
	server.CloseClientConnections()
	server.Listener.Close()
	until(ctx, t, tab, `document.getElementById("link").textContent.startsWith("No answer since")`)
	picture(ctx, t, tab, "no-answer")
	if rows := eval[int](ctx, t, tab, `document.querySelectorAll("#clusters tbody tr").length`); rows != 5 {
		t.Errorf("%d rows stay", rows)
	}
}

// TestHostileNames: names of objects, whatever they contain, are shown as text.
func TestHostileNames(t *testing.T) {
	ctx := deadline(t)
	f := NewFleet()
	evil := "</td></table><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>\"'\u202e{{.}}`${1}`" + strings.Repeat("W", 300)
	f.Edit(func(s *metrics.Status) {
		s.Clusters[0].Name, s.Clusters[0].State, s.Clusters[0].Version, s.Clusters[0].LastError = evil, evil, evil, evil
		s.Config.Error, s.Config.File, s.Ingress.State = evil, evil, evil
	})
	cause := record.Cause{Cluster: evil, Kind: "Pod", Namespace: evil, Name: "javascript:alert(1)", Event: evil, State: evil, IP: evil, Arrival: time.Now(), Live: true}
	rec := record.Begin(evil, "javascript:alert(1)", cause, 1, time.Now())
	rec.Removed, rec.Added = []string{"javascript:alert(1)", evil}, []string{evil}
	rec.End(time.Now(), record.Written, fmt.Errorf("%s", evil))
	f.Metrics.Change(rec)
	f.Metrics.Report(evil, evil, metrics.Trouble{
		Conflicts: []metrics.Conflict{{Cluster: evil, Reason: evil, Message: evil}},
		Rejected:  []metrics.Rejection{{Cluster: evil, Reason: evil, Address: evil}},
	})
	url := serve(t, f)
	b := browser(t)
	for name, look := range looks() {
		tab := open(ctx, t, b, url, look)
		until(ctx, t, tab, `document.getElementById("link").textContent === "Live"`)
		if eval[bool](ctx, t, tab, `"owned" in window || document.querySelectorAll("img, script:not([src])").length > 0`) {
			t.Errorf("%s: a name became markup", name)
		}
		if links := eval[[]string](ctx, t, tab, `[...document.links].map(a => a.href).filter(h => !h.startsWith(location.origin + "/"))`); len(links) > 0 {
			t.Errorf("%s: links lead to %q", name, links)
		}
		if wide := eval[int](ctx, t, tab, `document.documentElement.scrollWidth`); wide > look.Width {
			t.Errorf("%s: the page is %d wide in a window of %d", name, wide, look.Width)
		}
		clean(t, tab, url)
	}
}

// TestKeyboard: everything can be reached with the Tab key, in order, and the focus is visible.
func TestKeyboard(t *testing.T) {
	ctx := deadline(t)
	tab := open(ctx, t, browser(t), serve(t, NewFleet()), desktop)
	until(ctx, t, tab, `document.getElementById("link").textContent === "Live"`)
	var visited []string
	for range 3 {
		if err := tab.Key(ctx, "Tab", 9); err != nil {
			t.Fatal(err)
		}
		visited = append(visited, eval[string](ctx, t, tab, `document.activeElement.textContent.trim() || document.activeElement.id`))
		if ring := eval[string](ctx, t, tab, `getComputedStyle(document.activeElement).outlineStyle`); ring == "none" {
			t.Errorf("no focus ring at %s", visited[len(visited)-1])
		}
	}
	if got, want := strings.Join(visited, ", "), "Pause, All that are remembered, as JSON lines, "+eval[string](ctx, t, tab, `document.querySelector("#changes th a").textContent`); got != want {
		t.Errorf("Tab visits %s; want %s", got, want)
	}
}
