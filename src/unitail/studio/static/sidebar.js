// Views and classes at the side; items can be dropped on a class.

import { addClass, label, labelEach } from "./actions.js";
import { classMenu } from "./dialogs.js";
import { $, h, icon } from "./dom.js";
import { counts, state } from "./state.js";
import { show, view, VIEWS } from "./views.js";

let drawn = "";

export function drawSide() {
  if (document.body.classList.contains("dragging")) return; // a row that is replaced takes no drop
  const all = counts();
  const flagged = state.estimate?.suspicious.length ?? 0;
  const numbers = { doubtful: all.doubtful, novel: all.novel, flagged, labelled: all.labelled + all.aside, all: state.names.length };
  const look = JSON.stringify([numbers, [...all.given], [...all.answered], state.classes, view.name, view.classId, all.aside]);
  if (look === drawn) return;
  drawn = look;
  const focus = document.activeElement?.dataset?.key;
  $("views").replaceChildren(...Object.entries(VIEWS).map(([name, each]) =>
    h("li", {}, h("button", { class: "row", "data-key": `view-${name}`, "aria-current": view.name === name ? "page" : null, onclick: (event) => go(name, {}, event) },
      icon(each.icon), h("span", {}, each.title), h("small", {}, numbers[name] ? numbers[name].toLocaleString("en") : "")))));
  $("classes").replaceChildren(...state.classes.map((each) => classRow(each, all)));
  if (all.aside) $("classes").append(h("li", { class: "aside" }, h("span", { class: "row still" }, h("i", { class: "dot" }), h("span", {}, "None of these"), h("small", {}, all.aside.toLocaleString("en")))));
  if (focus) document.querySelector(`[data-key="${focus}"]`)?.focus();
}

function classRow(each, all) {
  const given = all.given.get(each.id) ?? 0;
  const answered = all.answered.get(each.id) ?? 0;
  const current = view.name === "class" && view.classId === each.id;
  const title = `${each.name}: ${given} labelled, ${answered} answered${each.key ? `, key ${each.key}` : ""}`;
  const row = h("li", { colour: each.colour },
    h("button", { class: "row", "data-key": `class-${each.id}`, "aria-current": current ? "page" : null, title, onclick: (event) => go("class", { classId: each.id }, event) },
      h("i", { class: "dot" }), h("span", {}, each.name),
      h("small", {}, h("b", {}, given.toLocaleString("en")), unseen(" labelled"), answered ? ` + ${answered.toLocaleString("en")}` : "", answered ? unseen(" answered") : ""),
      each.key ? h("kbd", {}, unseen("key "), each.key) : null),
    h("button", { class: "icon menu", "data-key": `menu-${each.id}`, "aria-label": `Rename, merge or delete ${each.name}`, onclick: () => classMenu(each) }, icon("more")));
  row.addEventListener("dragover", (event) => (event.preventDefault(), row.classList.add("drop")));
  row.addEventListener("dragleave", () => row.classList.remove("drop"));
  row.addEventListener("drop", (event) => {
    event.preventDefault();
    row.classList.remove("drop");
    const places = JSON.parse(event.dataTransfer.getData("text/x-places") || "[]");
    labelEach(new Map(places.map((place) => [place, each.id])));
  });
  return row;
}

const unseen = (words) => h("span", { class: "unseen" }, words);

/** Show a view; whoever clicks it has the keys for its items at once. */
export function go(name, more = {}, event = null) {
  document.body.classList.remove("side-open");
  $("open-side").setAttribute("aria-expanded", "false");
  if (name !== "search") $("search").value = "";
  show(name, more);
  if (event?.detail) $("grid").focus({ preventScroll: true }); // a key leaves the focus here
}

export function wireSide() {
  $("add-class").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = $("new-class").value;
    if (!name.trim()) return;
    $("new-class").value = ""; // at once: the next name may be on its way
    if (!(await addClass(name)) && !$("new-class").value) $("new-class").value = name;
  });
  $("open-side").addEventListener("click", () => {
    const open = document.body.classList.toggle("side-open");
    $("open-side").setAttribute("aria-expanded", String(open));
  });
}

/** The bar that labels what is selected. */
export function drawBar(places) {
  const bar = $("bar");
  bar.hidden = places.length < 2;
  if (bar.hidden) return;
  bar.replaceChildren(
    h("span", { class: "count" }, `${places.length.toLocaleString("en")} selected`),
    h("button", { class: "primary", onclick: () => import("./actions.js").then((own) => own.confirm()) }, icon("check"), "Confirm"),
    h("div", { class: "choices" },
      state.classes.map((each) => h("button", { class: "choice", colour: each.colour, onclick: () => label(each.id) }, h("i", { class: "dot" }), each.name, each.key ? h("kbd", {}, each.key) : null)),
      h("button", { class: "choice", onclick: () => label(state.limits.aside) }, "None of these"),
      h("button", { class: "choice", onclick: () => label(null) }, "Take labels back")),
    h("button", { class: "icon", "aria-label": "Select nothing", onclick: () => document.dispatchEvent(new CustomEvent("deselect")) }, icon("close")),
  );
}
