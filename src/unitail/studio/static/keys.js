// Keyboard shortcuts, and the mouse in the grid.

import { confirm, label, redo, selection, undo } from "./actions.js";
import { chooseClass, chooseView } from "./choose.js";
import * as detail from "./detail.js";
import { showKeys } from "./dialogs.js";
import { $, toast } from "./dom.js";
import { focusOn, move, rowsOnScreen } from "./grid.js";
import { leaveSearch } from "./search.js";
import { isSideOpen, setSide } from "./sidebar.js";
import { toggle } from "./sound.js";
import { changed, state } from "./state.js";
import { chosen, show, view } from "./views.js";

const ARROWS = {
  ArrowLeft: [-1, false], ArrowRight: [1, false], ArrowUp: [-1, true], ArrowDown: [1, true],
};

function labelBy(key) {
  const cls = state.classes.find((each) => each.key === key);
  if (!cls && key !== "0") return false;
  label(cls ? cls.id : state.limits.aside);
  return true;
}

/** Keys that work wherever the focus is, except in text fields. */
const ANYWHERE = {
  u: undo,
  n: () => (setSide(true), $("new-class").focus()),
  l: chooseClass,
  v: chooseView,
  p: () => state.modality === "audio" && view.order.length && toggle(view.order[chosen.focus]),
  s: () => show(view.name, view),
  "/": () => $("search").focus(),
  "?": showKeys,
};

/** Keys that work in the grid and in the detail view. */
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
  const action = IN_GRID[event.key];
  if (action) action();
  return Boolean(action);
}

const LABELLING = /^([0-9l]|Enter|Backspace|Delete)$/i;

const isInGrid = () => $("grid").contains(document.activeElement);

/** Whether the item that a key would label is visibly marked: selected, or focused. */
const standsOut = () => chosen.places.size > 0 || isInGrid() || detail.isOpen();

/** Show which item a key would label. */
function showRing() {
  $("grid").focus();
  toast("This item is selected: press again to label it");
  return true;
}

function withControl(event) {
  const key = event.key.toLowerCase();
  if (key === "z") (event.shiftKey ? redo : undo)();
  else if (key === "y") redo();
  else if (key === "a" && isInGrid()) chosen.places = new Set(view.order);
  else return false;
  return true;
}

function onKey(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (isTyping || $("dialog").open) {
    if (event.key === "Escape" && !$("dialog").open) {
      if (event.target === $("search")) leaveSearch();
      setSide(false);
      $("grid").focus();
      event.preventDefault();
    }
    return;
  }
  if (event.key === "Escape" && isSideOpen()) return setSide(false);
  if (detail.isOpen() && event.key === "Escape") return; // the browser closes it
  const control = event.ctrlKey || event.metaKey;
  const grid = isInGrid() || document.activeElement === document.body;
  const isDigit = /^[0-9]$/.test(event.key);
  const isPressing = event.target.matches("button, a, summary, [role=button]") && ["Enter", " "].includes(event.key);
  let done = false;
  if (control) done = withControl(event);
  else if (isPressing) return; // the browser does it
  else if (LABELLING.test(event.key) && view.order.length && !standsOut()) done = showRing();
  else if (detail.isOpen() || grid) done = inGrid(event);
  else if (isDigit) done = labelBy(event.key);
  if (done && isInGrid()) $("grid").focus({ preventScroll: true }); // no longer a button of a card
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
    if (rank < 0) chosen.places.clear();
    else if (event.target.closest(".tick")) focusOn(rank, { add: true, stay: true });
    else focusOn(rank, { extend: event.shiftKey, add: event.ctrlKey || event.metaKey, stay: true });
    grid.focus({ preventScroll: true });
    changed();
  });
  grid.addEventListener("focusin", (event) => {
    if (!event.target.matches(".play") || isPointing) return; // a click does its own
    focusOn(rankOf(event)); // keys are for the item whose button has the focus
    changed();
  });
  let isPointing = false;
  document.addEventListener("pointerdown", (event) => {
    isPointing = true;
    document.body.classList.toggle("touch", event.pointerType === "touch");
  }, true);
  for (const over of ["pointerup", "pointercancel"]) document.addEventListener(over, () => (isPointing = false), true);
  grid.addEventListener("dblclick", (event) => {
    if (rankOf(event) < 0 || event.target.closest(".play")) return;
    detail.open();
    changed();
  });
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
