// One item at large: its content, the answer, and why.

import { confirm, label } from "./actions.js";
import { get, post } from "./api.js";
import { imageOf, showContent, soundOf, verdict } from "./card.js";
import { $, announce, fill, h, icon, keepFocus, percent } from "./dom.js";
import { chosen, move } from "./grid.js";
import { changed, classOf, contradictionOf, isAnswered, labelOf, state } from "./state.js";
import { view } from "./views.js";

let shown = null;

export const isOpen = () => $("detail").open;
export const close = () => $("detail").close();

export function open() {
  const place = view.order[chosen.focus];
  if (place === undefined) return;
  chosen.places = new Set([place]);
  show(place);
  if (!isOpen()) $("detail").showModal();
  $("detail").focus(); // its name is read, and keys reach the item
}

/** Show the item that has the focus now, if this is open. */
export function follow() {
  if (!isOpen()) return;
  const place = view.order[chosen.focus];
  if (place === shown) return fillAnswer(place);
  show(place);
  announce(`${state.names[place]}: ${verdict(place)[3]}`);
}

function large(place) {
  if (state.modality === "image") return h("img", { class: "large", src: imageOf(place, "large"), alt: state.names[place] });
  if (state.modality === "audio") return h("audio", { controls: true, autoplay: true, src: soundOf(place) });
  const box = h("div", { class: state.modality === "table" ? "cells" : "text" });
  get(`/api/items/${place}/content`).then((content) => showContent(box, content)).catch(() => {});
  return box;
}

/** How a similar example looks; `content` is its text or cells, if it has such. */
function small(place, content) {
  if (state.modality === "image") return h("img", { src: imageOf(place), alt: state.names[place] });
  if (state.modality === "audio")
    return h("button", { class: "snippet", "aria-label": `Play ${state.names[place]}`, onclick: () => new Audio(soundOf(place)).play() }, `▶ ${state.names[place]}`);
  const words = Array.isArray(content) ? content.map(([name, cell]) => (state.columns[name] ? cell : `${name} ${cell}`)).join(", ") : content;
  return h("span", { class: "snippet", dir: "auto" }, words || state.names[place]);
}

function show(place) {
  shown = place;
  const step = (by) => () => (move(by), changed());
  const detail = $("detail");
  detail.setAttribute("aria-label", state.names[place]);
  const parts = [
    h("div", { class: "stage" }, large(place)),
    h("div", { class: "facts" },
      h("header", {}, h("h2", { dir: "auto" }, state.names[place]), h("button", { class: "icon", "aria-label": "Close", onclick: close }, icon("close"))),
      h("div", { id: "detail-answer" }),
      h("section", {}, h("h3", { id: "why-title" }, "Why"), h("div", { id: "why", class: "why" }, h("p", { class: "muted" }, "…"))),
      h("div", { class: "actions" }, h("button", { class: "soft", onclick: step(-1) }, "← Previous"), h("button", { class: "soft", onclick: step(1) }, "Next →"))),
  ];
  keepFocus(detail, () => (detail.replaceChildren(...parts), fillAnswer(place)), detail);
  fillWhy(place);
}

function fillAnswer(place) {
  const [known, , how, words] = verdict(place);
  const bars = isAnswered(place)
    ? [[state.best[place], state.p[place]], [state.second[place], state.p2[place]]].filter(([id]) => classOf(id))
    : [];
  const mark = { given: "Your label", likely: "Likely", doubtful: "Doubtful", novel: "Perhaps none of your classes" }[how] ?? "";
  const against = contradictionOf(place);
  const look = [how, words, bars, labelOf(place), state.novelty[place], state.classes, against];
  fill($("detail-answer"), look, () => [
    h("p", { class: `verdict ${how}`, colour: known?.colour }, h("i", { class: "dot" }), h("b", {}, known?.name ?? words), mark ? h("span", {}, mark) : null),
    h("ul", { class: "bars" }, bars.map(([id, p]) => {
      const bar = h("i", { class: "bar", colour: classOf(id).colour });
      bar.style.setProperty("--p", p);
      return h("li", {}, h("span", {}, classOf(id).name), h("b", {}, percent(p)), bar);
    })),
    against ? h("p", { class: "other" }, `Your other labels speak for ${against.known.name}, ${percent(against.p)}.`) : null,
    isAnswered(place) ? h("p", { class: "muted" }, `Novelty ${percent(state.novelty[place])}`) : null,
    h("div", { class: "choices" },
      isAnswered(place) ? h("button", { class: "primary", onclick: confirm }, icon("check"), "Confirm") : null,
      state.classes.map((each) =>
        h("button", { class: "choice", colour: each.colour, "aria-pressed": String(labelOf(place) === each.id), onclick: () => label(each.id) },
          h("i", { class: "dot" }), each.name, each.key ? h("kbd", {}, each.key) : null)),
      h("button", { class: "choice", onclick: () => label(state.limits.aside) }, "None of these", state.classes.some((each) => each.key === "0") ? null : h("kbd", {}, "0")),
      labelOf(place) !== null ? h("button", { class: "choice", onclick: () => label(null) }, "Take back") : null),
  ]);
}

async function fillWhy(place) {
  const near = await get(`/api/items/${place}/why`).catch(() => []);
  const places = near.map((each) => each.place);
  const isShort = ["text", "table"].includes(state.modality) && places.length;
  const words = isShort ? await post("/api/contents", { places }).catch(() => ({})) : {};
  if (shown !== place || !$("why")) return;
  const decided = near.some((each) => each.share);
  $("why-title").textContent = decided ? "Why: the examples that decided it" : "Why: your most similar examples";
  $("why").replaceChildren(
    ...(near.length
      ? near.map(({ place: other, class_id: id, cosine, share }) =>
          h("figure", { colour: classOf(id)?.colour, title: `${state.names[other]}${share ? `: ${percent(share)} of what speaks for the answer` : ""}, cosine ${cosine.toFixed(2)}` }, small(other, words[other]),
            h("figcaption", {}, h("i", { class: "dot" }), h("span", {}, classOf(id)?.name ?? "?"), share ? h("b", {}, percent(share)) : null)))
      : [h("p", { class: "muted" }, "Label some items, and the nearest ones show here.")]),
  );
}
