// How one item looks in the grid.

import { post } from "./api.js";
import { h, icon, percent } from "./dom.js";
import * as store from "./state.js";
import { state } from "./state.js";

const contents = new Map(); // place -> text or cells
let wanted = new Set();
let waiting = 0;

/** Ask for texts and rows of the cards that are shown, all at once. */
function want(place) {
  wanted.add(place);
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    const places = [...wanted].slice(0, 400);
    wanted = new Set();
    const told = await post("/api/contents", { places }).catch(() => ({}));
    for (const [each, content] of Object.entries(told)) contents.set(Number(each), content);
    store.changed();
  }, 15);
}

export const forget = (place) => contents.delete(place);
export const forgetAll = () => contents.clear();

/** What an address ends with, so that nothing of another studio or of an older file is shown. */
const edition = (place) => `v=${state.boot}${state.progress.changed.includes(place) ? Date.now() : ""}`;

export const imageOf = (place, size = "small") =>
  `/api/items/${place}/image?size=${size}&${edition(place)}`;

export const soundOf = (place) => `/api/items/${place}/sound?${edition(place)}`;

export const isTextFile = (name) => /\.(txt|text|md)$/i.test(name);

function media(place) {
  if (state.modality === "image") {
    const picture = h("img", { src: imageOf(place), alt: "", loading: "lazy", decoding: "async" });
    picture.draggable = false;
    picture.addEventListener("error", () => picture.replaceWith(h("span", { class: "broken" }, "no picture")));
    return h("div", { class: "picture" }, picture);
  }
  if (state.modality === "audio") {
    const player = h("audio", { controls: true, controlsList: "nodownload noplaybackrate", preload: "none", src: soundOf(place), tabIndex: -1 });
    return h("div", { class: "player" }, player);
  }
  return h("div", { class: state.modality === "table" ? "cells" : "text" });
}

export function showContent(box, content) {
  if (content === undefined || content === null) return;
  if (typeof content === "string") {
    box.textContent = content || "(empty)";
    box.dir = "auto"; // of its first word
  } else
    box.replaceChildren(h("dl", {}, content.flatMap(([name, cell]) => {
      const kind = state.columns[name] ? "long" : "";
      return [h("dt", { class: kind }, name), h("dd", { class: kind, dir: "auto" }, cell || "–")];
    })));
}

/** Say what an item is believed to be: [class, probability or null, state, words]. */
export function verdict(place) {
  const failure = store.failureOf(place);
  const label = store.labelOf(place);
  const known = store.classOf(label);
  if (known) return [known, null, "given", `labelled ${known.name}`];
  if (store.isAside(place)) return [null, null, "aside", "none of the classes"];
  if (failure) return [null, null, "failed", failure];
  if (!state.encoded[place]) return [null, null, "waiting", "not encoded yet"];
  const best = store.classOf(state.best[place]);
  if (!best) return [null, null, "open", "no answer yet"];
  const how = store.isNovel(place) ? "novel" : store.isDoubtful(place) ? "doubtful" : "likely";
  return [best, state.p[place], how, `${best.name}, ${percent(state.p[place])}${how === "likely" ? "" : `, ${how}`}`];
}

const WORDS = { aside: "None of these", failed: "Unreadable", waiting: "Waiting", open: "No answer yet" };

/** What a screen reader is told besides: colours and signs say it to the eye. */
const SAID = { given: "your label", doubtful: "doubtful", novel: "perhaps none of your classes" };

export function makeCard(place) {
  const card = h("div", { class: "card", role: "option", id: `item-${place}`, draggable: true });
  card.dataset.place = place;
  card.dataset.name = state.names[place];
  const foot = h("div", { class: "foot" });
  card.append(media(place), h("span", { class: "tick" }, icon("check")), foot);
  updateCard(card, place, {});
  return card;
}

/** Bring a card up to date, touching only what is different. */
export function updateCard(card, place, { selected = false, focused = false, at = 0, of = 0 }) {
  const [known, p, how, words] = verdict(place);
  const rank = `${selected}|${focused}|${at}|${of}`;
  if (card.rank !== rank) {
    card.rank = rank;
    card.classList.toggle("focused", focused);
    card.setAttribute("aria-selected", selected);
    card.setAttribute("aria-posinset", at + 1);
    card.setAttribute("aria-setsize", of);
  }
  if (!["image", "audio"].includes(state.modality) && !card.filled) {
    if (contents.has(place)) {
      showContent(card.firstChild, contents.get(place));
      card.filled = true;
    } else want(place);
  }
  const other = store.contradictionOf(place)?.known;
  const look = `${known?.id}|${known?.name}|${p}|${how}|${words}|${other?.name}`;
  if (card.look === look) return;
  card.look = look;
  card.dataset.state = how;
  card.style.setProperty("--c", known?.colour ?? "var(--muted)");
  const name = state.modality === "text" && !isTextFile(state.names[place]) ? "" : state.names[place];
  const meter = h("span", { class: "meter" });
  meter.style.setProperty("--p", p ?? 0);
  const parts = [
    h("span", { class: "chip" }, h("i", { class: "dot" }), h("b", {}, known?.name ?? WORDS[how] ?? "")),
    other ? h("span", { class: "p other" }, `${other.name}?`) : how === "given" ? icon("check") : h("span", { class: "p" }, p === null ? "" : percent(p)),
    p === null ? null : meter,
    h("span", { class: "unseen" }, SAID[how] ?? "", name ? "" : `, ${state.names[place]}`),
    h("bdi", { class: "name", title: state.names[place] }, name),
  ];
  card.lastChild.replaceChildren(...parts.filter(Boolean));
}
