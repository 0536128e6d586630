// The card of one item in the grid.

import { imageOf, post } from "./api.js";
import { h, icon, percent } from "./dom.js";
import { playButton } from "./sound.js";
import * as store from "./state.js";
import { state } from "./state.js";

const contents = new Map(); // place -> text or cells
let requested = new Set();
let waiting = 0;

/** Request the contents of visible cards, many in one request. */
function requestContent(place) {
  requested.add(place);
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    const places = [...requested].slice(0, 400);
    requested = new Set();
    const reply = await post("/api/contents", { places }).catch(() => ({}));
    for (const [each, content] of Object.entries(reply)) contents.set(Number(each), content);
    store.changed();
  }, 15);
}

export const forget = (place) => contents.delete(place);
export const forgetAll = () => contents.clear();

export const isTextFile = (name) => /\.(txt|text|md)$/i.test(name);

function media(place) {
  if (state.modality === "image") {
    const picture = h("img", { src: imageOf(place), alt: "", loading: "lazy", decoding: "async" });
    picture.draggable = false;
    picture.addEventListener("error", () => picture.replaceWith(h("span", { class: "broken" }, "no image")));
    return h("div", { class: "picture" }, picture);
  }
  if (state.modality === "audio") return h("div", { class: "player" }, playButton(place, { onCard: true }));
  return h("div", { class: state.modality === "table" ? "cells" : "text" });
}

export function showContent(box, content) {
  if (content === undefined || content === null) return;
  if (typeof content === "string") {
    box.textContent = content || "(empty)";
    box.dir = "auto"; // the direction of its first word
  } else
    box.replaceChildren(h("dl", {}, content.flatMap(([name, cell]) => {
      const kind = state.columns[name] ? "long" : "";
      return [h("dt", { class: kind }, name), h("dd", { class: kind, dir: "auto" }, cell || "–")];
    })));
}

/** A small preview of an item; `content` is its text or cells, if it has any. */
export function thumbnail(place, content = contents.get(place)) {
  if (state.modality === "image") return h("img", { src: imageOf(place), alt: state.names[place] });
  if (state.modality === "audio") return h("div", { class: "snippet" }, playButton(place), h("span", { dir: "auto" }, state.names[place]));
  const words = Array.isArray(content) ? content.map(([name, cell]) => (state.columns[name] ? cell : `${name} ${cell}`)).join(", ") : content;
  return h("span", { class: "snippet" }, h("span", { dir: "auto" }, words || state.names[place]));
}

/** The label or answer of an item: [class, probability or null, state, words]. */
export function verdict(place) {
  const failure = store.failureOf(place);
  const label = store.labelOf(place);
  const labelled = store.classOf(label);
  if (labelled) return [labelled, null, "given", `labelled ${labelled.name}${failure ? `, but ${failure}` : ""}`];
  if (store.isAside(place)) return [null, null, "aside", "none of the classes"];
  if (failure) return [null, null, "failed", failure];
  if (!state.encoded[place]) return [null, null, "waiting", "not encoded yet"];
  const best = store.classOf(state.best[place]);
  if (!best) return [null, null, "open", "no answer yet"];
  const how = store.isNovel(place) ? "novel" : store.isDoubtful(place) ? "doubtful" : "likely";
  return [best, state.p[place], how, `${best.name}, ${percent(state.p[place])}${how === "likely" ? "" : `, ${how}`}`];
}

/** What is shown beside the class of an item. */
function markOf(how, p, other, failure) {
  if (how === "given" && failure) return [h("b", { class: "bad", title: failure }, "unreadable")];
  if (other) return [`${other.name}?`];
  if (how === "given") return [icon("check")];
  return [p === null ? "" : percent(p)];
}

const WORDS = { aside: "None of these", failed: "Unreadable", waiting: "Waiting", open: "No answer yet" };

/** Extra words for screen readers, for what is otherwise shown by colours and icons. */
const SAID = { given: "your label", doubtful: "doubtful", novel: "possibly none of your classes" };

export function makeCard(place) {
  const card = h("div", { class: "card", role: "option", id: `item-${place}`, draggable: true });
  card.dataset.place = place;
  card.dataset.name = state.names[place];
  const foot = h("div", { class: "foot" });
  card.append(media(place), h("span", { class: "tick" }, icon("check")), foot);
  updateCard(card, place, {});
  return card;
}

/** Update a card, changing only what is different. */
export function updateCard(card, place, { selected = false, focused = false, at = 0, of = 0 }) {
  const [cls, p, how, words] = verdict(place);
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
    } else requestContent(place);
  }
  const other = store.contradictionOf(place)?.suggested;
  const look = `${cls?.id}|${cls?.name}|${p}|${how}|${words}|${other?.name}`;
  if (card.look === look) return;
  card.look = look;
  card.dataset.state = how;
  const failure = store.failureOf(place);
  card.classList.toggle("unreadable", failure !== null);
  card.style.setProperty("--c", cls?.colour ?? "var(--muted)");
  const name = state.modality === "text" && !isTextFile(state.names[place]) ? "" : state.names[place];
  const meter = h("span", { class: "meter" });
  meter.style.setProperty("--p", p ?? 0);
  const parts = [
    h("span", { class: "chip" }, h("i", { class: "dot" }), h("b", {}, cls?.name ?? WORDS[how] ?? "")),
    h("span", { class: other ? "p other" : "p" }, ...markOf(how, p, other, failure)),
    p === null ? null : meter,
    h("span", { class: "unseen" }, SAID[how] ?? "", name ? "" : `, ${state.names[place]}`),
    h("bdi", { class: "name", title: state.names[place] }, name),
  ];
  card.lastChild.replaceChildren(...parts.filter(Boolean));
}
