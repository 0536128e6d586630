// Views and classes at the side; items can be dropped on a class.

import { addClass, label, labelAs } from "./actions.js";
import { classMenu } from "./dialogs.js";
import { $, fill, h, icon, say } from "./dom.js";
import { counts, state } from "./state.js";
import { show, view, VIEWS } from "./views.js";

const inWords = (number) => (number ? number.toLocaleString("en") : "");
const rowOf = (key) => $("side").querySelector(`[data-key="${key}"]`);

/** Rows are made where classes are others; numbers change in them, so that none is replaced under a click. */
export function drawSide() {
  const all = counts();
  fill($("views"), "views", () => Object.entries(VIEWS).map(([name, each]) =>
    h("li", {}, h("button", { class: "row", "data-key": `view-${name}`, onclick: (event) => go(name, {}, event) }, icon(each.icon), h("span", {}, each.title), h("small", {})))));
  if (!document.body.classList.contains("dragging")) { // a row that is replaced takes no drop
    const focus = document.activeElement?.dataset?.key;
    fill($("classes"), [state.classes, all.aside > 0], () => [...state.classes.map(classRow), all.aside ? asideRow() : null]);
    if (focus && document.activeElement?.dataset?.key !== focus) rowOf(focus)?.focus();
  }
  const flagged = state.estimate?.suspicious.length ?? 0;
  const numbers = { doubtful: all.doubtful, novel: all.novel, flagged, labelled: all.labelled + all.aside, all: state.names.length };
  for (const name of Object.keys(VIEWS)) {
    const row = rowOf(`view-${name}`);
    setCurrent(row, view.name === name);
    say(row.lastChild, inWords(numbers[name]));
  }
  for (const each of state.classes) updateRow(each, all.given.get(each.id) ?? 0, all.answered.get(each.id) ?? 0);
  if ($("aside-count")) say($("aside-count"), inWords(all.aside)); // it, too, is made after a drag
}

function setCurrent(row, isCurrent) {
  if (row.hasAttribute("aria-current") === isCurrent) return;
  if (isCurrent) row.setAttribute("aria-current", "page");
  else row.removeAttribute("aria-current");
}

function updateRow(each, given, answered) {
  const row = rowOf(`class-${each.id}`);
  if (!row) return; // it is made after a drag
  setCurrent(row, view.name === "class" && view.classId === each.id);
  const [ours, , others, word] = row.querySelector("small").children;
  say(ours, given.toLocaleString("en"));
  say(others, answered ? ` + ${inWords(answered)}` : "");
  say(word, answered ? " answered" : "");
  const title = `${each.name}: ${given} labelled, ${answered} answered${each.key ? `, key ${each.key}` : ""}`;
  if (row.title !== title) row.title = title;
}

const asideRow = () =>
  h("li", { class: "aside" }, h("span", { class: "row still" }, h("i", { class: "dot" }), h("span", {}, "None of these"), h("small", { id: "aside-count" })));

function classRow(each) {
  const row = h("li", { colour: each.colour },
    h("button", { class: "row", "data-key": `class-${each.id}`, onclick: (event) => go("class", { classId: each.id }, event) },
      h("i", { class: "dot" }), h("span", {}, each.name),
      h("small", {}, h("b", {}), unseen(" labelled"), h("span", {}), unseen("")),
      each.key ? h("kbd", {}, unseen("key "), each.key) : null),
    h("button", { class: "icon menu", "data-key": `menu-${each.id}`, "aria-label": `Rename, merge or delete ${each.name}`, onclick: () => classMenu(each) }, icon("more")));
  row.addEventListener("dragover", (event) => (event.preventDefault(), row.classList.add("drop")));
  row.addEventListener("dragleave", () => row.classList.remove("drop"));
  row.addEventListener("drop", (event) => {
    event.preventDefault();
    row.classList.remove("drop");
    const places = JSON.parse(event.dataTransfer.getData("text/x-places") || "[]");
    labelAs(places, each.id, { stay: true });
  });
  return row;
}

const unseen = (words) => h("span", { class: "unseen" }, words);

/** Show a view; whoever clicks it has the keys for its items at once. */
export function go(name, more = {}, event = null) {
  setSide(false);
  if (name !== "search") $("search").value = "";
  show(name, more);
  if (event?.detail) $("grid").focus({ preventScroll: true }); // a key leaves the focus here
}

/** In a narrow window this side lies over the items. */
export function setSide(open) {
  document.body.classList.toggle("side-open", open);
  $("open-side").setAttribute("aria-expanded", String(open));
}

export const isSideOpen = () => document.body.classList.contains("side-open");

export function wireSide() {
  $("add-class").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = $("new-class").value;
    if (!name.trim()) return;
    $("new-class").value = ""; // at once: the next name may be on its way
    if (!(await addClass(name)) && !$("new-class").value) $("new-class").value = name;
  });
  $("open-side").addEventListener("click", () => setSide(!isSideOpen()));
  document.querySelector("main").addEventListener("click", () => setSide(false));
}

/** The bar that labels what is selected. */
export function drawBar(places) {
  const bar = $("bar");
  bar.hidden = places.length < 2;
  if (bar.hidden) return;
  fill(bar, [places.length, state.classes], () => [
    h("span", { class: "count" }, `${places.length.toLocaleString("en")} selected`),
    h("button", { class: "primary", onclick: () => import("./actions.js").then((own) => own.confirm()) }, icon("check"), "Confirm"),
    h("div", { class: "choices" },
      state.classes.map((each) => h("button", { class: "choice", colour: each.colour, onclick: () => label(each.id) }, h("i", { class: "dot" }), each.name, each.key ? h("kbd", {}, each.key) : null)),
      h("button", { class: "choice", onclick: () => label(state.limits.aside) }, "None of these"),
      h("button", { class: "choice", onclick: () => label(null) }, "Take labels back")),
    h("button", { class: "icon", "aria-label": "Select nothing", onclick: () => document.dispatchEvent(new CustomEvent("deselect")) }, icon("close")),
  ]);
}
