// One-key shortcuts, for whoever has a keyboard: pages do all that they do without them.

const list = document.getElementById("keys");
const on = document.getElementById("keys-on");
const KEPT = "countersign.keys";

function kept() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null; // a browser that keeps nothing
  }
}

function keep() {
  try {
    localStorage.setItem(KEPT, on.checked ? "on" : "off");
  } catch {
    // it holds for this page
  }
}

function search() {
  const field = document.querySelector("[role=search] input:not([type=hidden])");
  if (!field) location.assign(list.dataset.search);
  field?.focus();
  field?.select();
}

const ACTS = {
  "/": search,
  "?": () => (list.open ? list.close() : list.showModal()),
  n: () => document.querySelector("a[rel=next]")?.click(),
  p: () => document.querySelector("a[rel=prev]")?.click(),
};

function typing(element) {
  return element.matches?.("input:not([type=checkbox]), select, textarea");
}

function pressed(event) {
  const act = ACTS[event.key];
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat;
  if (!act || !plain || !on.checked || typing(event.target)) return;
  if (list.open && event.key !== "?") return;
  event.preventDefault();
  act();
}

on.checked = kept() !== "off";
on.addEventListener("change", keep);
addEventListener("keydown", pressed);
for (const each of document.querySelectorAll("[data-keys]")) {
  each.hidden = false;
  each.addEventListener("click", () => list[each.dataset.keys]());
}
