// What to do next, for whoever is here for the first time: name classes, label, look.

import { addClass, useFolders } from "./actions.js";
import { $, h, icon } from "./dom.js";
import { go, setSide } from "./sidebar.js";
import { counts, state } from "./state.js";

const KNOWN = "unitail-guided"; // in the browser's memory: somebody has read all of this
const KEYS = 9; // classes that have a key

/** Say what to do next. The last step stays until it is closed: nothing moves under the hand. */
export function guide() {
  const box = $("guide");
  const step = stepOf(box.step);
  box.hidden = step === 0;
  const many = step === 2 && state.classes.length > KEYS;
  if (box.step === step && box.many === many) return; // somebody may be writing there
  Object.assign(box, { step, many });
  const input = box.querySelector("input");
  const isWriting = input !== null && input === document.activeElement;
  if (isWriting) passOn(input);
  const parts = [null, firstStep, secondStep, lastStep][step];
  if (parts) box.replaceChildren(h("span", { class: "number" }, String(step)), ...parts(many));
}

/** 1: name classes; 2: label; 3: look, for those who took the steps before; 0: all is known. */
function stepOf(before) {
  if (state.classes.length < 2) return 1;
  if (counts().given.size < 2) return 2;
  return before && !localStorage.getItem(KNOWN) ? 3 : 0;
}

/** Go on writing names of classes where they can always be written. */
function passOn(input) {
  const own = $("new-class");
  own.value = input.value;
  if (!own.offsetParent) setSide(true); // in a narrow window
  own.focus();
}

function firstStep() {
  const input = h("input", { placeholder: state.classes.length ? "And another one" : "For example: cat", maxLength: 100, "aria-label": "Name of a class", autocomplete: "off" });
  const form = h("form", {}, input, h("button", { class: "primary" }, "Add"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = input.value;
    input.value = ""; // at once: the next name may be on its way
    input.placeholder = "And another one";
    if (name.trim() && !(await addClass(name)) && !input.value) input.value = name;
  });
  const folders = Object.keys(state.folders);
  const offer = folders.length && !state.classes.length
    ? h("p", {}, "Or ", h("button", { class: "link", onclick: useFolders }, `use the ${folders.length} subfolders as classes`), ` (${folders.slice(0, 4).join(", ")}${folders.length > 4 ? ", …" : ""}), with the files in them as labels.`)
    : null;
  return [h("div", {}, h("h3", {}, "Name two classes or more"), h("p", {}, "What should the items be sorted into?"), form, offer)];
}

const key = (name) => h("kbd", {}, name);

const secondStep = (many) => [
  h("div", {}, h("h3", {}, "Label a few items of each class"),
    h("p", {}, "Click an item and press ", key("1"), " or ", key("2"), many ? [", or ", key("L"), " and the first letters of any class"] : null, ", or drag it onto a class. As soon as two classes have an example, everything else is sorted.")),
];

const lastStep = () => [
  h("div", {}, h("h3", {}, "Look at the answers, and correct"),
    h("p", {}, key("Enter"), " confirms one, a number corrects it, ", key("Space"), " shows why. Labels help most under ", link("next", "Label next"), "; ", link("doubtful", "Most doubtful"), " has what is least sure. When it is good enough, ", h("b", {}, "Export"), ".")),
  h("button", { class: "icon", "aria-label": "Close this hint", onclick: close }, icon("close")),
];

const link = (view, words) => h("button", { class: "link", onclick: (event) => go(view, {}, event) }, words);

function close() {
  localStorage.setItem(KNOWN, "yes");
  $("grid").focus({ preventScroll: true });
  guide();
}
