// Views: which items are shown, and in which order. The order stays until the user sorts again, so
// that nothing moves under the pointer while answers change.

import { get } from "./api.js";
import { toast } from "./dom.js";
import { changed, classOf, isAnswered, labelOf, state } from "./state.js";

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
    about: "Least like any of your classes. Is a class missing?",
    marked: "novel",
    order: () => places().filter(isAnswered).sort(by((place) => -state.novelty[place])),
  },
  flagged: {
    title: "Labels to check",
    icon: "flag",
    about: "Your other labels suggest another class. Enter keeps a label, a number corrects it.",
    order: () =>
      (state.estimate?.suspicious ?? []).map(([place]) => place).filter((place) => labelOf(place)),
  },
  labelled: {
    title: "Labelled",
    icon: "tag",
    about: "Items that you labelled.",
    order: () => places().filter((place) => labelOf(place) !== null),
  },
  all: { title: "All items", icon: "all", about: "In the order of files or rows.", order: places },
};

export const view = { name: "all", classId: null, words: "", order: [], stale: false, busy: false, since: 0 };
/** Focus and anchor are ranks; `sure` are the places that *Select … above 95 %* selected last. */
export const chosen = { places: new Set(), sure: new Set(), focus: 0, anchor: 0 };

/** Whether a view can show this class; that of items set aside counts as one. */
export const isClass = (id) => id === state.limits.aside || classOf(id) !== null;

const SLOW = 300; // milliseconds: the page shows that it is fetching what takes longer
const MAX_SKIPPED = 1000;
let offered = new Set(); // what *Label next* has shown since it was opened

function classOrder(id) {
  const given = places().filter((place) => labelOf(place) === id);
  const answered = places().filter((place) => isAnswered(place) && state.best[place] === id);
  return [...answered.sort(by((place) => -state.p[place])), ...given];
}

async function ordered(skipped) {
  if (view.name === "search") return get(`/api/search?q=${encodeURIComponent(view.words)}`);
  if (view.name === "next") return get(`/api/next?count=${NEXT}&skip=${[...skipped].slice(-MAX_SKIPPED).join("+")}`);
  if (view.name === "class") return classOrder(view.classId);
  return VIEWS[view.name].order();
}

/** Show a view, sorted anew; `others` asks for suggestions that *Label next* has not shown yet. */
export async function show(name, { classId = null, words = "", others = false } = {}) {
  const same = name === view.name && classId === view.classId && words === view.words;
  if (!same) offered = new Set();
  history.replaceState(null, "", `#${addressOf(name, classId, words)}`);
  Object.assign(view, { name, classId, words, busy: true, since: Date.now() });
  changed(); // fetching may take a while: show that the view has changed
  setTimeout(changed, SLOW + 10);
  const isWanted = () => view.name === name && view.words === words && view.classId === classId;
  try {
    const order = await ordered(others ? offered : []);
    if (!isWanted()) return;
    if (others && order.some((place) => offered.has(place))) offered = new Set(); // all were shown
    for (const place of name === "next" ? order : []) offered.add(place);
    const moved = !same || name === "next";
    Object.assign(view, { order, stale: false, moved });
    // At once: a key that is pressed before the next frame is meant for the first new item.
    if (moved) Object.assign(chosen, { places: new Set(), focus: 0, anchor: 0 });
  } catch (error) {
    toast(error.message, { bad: true });
  } finally {
    if (isWanted()) view.busy = false;
    changed();
  }
}

/** Whether fetching the items of this view is taking a while. */
export const isFetching = () => view.busy && Date.now() - view.since >= SLOW;

/** Check whether sorting again would change the order; the page offers it, but does not move. */
export function checkOrder() {
  if (view.busy || ["search", "next"].includes(view.name)) return;
  const now = view.name === "class" ? classOrder(view.classId) : VIEWS[view.name].order();
  const isKept = view.order.every((each, i) => each === now[i]);
  if (view.name === "all" && isKept && now.length > view.order.length) view.order = now; // new items move nothing
  view.stale = !isKept || now.length !== view.order.length;
}

export const isDone = () => view.order.length > 0 && view.order.every((p) => labelOf(p) !== null);

/** The first view that has something to show. */
export const firstView = () => (state.classes.length && places().some(isAnswered) ? "next" : "all");

const addressOf = (name, classId, words) =>
  new URLSearchParams(name === "class" ? { class: classId } : name === "search" ? { search: words } : { view: name });

/** The view in the page's address, which survives a reload; otherwise the first one. */
export function viewOfAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  const classId = Number(address.get("class") ?? NaN);
  if (isClass(classId)) return ["class", { classId }];
  if (address.get("search")) return ["search", { words: address.get("search") }];
  return [address.get("view") in VIEWS ? address.get("view") : firstView(), {}];
}
