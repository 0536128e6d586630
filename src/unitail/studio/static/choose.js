// Choosing a class or a view by its name, for studios with more of them than keys.

import { addClass, label, labelAs, selection } from "./actions.js";
import { ask } from "./dialogs.js";
import { $, h, icon } from "./dom.js";
import { go } from "./sidebar.js";
import { counts, state } from "./state.js";
import { VIEWS } from "./views.js";

const plain = (words) => words.trim().toLocaleLowerCase();

/** The choices whose names contain these words; names that begin with them come first. */
function matching(all, words) {
  const place = (each) => plain(each.name).indexOf(plain(words));
  return all.filter((each) => place(each) >= 0).sort((a, b) => Math.sign(place(a)) - Math.sign(place(b)));
}

/** The choice to create a class of this name, unless there is one. */
const newOne = (all, words) =>
  words.trim() && !all.some((each) => plain(each.name) === plain(words)) ? [{ value: "new", name: `Create “${words.trim()}”`, sign: "plus" }] : [];

/** Ask for one of `all`, each with a value and a name; resolves with the value and the text typed. */
async function choose(title, what, all, { canCreate = false } = {}) {
  const input = h("input", { "aria-label": `Name of ${what}, or its first letters`, autocomplete: "off", placeholder: "First letters, then Enter", autofocus: true });
  const list = h("div", { class: "choices tall" });
  const choices = () => [...matching(all, input.value), ...(canCreate ? newOne(all, input.value) : [])];
  const fill = () => {
    const buttons = choices().map((each) =>
      h("button", { class: "choice", colour: each.colour, value: each.value }, each.sign ? icon(each.sign) : h("i", { class: "dot" }), h("span", {}, each.name)));
    list.replaceChildren(...(matching(all, input.value).length ? [] : [h("p", { class: "muted" }, `No ${what.split(" ")[1]} has this name.`)]), ...buttons);
  };
  input.addEventListener("input", fill);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    const [first] = choices();
    if (first) $("dialog").close(first.value);
  });
  fill();
  return [await ask(title, h("label", { class: "field" }, "Name", input), list), input.value.trim()];
}

const classes = () => state.classes.map(({ id, name, colour }) => ({ value: String(id), name, colour }));

/** Ask for a class, and label the selected items with it. */
export async function chooseClass() {
  const places = selection();
  const [answer, words] = await choose("Label as", "a class", classes(), { canCreate: true });
  if (answer !== "new") return answer && label(Number(answer));
  const made = await addClass(words);
  if (made) await labelAs(places, made.class_id);
}

/** Ask for a view, or a class, and show it. */
export async function chooseView() {
  const views = Object.entries(VIEWS).map(([value, each]) => ({ value, name: each.title, sign: each.icon }));
  const aside = counts().aside ? [{ value: String(state.limits.aside), name: "None of these" }] : [];
  const [answer] = await choose("Go to", "a view", [...views, ...classes(), ...aside]);
  if (answer) go(...(answer in VIEWS ? [answer] : ["class", { classId: Number(answer) }]));
}
