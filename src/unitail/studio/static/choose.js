// A class by its name, for whoever has more classes than there are keys.

import { label } from "./actions.js";
import { ask } from "./dialogs.js";
import { $, h } from "./dom.js";
import { state } from "./state.js";

const plain = (words) => words.trim().toLocaleLowerCase();

/** Classes whose names hold these words; those that begin with them come first. */
function matching(words) {
  const place = (each) => plain(each.name).indexOf(plain(words));
  return state.classes.filter((each) => place(each) >= 0).sort((a, b) => Math.sign(place(a)) - Math.sign(place(b)));
}

/** Ask for a class, and label what is selected. */
export async function chooseClass() {
  const input = h("input", { "aria-label": "Name of a class, or how it begins", autocomplete: "off", placeholder: "The first letters, then Enter" });
  const list = h("div", { class: "choices tall" });
  const fill = () => {
    const found = matching(input.value).map((each) => h("button", { class: "choice", colour: each.colour, value: String(each.id) }, h("i", { class: "dot" }), each.name));
    list.replaceChildren(...(found.length ? found : [h("p", { class: "muted" }, "No class is called so.")]));
  };
  input.addEventListener("input", fill);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // the first button of the form closes it
    const [first] = matching(input.value);
    if (first) $("dialog").close(String(first.id));
  });
  fill();
  const answer = ask("Label as", h("label", { class: "field" }, "Class", input), list);
  input.focus();
  const id = await answer;
  if (id) label(Number(id));
}
