// The guide for new users: name classes, label items, review the answers.

import { addClass, useFolders } from "./actions.js";
import { $, h, icon } from "./dom.js";
import { go, setSide } from "./sidebar.js";
import { counts, state } from "./state.js";

const KNOWN = "unitail-guided"; // in the browser's storage: the user has closed the last step
let closed = null; // the step that the user has closed on this page
const KEYS = 9; // classes that have a key

/** Show the next step. The last one stays until it is closed, so that nothing moves by itself. */
export function guide() {
  const box = $("guide");
  const step = stepOf(box.step);
  box.hidden = step === 0 || step === closed;
  const many = step === 2 && state.classes.length > KEYS;
  if (box.step === step && box.many === many) return; // the user may be typing in it
  Object.assign(box, { step, many });
  const input = box.querySelector("input");
  const isWriting = input !== null && input === document.activeElement;
  if (isWriting) moveInput(input);
  const parts = [null, firstStep, secondStep, lastStep][step];
  const closing = h("button", { class: "icon", "aria-label": "Close this hint", onclick: () => close(step) }, icon("close"));
  if (parts) box.replaceChildren(h("span", { class: "number" }, String(step)), parts(many), closing);
}

/** 1: name classes; 2: label; 3: review, after the steps before; 0: no step, as when all is labelled. */
function stepOf(before) {
  if (state.classes.length < 2) return 1;
  if (counts().given.size < 2) return 2;
  return before && counts().open && !localStorage.getItem(KNOWN) ? 3 : 0;
}

/** Move the text and the focus to the input for classes in the sidebar. */
function moveInput(input) {
  const target = $("new-class");
  target.value = input.value;
  if (!target.offsetParent) setSide(true); // in a narrow window
  target.focus();
}

function firstStep() {
  const input = h("input", { placeholder: state.classes.length ? "Another class" : "For example: cat", maxLength: 100, "aria-label": "Class name", autocomplete: "off" });
  const form = h("form", {}, input, h("button", { class: "primary" }, "Add"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = input.value;
    input.value = ""; // at once: the user may already be typing the next name
    input.placeholder = "Another class";
    if (name.trim() && !(await addClass(name)) && !input.value) input.value = name;
  });
  const folders = Object.keys(state.folders);
  const offer = folders.length && !state.classes.length
    ? h("p", {}, "Or ", h("button", { class: "link", onclick: useFolders }, `use the ${folders.length} subfolders as classes`), ` (${folders.slice(0, 4).join(", ")}${folders.length > 4 ? ", …" : ""}), and label the files in them.`)
    : null;
  return h("div", {}, h("h3", {}, "Name two classes or more"), h("p", {}, "What should the items be sorted into?"), form, offer);
}

const key = (name) => h("kbd", {}, name);

const secondStep = (many) =>
  h("div", {}, h("h3", {}, "Label a few items of each class"),
    h("p", {}, "Click an item and press ", key("1"), " or ", key("2"), many ? [", or ", key("L"), " and the first letters of any class"] : null, ", or drag it onto a class. As soon as two classes have an example, everything else is sorted."));

const lastStep = () =>
  h("div", {}, h("h3", {}, "Review the answers"),
    h("p", {}, key("Enter"), " confirms an answer, a number corrects it, ", key("Space"), " shows why. Labels help most under ", link("next", "Label next"), "; ", link("doubtful", "Most doubtful"), " lists the least certain answers. When the results are good enough, ", h("b", {}, "Export"), "."));

const link = (view, words) => h("button", { class: "link", onclick: () => go(view) }, words);

function close(step) {
  closed = step;
  if (step === 3) localStorage.setItem(KNOWN, "yes");
  $("grid").focus({ preventScroll: true });
  guide();
}
