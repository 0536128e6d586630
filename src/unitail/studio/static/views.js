// Views: which items are shown, and in which order. The order stays until it is asked for anew,
// so that nothing moves under the hand while answers change.

import { get } from "./api.js";
import { toast } from "./dom.js";
import { changed, isAnswered, labelOf, NONE, state } from "./state.js";

const places = () => [...state.names.keys()];
const by = (value) => (a, b) => value(a) - value(b) || a - b;
const NEXT = 24;

export const VIEWS = {
  next: {
    title: "Label next",
    icon: "spark",
    about: "Doubtful items that are unlike each other: labels here help most.",
  },
  doubtful: {
    title: "Most doubtful",
    icon: "doubt",
    about: "The least probable answers first.",
    marked: "doubtful",
    order: () => places().filter(isAnswered).sort(by((place) => state.p[place])),
  },
  novel: {
    title: "Most novel",
    icon: "new",
    about: "Least like any of your classes: is there one missing?",
    marked: "novel",
    order: () => places().filter(isAnswered).sort(by((place) => -state.novelty[place])),
  },
  flagged: {
    title: "Probably mislabelled",
    icon: "flag",
    about: "Labels that all the others contradict.",
    order: () =>
      (state.estimate?.suspicious ?? []).map(([place]) => place).filter((place) => labelOf(place)),
  },
  labelled: {
    title: "Labelled",
    icon: "tag",
    about: "What you said yourself.",
    order: () => places().filter((place) => labelOf(place) !== null),
  },
  all: { title: "All items", icon: "all", about: "In the order of their files or rows.", order: places },
};

export const view = { name: "all", classId: null, words: "", order: [], stale: false, busy: false };

function classOrder(id) {
  const given = places().filter((place) => labelOf(place) === id);
  const answered = places().filter((place) => isAnswered(place) && state.best[place] === id);
  return [...answered.sort(by((place) => -state.p[place])), ...given];
}

async function ordered() {
  if (view.name === "search") return get(`/api/search?q=${encodeURIComponent(view.words)}`);
  if (view.name === "next") return get(`/api/next?count=${NEXT}`);
  if (view.name === "class") return classOrder(view.classId);
  return VIEWS[view.name].order();
}

/** Show another view, or the same one in its present order. */
export async function show(name, { classId = null, words = "" } = {}) {
  const same = name === view.name && classId === view.classId && words === view.words;
  Object.assign(view, { name, classId, words, busy: true });
  changed(); // it may take a while: show that it was heard
  try {
    const order = await ordered();
    if (view.name !== name || view.words !== words || view.classId !== classId) return;
    Object.assign(view, { order, stale: false, busy: false, moved: !same });
  } catch (error) {
    toast(error.message, { bad: true });
  } finally {
    view.busy = false;
    changed();
  }
}

/** See whether the order is another one by now; the page says so, and keeps its place. */
export function checkOrder() {
  if (view.busy || ["search", "next"].includes(view.name)) return;
  const now = view.name === "class" ? classOrder(view.classId) : VIEWS[view.name].order();
  const same = now.length === view.order.length && now.every((each, i) => each === view.order[i]);
  view.stale = !same;
}

export const isDone = () => view.order.length > 0 && view.order.every((p) => labelOf(p) !== null);

/** The first view that has something to show. */
export const firstView = () => (state.classes.length && state.best.some((id) => id !== NONE) ? "next" : "all");
