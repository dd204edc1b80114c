// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Keeps the page current. There is one renderer, the server: a record on the
// stream of changes, or two seconds without one, makes this fetch the page
// again and put in place what differs, so that focus, selection and what is
// being typed stay.
"use strict";
(() => {
  const quiet = 2000, throttle = 250, patience = 10000;
  const link = document.getElementById("link"), pause = document.getElementById("pause");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
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
      if (!next.getElementById("stream")) throw new Error("not our page");
      if (paused) return;
      document.title = next.title;
      place(next);
      tell("ok", "Live");
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

  // place replaces every live part; one may appear or go ("rejected").
  function place(next) {
    for (const have of document.querySelectorAll("[data-live]")) {
      const want = next.getElementById(have.id);
      if (want) morph(have, want); else have.remove();
    }
    for (const want of next.querySelectorAll("section[data-live]")) {
      if (!document.getElementById(want.id)) document.getElementById("changes").before(document.importNode(want, true));
    }
  }

  // morph makes have look like want. Elements with an id are known by it.
  function morph(have, want) {
    if (have.isEqualNode(want)) return;
    if (have.nodeType !== Node.ELEMENT_NODE) {
      have.data = want.data;
      return;
    }
    for (const name of have.getAttributeNames()) if (!want.hasAttribute(name)) have.removeAttribute(name);
    for (const name of want.getAttributeNames()) {
      if (have.getAttribute(name) !== want.getAttribute(name)) have.setAttribute(name, want.getAttribute(name));
    }
    const known = new Map();
    for (const child of have.children) if (child.id) known.set(child.id, child);
    let at = have.firstChild;
    for (const child of want.childNodes) {
      const twin = child.id ? known.get(child.id) : at && !at.id && at.nodeName === child.nodeName ? at : null;
      if (!twin) {
        const fresh = document.importNode(child, true);
        have.insertBefore(fresh, at);
        if (child.nodeName === "TR" && child.id) flash(fresh);
        continue;
      }
      if (twin === at) at = at.nextSibling; else have.insertBefore(twin, at);
      morph(twin, child);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  function flash(row) {
    if (!calm.matches) row.animate([{ backgroundColor: "var(--flash)" }, { backgroundColor: "transparent" }], { duration: 2500, easing: "ease-in" });
  }

  // follow listens for changes; what they say is left to the page. A filter that cannot be understood is refused, as
  // the page says.
  function follow() {
    const query = new URLSearchParams([...new URLSearchParams(location.search)].filter(([, value]) => value.trim()));
    query.set("follow", "true");
    const mine = stream = new EventSource("debug/changes?" + query);
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
