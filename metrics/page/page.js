// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Keeps the page current. There is one renderer, the server: a record on the stream of changes, or two seconds without one,
// makes this fetch the page again and put in place the sections that differ.
"use strict";
(() => {
  const quiet = 2000, throttle = 250, patience = 10000;
  const link = document.getElementById("link"), pause = document.getElementById("pause");
  let paused = false, stream = null, news = false, wake = () => {};

  const running = () => !paused && !document.hidden;
  const now = () => new Date().toISOString().slice(11, 19) + " UTC";

  function tell(state, text) {
    link.className = state;
    if (link.textContent !== text) link.textContent = text;
  }

  // happened ends the wait of live; what happens before it waits counts as well.
  function happened() {
    news = true;
    wake();
  }

  async function live() {
    for (;;) {
      news = false;
      if (running()) {
        await refresh();
        stream ??= follow();
        await new Promise(over => setTimeout(over, throttle));
      } else {
        stream?.close();
        stream = null;
        if (paused) tell("", "Paused at " + now());
      }
      if (!news) await new Promise(over => {
        wake = over;
        if (running()) setTimeout(over, quiet);
      });
    }
  }

  async function refresh() {
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(patience) });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!next.getElementById("changes")) throw new Error("not our page");
      if (paused) return;
      document.title = next.title;
      if (place(next)) tell("ok", "Live");
      else tell("", "Held while you select");
    } catch {
      if (!link.classList.contains("bad")) tell("bad", "No answer since " + now());
    }
  }

  // place replaces every section that differs; one may appear or go ("troubles"). One in which somebody has the focus or
  // selects text stays as it is, and the answer is false.
  function place(next) {
    const selection = getSelection();
    let all = true;
    for (const have of document.querySelectorAll("[data-live]")) {
      const want = next.getElementById(have.id);
      if (!want) have.remove();
      else if (have.isEqualNode(want)) continue;
      else if (have.contains(document.activeElement) || selection.type === "Range" && selection.containsNode(have, true)) all = false;
      else have.replaceWith(document.importNode(want, true));
    }
    for (const want of next.querySelectorAll("section[data-live]")) {
      if (!document.getElementById(want.id)) document.getElementById("changes").before(document.importNode(want, true));
    }
    return all;
  }

  // follow listens for changes; what they say is left to the page.
  function follow() {
    const changes = new EventSource("debug/changes?follow=true");
    changes.onmessage = happened;
    changes.onerror = () => { // the next refresh begins anew
      changes.close();
      stream = null;
    };
    return changes;
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    happened();
  });
  document.addEventListener("visibilitychange", happened);
  live();
})();
