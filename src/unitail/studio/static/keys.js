// The keyboard, and the mouse in the grid.

import { confirm, label, redo, selection, undo } from "./actions.js";
import { chooseClass } from "./choose.js";
import * as detail from "./detail.js";
import { showKeys } from "./dialogs.js";
import { $ } from "./dom.js";
import { chosen, focusOn, move, rowsOnScreen } from "./grid.js";
import { isSideOpen, setSide } from "./sidebar.js";
import { changed, state } from "./state.js";
import { show, view } from "./views.js";

const ARROWS = {
  ArrowLeft: [-1, false], ArrowRight: [1, false], ArrowUp: [-1, true], ArrowDown: [1, true],
};

function labelBy(key) {
  const own = state.classes.find((each) => each.key === key);
  if (!own && key !== "0") return false;
  label(own ? own.id : state.limits.aside);
  return true;
}

/** What keys do wherever the focus is, unless somebody writes. */
const ANYWHERE = {
  u: undo,
  n: () => (setSide(true), $("new-class").focus()),
  l: chooseClass,
  s: () => show(view.name, view),
  "/": () => $("search").focus(),
  "?": showKeys,
};

/** What keys do in the grid, and while one item is shown at large. */
const IN_GRID = {
  Enter: confirm,
  Backspace: () => label(null),
  Delete: () => label(null),
  " ": () => (detail.isOpen() ? detail.close() : detail.open()),
  Home: () => focusOn(0),
  End: () => focusOn(view.order.length - 1),
  PageDown: () => move(rowsOnScreen(), { rows: true }),
  PageUp: () => move(-rowsOnScreen(), { rows: true }),
  Escape: () => chosen.places.clear(),
};

function inGrid(event) {
  const arrow = ARROWS[event.key];
  if (arrow) return move(arrow[0], { rows: arrow[1], extend: event.shiftKey }), true;
  if (/^[0-9]$/.test(event.key)) return labelBy(event.key);
  const own = IN_GRID[event.key];
  if (own) own();
  return Boolean(own);
}

function withControl(event) {
  const key = event.key.toLowerCase();
  if (key === "z") (event.shiftKey ? redo : undo)();
  else if (key === "y") redo();
  else if (key === "a" && document.activeElement === $("grid")) chosen.places = new Set(view.order);
  else return false;
  return true;
}

function onKey(event) {
  const writes = event.target.matches("input, select, textarea");
  if (writes || $("dialog").open) {
    if (event.key === "Escape" && !$("dialog").open) {
      setSide(false);
      $("grid").focus();
    }
    return;
  }
  if (event.key === "Escape" && isSideOpen()) return setSide(false);
  if (detail.isOpen() && event.key === "Escape") return; // the browser closes it
  const control = event.ctrlKey || event.metaKey;
  const grid = document.activeElement === $("grid") || document.activeElement === document.body;
  let done = false;
  if (control) done = withControl(event);
  else if (detail.isOpen()) {
    const pressed = event.target.matches("button") && ["Enter", " "].includes(event.key);
    done = !pressed && inGrid(event);
  } else if (grid) done = inGrid(event);
  else if (/^[0-9]$/.test(event.key)) done = labelBy(event.key);
  if (!done && !control && ANYWHERE[event.key.toLowerCase()]) {
    ANYWHERE[event.key.toLowerCase()]();
    done = true;
  }
  if (done) {
    event.preventDefault();
    changed();
  }
}

const rankOf = (event) => {
  const card = event.target.closest?.(".card");
  return card ? view.order.indexOf(Number(card.dataset.place)) : -1;
};

export function wireKeys() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("deselect", () => (chosen.places.clear(), changed()));
  const grid = $("grid");
  grid.addEventListener("click", (event) => {
    const rank = rankOf(event);
    if (event.target.closest("audio")) return;
    if (rank < 0) chosen.places.clear();
    else if (event.target.closest(".tick")) focusOn(rank, { add: true, stay: true });
    else focusOn(rank, { extend: event.shiftKey, add: event.ctrlKey || event.metaKey, stay: true });
    grid.focus({ preventScroll: true });
    changed();
  });
  grid.addEventListener("dblclick", (event) => rankOf(event) >= 0 && (detail.open(), changed()));
  grid.addEventListener("dragstart", (event) => {
    const rank = rankOf(event);
    if (rank >= 0 && !chosen.places.has(view.order[rank])) focusOn(rank);
    event.dataTransfer.setData("text/x-places", JSON.stringify(selection()));
    event.dataTransfer.effectAllowed = "copy";
    document.body.classList.add("dragging");
    setSide(true);
    changed();
  });
  grid.addEventListener("dragend", () => {
    document.body.classList.remove("dragging");
    setSide(false);
    changed();
  });
}
