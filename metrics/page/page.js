// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Keeps the page current. There is one renderer, the server: a record on the stream of changes, or two seconds without one,
// makes this fetch the page again and put in place the sections that differ.
"use strict";
(() => {
  const quiet = 2000, throttle = 250, patience = 10000;
  const link = document.getElementById("link"), pause = document.getElementById("pause");
  let timer = 0, last = 0, busy = false, again = false, paused = false, stream = null;

  const running = () => !paused && !document.hidden;

  function tell(state, text) {
    link.className = state;
    if (link.textContent !== text) link.textContent = text;
  }

  function soon(delay) {
    clearTimeout(timer);
    timer = setTimeout(refresh, delay);
  }

  async function refresh() {
    if (!running()) return;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    last = performance.now();
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(patience) });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!next.getElementById("changes")) throw new Error("not our page");
      if (paused) return;
      document.title = next.title;
      if (place(next)) tell("ok", "Live");
      else tell("", "Held while you select");
    } catch {
      if (!link.classList.contains("bad")) {
        tell("bad", "No answer since " + new Date().toISOString().slice(11, 19) + " UTC");
      }
    } finally {
      busy = false;
      soon(again ? throttle : quiet);
    }
    if (!stream && running()) follow();
  }

  // place replaces every section that differs; one may appear or go ("troubles"). One in which somebody has the focus or
  // selects text stays as it is, and the answer is false.
  function place(next) {
    const selection = getSelection();
    let all = true;
    for (const have of document.querySelectorAll("[data-live]")) {
      const want = next.getElementById(have.id), focus = document.activeElement;
      if (!want) have.remove();
      else if (have.isEqualNode(want)) continue;
      else if (have !== focus && have.contains(focus) || selection.type === "Range" && selection.containsNode(have, true)) all = false;
      else have.replaceWith(document.importNode(want, true));
    }
    for (const want of next.querySelectorAll("section[data-live]")) {
      if (!document.getElementById(want.id)) document.getElementById("changes").before(document.importNode(want, true));
    }
    return all;
  }

  // follow listens for changes; what they say is left to the page.
  function follow() {
    const mine = stream = new EventSource("debug/changes?follow=true");
    mine.onmessage = () => soon(Math.max(0, last + throttle - performance.now()));
    mine.onerror = () => { // the next refresh that succeeds begins anew
      mine.close();
      if (stream === mine) stream = null;
    };
  }

  function wake() {
    if (running()) {
      soon(0);
      return;
    }
    clearTimeout(timer);
    stream?.close();
    stream = null;
    if (paused) tell("", "Paused at " + new Date().toISOString().slice(11, 19) + " UTC");
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    wake();
  });
  document.addEventListener("visibilitychange", wake);
  wake();
})();
