// The sidebar with views and classes; items can be dropped on a class.

import { addClass, confirm, label, labelAs } from "./actions.js";
import { classMenu } from "./dialogs.js";
import { $, fill, h, icon, say } from "./dom.js";
import { counts, isAnswered, labelOf, state } from "./state.js";
import { show, view, VIEWS } from "./views.js";

const inWords = (number) => (number ? number.toLocaleString("en") : "");
const rowOf = (key) => $("side").querySelector(`[data-key="${key}"]`);

/** Rows are made anew only when classes change; numbers are updated in place, so that no click is lost. */
export function drawSide() {
  const all = counts();
  fill($("views"), "views", () => Object.entries(VIEWS).map(([name, each]) =>
    h("li", {}, h("button", { class: "row", "data-key": `view-${name}`, onclick: () => go(name) }, icon(each.icon), h("span", {}, each.title), h("small", {})))));
  if (!document.body.classList.contains("dragging")) { // a replaced row could not receive the drop
    const focus = document.activeElement?.dataset?.key;
    fill($("classes"), state.classes, () => [...state.classes.map(classRow), asideRow()]);
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
  const aside = rowOf("aside");
  aside.parentElement.hidden = !all.aside; // shown during a drag, too: see style.css
  setCurrent(aside, view.name === "class" && view.classId === state.limits.aside);
  say(aside.lastChild, inWords(all.aside));
}

function setCurrent(row, isCurrent) {
  if (row.hasAttribute("aria-current") === isCurrent) return;
  if (isCurrent) row.setAttribute("aria-current", "page");
  else row.removeAttribute("aria-current");
}

function updateRow(each, given, answered) {
  const row = rowOf(`class-${each.id}`);
  if (!row) return; // missing during a drag
  setCurrent(row, view.name === "class" && view.classId === each.id);
  const [ours, , others, word] = row.querySelector("small").children;
  say(ours, given.toLocaleString("en"));
  say(others, answered ? ` + ${inWords(answered)}` : "");
  say(word, answered ? " answered" : "");
  const title = `${each.name}: ${given} labelled, ${answered} answered${each.key ? `, key ${each.key}` : ""}`;
  if (row.title !== title) row.title = title;
}

const asideRow = () => takesDrops(state.limits.aside, h("li", { class: "aside" },
  h("button", { class: "row", "data-key": "aside", onclick: () => go("class", { classId: state.limits.aside }) },
    h("i", { class: "dot" }), h("span", {}, "None of these"), h("small", {}))));

function classRow(each) {
  return takesDrops(each.id, h("li", { colour: each.colour },
    h("button", { class: "row", "data-key": `class-${each.id}`, onclick: () => go("class", { classId: each.id }) },
      h("i", { class: "dot" }), h("span", {}, each.name),
      h("small", {}, h("b", {}), unseen(" labelled"), h("span", {}), unseen("")),
      each.key ? h("kbd", {}, unseen("key "), each.key) : null),
    h("button", { class: "icon menu", "data-key": `menu-${each.id}`, "aria-label": `Rename, merge or delete ${each.name}`, onclick: () => classMenu(each) }, icon("more"))));
}

/** Label items that are dropped on a row. */
function takesDrops(id, row) {
  row.addEventListener("dragover", (event) => (event.preventDefault(), row.classList.add("drop")));
  row.addEventListener("dragleave", () => row.classList.remove("drop"));
  row.addEventListener("drop", (event) => {
    event.preventDefault();
    row.classList.remove("drop");
    const places = JSON.parse(event.dataTransfer.getData("text/x-places") || "[]");
    labelAs(places, id, { stay: true });
  });
  return row;
}

const unseen = (words) => h("span", { class: "unseen" }, words);

/** Show a view, and give its items the keys at once. */
export function go(name, more = {}) {
  find(name, more);
  $("grid").focus({ preventScroll: true });
}

/** Show a view while the user goes on typing in the search field. */
export function find(name, more = {}) {
  setSide(false);
  if (name !== "search") $("search").value = "";
  show(name, more);
}

/** Open or close the sidebar, which lies over the items in a narrow window. */
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
    $("new-class").value = ""; // at once: the user may already be typing the next name
    if (!(await addClass(name)) && !$("new-class").value) $("new-class").value = name;
  });
  $("open-side").addEventListener("click", () => setSide(!isSideOpen()));
  document.querySelector("main").addEventListener("click", () => setSide(false));
}

/** A button that labels the selected items. */
export const choice = (each, isPressed = null) =>
  h("button", { class: "choice", colour: each.colour, "aria-pressed": isPressed === null ? null : String(isPressed), onclick: () => label(each.id) },
    h("i", { class: "dot" }), h("span", { title: each.name }, each.name), each.key ? h("kbd", {}, each.key) : null);

export const noneOfThese = () =>
  h("button", { class: "choice", onclick: () => label(state.limits.aside) }, "None of these", state.classes.some((each) => each.key === "0") ? null : h("kbd", {}, "0"));

/** Draw the bar that labels the selected items; on touch screens, which have no keys, even for one item. */
export function drawBar(places) {
  const bar = $("bar");
  const isTouched = document.body.classList.contains("touch");
  bar.hidden = places.length < (isTouched ? 1 : 2);
  if (bar.hidden) return;
  const [isOpen, isGiven] = [places.some(isAnswered), places.some((place) => labelOf(place) !== null)];
  fill(bar, [places.length, state.classes, isOpen, isGiven], () => [
    h("span", { class: "count" }, `${places.length.toLocaleString("en")} selected`),
    isOpen ? h("button", { class: "primary", onclick: confirm }, icon("check"), "Confirm") : null,
    h("div", { class: "choices" },
      state.classes.map((each) => choice(each)),
      noneOfThese(),
      isGiven ? h("button", { class: "choice", onclick: () => label(null) }, places.length === 1 ? "Remove label" : "Remove labels") : null),
    h("button", { class: "icon", "aria-label": "Clear the selection", onclick: () => document.dispatchEvent(new CustomEvent("deselect")) }, icon("close")),
  ]);
}
