// The detail view of one item: its content, the answer, and why.

import { confirm, label } from "./actions.js";
import { get, imageOf, post } from "./api.js";
import { isTextFile, showContent, thumbnail, verdict } from "./card.js";
import { $, announce, fill, h, icon, keepFocus, percent } from "./dom.js";
import { choice, noneOfThese } from "./sidebar.js";
import { move } from "./grid.js";
import { playButton, play } from "./sound.js";
import { changed, classOf, contradictionOf, isAnswered, labelOf, state } from "./state.js";
import { chosen, view } from "./views.js";

let shown = null;

export const isOpen = () => $("detail").open;
export const close = () => $("detail").close();

export function open() {
  const place = view.order[chosen.focus];
  if (place === undefined) return;
  chosen.places = new Set([place]);
  show(place);
  if (!isOpen()) $("detail").showModal();
  $("detail").focus(); // screen readers announce it, and it gets the keys
}

/** Show the item that has the focus now, if the detail view is open. */
export function follow() {
  if (!isOpen()) return;
  const place = view.order[chosen.focus];
  if (place === shown) return fillAnswer(place);
  show(place);
  announce(`${state.names[place]}: ${verdict(place)[3]}`);
}

/** Show the new content of an item that has changed. */
export function refresh(places) {
  if (isOpen() && places.has(shown)) show(shown);
}

/** The name of an item; that of a text in a table would be the text itself. */
const titleOf = (place) => (state.modality === "text" && !isTextFile(state.names[place]) ? `Text ${place + 1}` : state.names[place]);

function large(place) {
  if (state.modality === "image") return h("img", { class: "large", src: imageOf(place, "large"), alt: state.names[place] });
  if (state.modality === "audio") {
    play(place);
    return playButton(place, { large: true });
  }
  const box = h("div", { class: state.modality === "table" ? "cells" : "text" });
  get(`/api/items/${place}/content`).then((content) => showContent(box, content)).catch(() => {});
  return box;
}

function show(place) {
  shown = place;
  const step = (by) => () => (move(by), changed());
  const detail = $("detail");
  detail.setAttribute("aria-label", state.names[place]);
  const parts = [
    h("div", { class: "stage" }, large(place)),
    h("div", { class: "facts" },
      h("header", {}, h("h2", { dir: "auto" }, titleOf(place)), h("button", { class: "icon", "aria-label": "Close", onclick: close }, icon("close"))),
      h("div", { id: "detail-answer" }),
      h("section", {}, h("h3", { id: "why-title" }, "Why"), h("div", { id: "why", class: "why" }, h("p", { class: "muted" }, "…"))),
      h("div", { id: "detail-choices", class: "choices" }),
      h("div", { class: "actions" }, h("button", { class: "soft", onclick: step(-1) }, "← Previous"), h("button", { class: "soft", onclick: step(1) }, "Next →"))),
  ];
  keepFocus(detail, () => (detail.replaceChildren(...parts), fillAnswer(place)), detail);
  fillWhy(place);
}

function fillAnswer(place) {
  const [cls, , how, words] = verdict(place);
  const bars = isAnswered(place)
    ? [[state.best[place], state.p[place]], [state.second[place], state.p2[place]]].filter(([id]) => classOf(id))
    : [];
  const mark = { given: "Your label", likely: "Likely", doubtful: "Doubtful", novel: "Possibly none of your classes" }[how] ?? "";
  const against = contradictionOf(place);
  const look = [how, words, bars, labelOf(place), state.novelty[place], state.classes, against];
  fill($("detail-answer"), look, () => [
    h("p", { class: `verdict ${how}`, colour: cls?.colour }, h("i", { class: "dot" }), h("b", {}, cls?.name ?? `${words[0].toUpperCase()}${words.slice(1)}`), mark ? h("span", {}, mark) : null),
    h("ul", { class: "bars" }, bars.map(([id, p]) => {
      const bar = h("i", { class: "bar", colour: classOf(id).colour });
      bar.style.setProperty("--p", p);
      return h("li", {}, h("span", {}, classOf(id).name), h("b", {}, percent(p)), bar);
    })),
    against ? h("p", { class: "other" }, `Your other labels suggest ${against.suggested.name} (${percent(against.p)}).`) : null,
    isAnswered(place) ? h("p", { class: "muted" }, `Novelty ${percent(state.novelty[place])}`) : null,
    isAnswered(place) ? h("button", { class: "primary", onclick: confirm }, icon("check"), "Confirm") : null,
  ]);
  fill($("detail-choices"), [labelOf(place), state.classes], () => [
    ...state.classes.map((each) => choice(each, labelOf(place) === each.id)),
    noneOfThese(),
    labelOf(place) !== null ? h("button", { class: "choice", onclick: () => label(null) }, "Remove label") : null,
  ]);
}

async function fillWhy(place) {
  const near = await get(`/api/items/${place}/why`).catch(() => []);
  const places = near.map((each) => each.place);
  const isShort = ["text", "table"].includes(state.modality) && places.length;
  const words = isShort ? await post("/api/contents", { places }).catch(() => ({})) : {};
  if (shown !== place || !$("why")) return;
  const decided = near.some((each) => each.share);
  $("why-title").textContent = decided ? "Why: the examples that decided this answer" : "Why: your most similar examples";
  $("why").replaceChildren(
    ...(near.length
      ? near.map(({ place: other, class_id: id, cosine, share }) =>
          h("figure", { colour: classOf(id)?.colour, title: `${state.names[other]}${share ? `: ${percent(share)} of the evidence for this answer` : ""}, cosine ${cosine.toFixed(2)}` }, thumbnail(other, words[other]),
            h("figcaption", {}, h("i", { class: "dot" }), h("span", {}, classOf(id)?.name ?? "?"), share ? h("b", {}, percent(share)) : null)))
      : [h("p", { class: "muted" }, "Label some items to see the most similar ones here.")]),
  );
}
