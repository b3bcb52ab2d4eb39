// Keeps the live part of a page up to date. Every page works without it.
"use strict";

const live = document.getElementById("live");
if (live && window.EventSource) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet updates";
  document.querySelector(".heading").append(button);
  let source = null;

  const show = (html) => {
    const focused = document.activeElement;
    const held = live.contains(focused) ? focused.id : "";
    // Somebody who marks text, or reads with the focus inside a table, is not disturbed.
    if (!document.getSelection().isCollapsed || (live.contains(focused) && !held)) return;
    const places = [...live.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    live.innerHTML = html;
    live.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = places[index] || 0; });
    if (held) document.getElementById(held)?.focus({ preventScroll: true });
  };
  const name = () => {
    button.textContent = source ? "Pause updates" : "Resume updates";
    button.setAttribute("aria-pressed", source ? "false" : "true");
  };
  const stop = () => { source?.close(); source = null; name(); };
  const start = () => {
    source = new EventSource(live.dataset.live);
    source.addEventListener("update", (event) => show(event.data));
    name();
  };
  button.addEventListener("click", () => (source ? stop() : start()));
  window.addEventListener("pagehide", () => source?.close());
  start();
}
