// Dialogs: conflicts, classes, export, shortcuts, accuracy, files.

import * as actions from "./actions.js";
import { getFile } from "./api.js";
import { thumbnail } from "./card.js";
import { $, counted, h, icon, percent, say, toast } from "./dom.js";
import { counts, failureOf, state } from "./state.js";

/** Show a dialog; resolves with the value of the button that closed it, or "". */
export function ask(title, ...content) {
  const dialog = $("dialog");
  dialog.replaceChildren(
    h("form", { method: "dialog" },
      h("header", {}, h("h2", {}, title), h("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
      ...content),
  );
  dialog.returnValue = "";
  dialog.setAttribute("aria-label", title);
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector("[autofocus]") ?? dialog.querySelector(".primary"))?.focus(); // Enter must not close it
  return new Promise((resolve) => (dialog.onclose = () => resolve(dialog.returnValue)));
}

const buttons = (...all) => h("div", { class: "actions" }, ...all);
const button = (value, words, kind = "soft") => h("button", { value, class: kind }, words);

export async function askConflict(conflicts, wishes) {
  const rows = conflicts.slice(0, 8).map(([place, id]) =>
    h("li", { class: "with-item" }, thumbnail(place), h("span", {}, h("b", {}, state.names[place]), ` – theirs: ${actions.nameOf(id)}, yours: ${actions.nameOf(wishes.get(place))}`)));
  const more = conflicts.length > 8 ? h("li", {}, `and ${conflicts.length - 8} more`) : null;
  const rest = wishes.size - conflicts.length;
  return ask(
    conflicts.length === 1 ? "This item changed" : "These items changed",
    h("p", {}, `${conflicts.length.toLocaleString("en")} of your ${counted(wishes.size, "item")} changed since you saw ${conflicts.length === 1 ? "it" : "them"}. Nothing was overwritten.`),
    h("ul", { class: "plain" }, rows, more),
    buttons(button("mine", "Use mine"), button(rest ? "rest" : "theirs", rest ? `Keep theirs, label the other ${rest}` : "Keep theirs", "primary")),
  );
}

export async function classMenu(own) {
  const known = actions.seenOf(own);
  const others = state.classes.filter((each) => each.id !== own.id);
  const name = h("input", { value: own.name, maxLength: 100, "aria-label": "Class name", autocomplete: "off", autofocus: true });
  const into = h("select", { "aria-label": "Merge into" }, others.map((each) => h("option", { value: String(each.id) }, each.name)));
  const given = counts().given.get(own.id) ?? 0;
  const asking = ask(
    own.name,
    h("label", { class: "field" }, "Name", name),
    buttons(button("rename", "Rename", "primary")),
    others.length ? h("label", { class: "field" }, "Merge into another class", into) : null,
    others.length ? buttons(button("merge", "Merge")) : null,
    h("p", { class: "muted" }, `${given ? `Deleting removes its ${counted(given, "label")}. ` : ""}You can undo all of this.`),
    buttons(button("delete", "Delete class", "danger")),
  );
  name.select(); // what is typed replaces the name
  const decision = await asking;
  if (decision === "rename" && name.value.trim() !== own.name) actions.renameClass(own.id, name.value, known);
  if (decision === "merge") actions.mergeClass(own.id, others.find((each) => String(each.id) === into.value), known);
  if (decision === "delete") actions.deleteClass(own.id, known);
}

const link = (kind, title, about) =>
  h("a", { class: "option", href: `/api/export/${kind}`, download: "", onclick: (event) => download(event, about) }, icon("export"), h("span", {}, h("b", {}, title), h("small", {}, about)));

/** Fetch a file and save it, showing on the option that this takes time, or why it failed. */
async function download(event, about) {
  event.preventDefault();
  const own = event.currentTarget;
  if (own.ariaBusy) return;
  const words = own.querySelector("small");
  own.ariaBusy = "true";
  say(words, "Answering and writing …");
  try {
    const { name, blob } = await getFile(own.href);
    const href = URL.createObjectURL(blob);
    h("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
    toast(`Downloaded ${name}`);
  } catch (error) {
    actions.failed(error);
  } finally {
    own.ariaBusy = null;
    say(words, about);
  }
}

export async function askExport() {
  const all = counts();
  if (all.given.size < 2) {
    await ask("Export", h("p", {}, "Label items of at least two classes first."), buttons(button("", "Close", "primary")));
    return;
  }
  const files = state.modality !== "table" && /\.\w+$/.test(state.names[0] ?? "");
  const { failures, missing_items: gone } = state.progress;
  const unread = Object.keys(failures).length + gone.length;
  const noun = gone.some(({ kind }) => kind !== "file") ? "item" : "file";
  const decision = await ask(
    "Export",
    h("p", { class: "muted" }, `${counted(all.labelled, "label")}, ${counted(all.likely, "likely answer")}, ${all.unsure.toLocaleString("en")} doubtful, ${all.novel.toLocaleString("en")} novel.`),
    unread ? h("p", { class: "bad" }, `${counted(unread, noun)} ${unread === 1 ? "is" : "are"} unreadable or missing: the table lists ${unread === 1 ? "it" : "them"} with the reason; class folders and the classifier leave ${unread === 1 ? "it" : "them"} out.`) : null,
    h("div", { class: "options" },
      link("csv", "Table", "CSV: each item with its answer, probability and prediction set"),
      link("json", "JSON", "The same for programs"),
      link("html", "Report", "One page to read and share"),
      link("classifier", "Classifier", "Zip file for unitail predict, serve and export")),
    files ? h("div", { class: "option wide" }, icon("all"),
      h("span", {}, h("b", {}, "Class folders"), h("small", {}, `Into ${state.sortedFolder}; doubtful and novel files apart; nothing is overwritten`)),
      button("copy", "Copy"), button("link", "Link")) : null,
  );
  if (decision) actions.sortFiles(decision);
}

const KEYS = [
  ["1 – 9", "Label as this class"], ["L", "Label by class name"], ["0", "None of these (or the class named 0)"], ["Enter", "Confirm the answer"],
  ["Backspace", "Remove the label"], ["← ↑ → ↓", "Move"], ["Shift + arrows, shift-click", "Select several"],
  ["Ctrl A", "Select all"], ["Space", "Details, and why"], ["Escape", "Clear the selection"], ["N", "New class"],
  ["V", "Go to a view or class by name"], ["P", "Play or pause a sound"],
  ["/", "Search"], ["S", "Sort again"], ["Ctrl Z, U", "Undo"], ["Ctrl Shift Z", "Redo"],
];

export const showKeys = () =>
  ask("Keyboard shortcuts", h("dl", { class: "keys" }, KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])));

const DIGIT = 5.5; // width of a digit in the curve

/** Draw the curve of the accuracy over the labels per class; `open`, if given, is that of the open items. */
function curve(points, open) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("viewBox", "0 0 320 130");
  made.setAttribute("class", "curve");
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", points.map(([x, y]) => `${x} labels per class: ${percent(y)}`).join(", "));
  const max = Math.log(Math.max(...points.map(([x]) => x), 2));
  const low = Math.min(...points.map(([, , y]) => y), open ?? 1);
  const at = ([x, y]) => [30 + (Math.log(Math.max(x, 1)) / max) * 270, 110 - ((y - low) / (1 - low || 1)) * 95];
  const draw = (kind, facts) => {
    const each = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(facts)) each.setAttribute(name, value);
    made.append(each);
    return each;
  };
  const upper = points.map(([x, , , high]) => at([x, high]).join(","));
  const lower = points.map(([x, , under]) => at([x, under]).join(",")).reverse();
  draw("polygon", { points: [...upper, ...lower].join(" "), class: "band" });
  draw("polyline", { points: points.map((each) => at(each).join(",")).join(" "), class: "line" });
  if (open !== null) {
    const [x, y] = at([1, open]);
    draw("line", { x1: x, x2: 308, y1: y, y2: y, class: "open" });
    draw("text", { x: x + 4, y: y < 24 ? y + 10 : y - 4, class: "side open" }).textContent = `Items without a label: ${percent(open)}`;
  }
  let free = Infinity; // left edge of the number to the right
  for (const point of points.toReversed()) {
    const [x, y] = at(point);
    const words = String(Number(point[0].toPrecision(2)));
    const half = (words.length * DIGIT) / 2;
    draw("circle", { cx: x, cy: y, r: 3 });
    if (x + half > free) continue;
    draw("text", { x, y: 126, class: "tick-text" }).textContent = words;
    free = x - half - DIGIT;
  }
  draw("text", { x: 2, y: 18, class: "side" }).textContent = "100";
  draw("text", { x: 2, y: 112, class: "side" }).textContent = Math.round(100 * low);
  return made;
}

const COMPARED = " The dashed line is the estimate above: it is about the items without a label. Labelled items are often harder than those, because doubtful ones are labelled first.";

export function showAccuracy() {
  const { sentence, now, curve: points } = state.estimate;
  const isOpen = counts().answered.size > 0; // else the estimate itself is of labelled items
  const open = isOpen ? now.mean : null;
  return ask(
    "Estimated accuracy",
    h("p", {}, `${sentence}${isOpen ? "" : ". Every item is labelled: this is about new items"}.`),
    ...(points.length > 1 ? [
      curve(points, open),
      h("p", { class: "muted" }, `The curve is about the items that you labelled: accuracy in % over labels per class, with 95 % intervals.${isOpen ? COMPARED : ""}`)] : []),
    h("p", { class: "muted" }, "Some of your labels are hidden and predicted, many times over. Answers that you confirmed many at once are left out, and accuracy is measured on items that you picked yourself where there are enough."),
    buttons(button("", "Close", "primary")),
  );
}

export const showNotes = () =>
  ask(
    "How the items were read",
    h("ul", { class: "plain" }, state.notes.map((note) => h("li", { dir: "auto" }, `${note}.`))),
    buttons(button("", "Close", "primary")),
  );

export function showFiles() {
  const { failures, changed, trouble, missing_items: gone, missing_sentence: sentence, source } = state.progress;
  const altered = changed.filter((place) => !failureOf(place));
  const named = (places) => h("ul", { class: "plain" }, places.slice(0, 50).map((place) => h("li", {}, state.names[place])));
  return ask(
    state.modality === "table" || gone.some(({ kind }) => kind !== "file") ? "Rows and files" : "Files",
    trouble ? h("p", { class: "bad" }, trouble) : null,
    source ? h("p", {}, source) : null,
    Object.keys(failures).length ? h("section", {}, h("h3", {}, "Unreadable"),
      h("ul", { class: "plain" }, Object.entries(failures).slice(0, 50).map(([place, why]) => h("li", {}, h("b", {}, state.names[place]), ` – ${why}`)))) : null,
    altered.length ? h("section", {}, h("h3", {}, "Changed since they were labelled or read"), named(altered)) : null,
    gone.length ? h("section", {}, h("p", {}, `${sentence}. Labels are kept, for when ${gone.length === 1 ? "it is" : "they are"} back.`),
      h("ul", { class: "plain" }, gone.slice(0, 50).map(({ text }) => h("li", { dir: "auto" }, text)))) : null,
    buttons(button("", "Close", "primary")),
  );
}
